#include "cluster/progress.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cluster/human_units.h"

namespace downpour {
namespace {

std::string Epochs(const StatusReport& status) {
  const MaybeNumber done = EpochsDone(status);
  if (!done || status.progress.epochs.value_or(0) == 0) return status.state;
  const double share = std::min(1.0, *done / *status.progress.epochs);
  return absl::StrFormat("epoch %.1f/%.0f (%.0f %%)", *done, *status.progress.epochs, 100 * share);
}

std::string Workers(const StatusReport& status) {
  std::set<std::string> alive, all;
  for (const TaskReport& task : status.tasks) {
    if (task.role != "worker") continue;
    all.insert(task.name);
    if (task.state == "RUNNING" || task.state == "PREPARING") alive.insert(task.name);
  }
  for (const PendingReport& pending : status.pending) {
    if (pending.task.starts_with("worker")) all.insert(pending.task);
  }
  return absl::StrCat(alive.size(), "/", all.size(), " workers");
}

// Who waits, and who is waited for. Last who has nothing to do, since that follows from somebody else's wait.
std::vector<std::string> Reasons(const StatusReport& status) {
  std::vector<std::string> reasons, idle;
  for (const WaitGroup& wait : GroupWaits(status.waits)) {
    std::vector<std::string>& list = wait.on == "work" ? idle : reasons;
    list.push_back(absl::StrCat(HumanNames(wait.tasks), wait.tasks.size() == 1 ? " waits for " : " wait for ", wait.on,
                                wait.why.empty() ? "" : ": " + wait.why));
  }
  for (const PendingReport& pending : status.pending) {
    reasons.push_back(absl::StrCat(pending.task, " ", pending.why));
  }
  reasons.insert(reasons.end(), idle.begin(), idle.end());
  return reasons;
}

}  // namespace

std::string ProgressLine(const StatusReport& status) {
  const std::vector<std::string> reasons = Reasons(status);
  if (status.state == "QUEUED" || status.state == "PREPARING") {
    return absl::StrCat(status.state, reasons.empty() ? "" : ": ", absl::StrJoin(reasons, "; "));
  }
  std::vector<std::string> parts = {Epochs(status)};
  if (status.state != "RUNNING") parts.insert(parts.begin(), status.state);
  if (status.progress.examples_per_second)
    parts.push_back(HumanCount(*status.progress.examples_per_second) + " examples/s");
  if (status.progress.loss) parts.push_back("loss " + HumanLoss(*status.progress.loss));
  if (status.staleness.mean) parts.push_back(absl::StrFormat("staleness %.1f", *status.staleness.mean));
  if (!HasEnded(status)) parts.push_back(Workers(status));  // they leave one by one then, and nobody lacks them
  if (status.remaining) parts.push_back(HumanSeconds(*status.remaining) + " left");
  if (!status.diverging.empty()) parts.push_back("DIVERGING: " + status.diverging);
  if (!status.stalled.empty()) {
    parts.push_back(status.stalled);
  } else if (!reasons.empty()) {
    const size_t others = reasons.size() - 1;
    parts.push_back(absl::StrCat(reasons[0], others == 0 ? "" : absl::StrCat(" (and ", others, " more)")));
  }
  return absl::StrJoin(parts, " | ");
}

std::string FitLine(std::string line, int columns) {
  int column = 0;
  bool in_escape = false, colored = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\x1b') in_escape = colored = true;
    const bool starts_character = !in_escape && (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    if (in_escape && c == 'm') in_escape = false;
    if (starts_character && ++column > columns) {
      line.resize(i);
      return colored ? line + "\x1b[0m" : line;
    }
  }
  return line;
}

}  // namespace downpour
