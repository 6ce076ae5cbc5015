#include "service/turns.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cluster/human_units.h"
#include "schema/text.h"

namespace downpour {
namespace {

std::string Bytes(uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

// What of the three is more than there is, as "needs 4 cores, and 3 of 8 are free".
std::vector<std::string> Shortages(const Room& need, const Room& free, const Room& all) {
  std::vector<std::string> shortages;
  if (need.cores > free.cores) {
    shortages.push_back(
        absl::StrCat(Counted(static_cast<uint64_t>(need.cores), "core"), ", ", free.cores, " of ", all.cores, " free"));
  }
  if (need.memory > free.memory) {
    shortages.push_back(absl::StrCat("about ", Bytes(need.memory), " of memory, ", Bytes(free.memory), " of ",
                                     Bytes(all.memory), " free"));
  }
  if (need.gpus > free.gpus) {
    shortages.push_back(
        absl::StrCat(Counted(static_cast<uint64_t>(need.gpus), "GPU"), ", ", free.gpus, " of ", all.gpus, " free"));
  }
  return shortages;
}

std::string WhyNever(const Room& need, const Room& all) {
  if (need.gpus > all.gpus) {
    return absl::StrCat("it asks for ", Counted(static_cast<uint64_t>(need.gpus), "GPU"), ", and jobs may have ",
                        all.gpus, " here: ask for fewer, or start the service with --gpus where there are more");
  }
  if (need.memory <= all.memory) return "";
  return absl::StrCat("it needs about ", Bytes(need.memory), " of memory, and jobs may have ", Bytes(all.memory),
                      " here: choose fewer workers, a smaller model or batch, or start the service with another "
                      "--memory");
}

}  // namespace

Turns TakeTurns(const std::vector<Job>& unfinished, const std::vector<Room>& needs, const Room& all) {
  const auto needed = [&](size_t i) {
    Room need = needs[i];
    need.cores = std::min(need.cores, all.cores);
    return need;
  };
  Room free = all;
  const auto take = [&free](const Room& need) {
    free.cores -= std::min(need.cores, free.cores);
    free.memory -= std::min(need.memory, free.memory);  // a service that was started with less may be over its limit
    free.gpus -= std::min(need.gpus, free.gpus);
  };
  for (size_t i = 0; i < unfinished.size(); ++i) {
    if (unfinished[i].state != JobState::kQueued) take(needed(i));
  }
  Turns turns;
  std::string first;  // that waits
  for (size_t i = 0; i < unfinished.size(); ++i) {
    const Job& job = unfinished[i];
    if (job.state != JobState::kQueued) continue;
    const Room need = needed(i);
    const std::vector<std::string> shortages = Shortages(need, free, all);
    if (const std::string why = WhyNever(need, all); !why.empty()) {
      turns.refused[job.name] = why;
    } else if (!first.empty()) {
      turns.waits[job.name] =
          absl::StrCat("waits behind ", first, ", which came before it", PlaceInQueue(turns.waits.size() + 1));
    } else if (!shortages.empty()) {
      first = job.name;
      turns.waits[job.name] = absl::StrCat("waits for ", absl::StrJoin(shortages, "; "));
    } else {
      take(need);
      turns.admitted.push_back(job.name);
    }
  }
  return turns;
}

std::string PlaceInQueue(size_t place) {
  return place < 2 ? "" : absl::StrCat("; it is number ", place, " in the queue");
}

std::map<std::string, std::string> WaitsOfSearches(const std::vector<Job>& unfinished,
                                                   const std::map<std::string, std::string>& waits) {
  std::map<std::string, std::string> of_searches;
  for (const Job& job : unfinished) {
    const auto wait = waits.find(job.name);
    if (TrialNumber(job.name) == 0 || wait == waits.end()) continue;
    of_searches.emplace(job.name.substr(0, job.name.find('/')),
                        absl::StrCat("trial ", TrialNumber(job.name), " ", wait->second));
  }
  return of_searches;
}

}  // namespace downpour
