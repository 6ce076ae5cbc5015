#include "service/status_answer.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

using nlohmann::json;

int RankOf(const TaskReport& task) {
  static const std::map<std::string, int> ranks = {
      {"LOST", 0}, {"REFUSED", 1}, {"PENDING", 2}, {"PREPARING", 3}, {"LEFT", 5}};
  const auto found = ranks.find(task.state);
  return found == ranks.end() ? 4 : found->second;
}

// Of what waits for the same, the first few. Returns how many of each group are left out, and how long they wait.
json ShortenWaits(std::vector<WaitReport>* waits) {
  struct Group {
    size_t seen = 0;
    MaybeNumber seconds;
  };
  std::map<std::pair<std::string, std::string>, Group> groups;
  std::erase_if(*waits, [&](const WaitReport& wait) {
    Group& group = groups[{wait.on, wait.why}];
    if (++group.seen <= kWaitsOfAGroup) return false;
    if (wait.seconds) group.seconds = std::max(*wait.seconds, group.seconds.value_or(0));
    return true;
  });
  json more = json::array();
  for (const auto& [what, group] : groups) {
    if (group.seen <= kWaitsOfAGroup) continue;
    more.push_back({{"for", what.first}, {"why", what.second}, {"count", group.seen - kWaitsOfAGroup}});
    if (group.seconds) more.back()["seconds"] = *group.seconds;
  }
  return more;
}

template <typename List>
void KeepFirst(size_t most, List* list) {
  if (list->size() > most) list->erase(list->begin() + static_cast<std::ptrdiff_t>(most), list->end());
}

}  // namespace

std::string StatusAnswer(const std::string& state, const Answer& answer, std::optional<size_t> most_tasks) {
  const auto whole = [&](const char* what, const std::string& text, const std::string& more) {
    return absl::StrCat("{\"state\":\"", state, "\",\"", what, "\":", text, more, "}");
  };
  if (!answer.status) return whole("summary", answer.json, "");
  if (!most_tasks) return whole("status", answer.json, "");
  StatusReport some = *answer.status;
  const size_t tasks = some.tasks.size();
  std::stable_sort(some.tasks.begin(), some.tasks.end(),
                   [](const TaskReport& a, const TaskReport& b) { return RankOf(a) < RankOf(b); });
  KeepFirst(*most_tasks, &some.tasks);
  KeepFirst(kMostLines, &some.pending);
  KeepFirst(kMostLines, &some.spares);
  const json more = ShortenWaits(&some.waits);
  return whole("status", ToJson(some), absl::StrCat(",\"tasks\":", tasks, ",\"moreWaits\":", more.dump()));
}

}  // namespace downpour
