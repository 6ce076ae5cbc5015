#include "tests/sim/rules.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace downpour {

void Rules::Add(const Process& process, const std::string& what) const {
  world_->findings().Add(absl::StrCat(process.name, "#", static_cast<uint32_t>(process.life), ": ", what));
}

bool Rules::IsThere(const Process& chief, TaskRole role, Incarnation one) {
  const std::vector<Incarnation> alive = chief.chief->alive(role);
  return std::ranges::find(alive, one) != alive.end();
}

uint64_t Rules::RejectedBy(const Process& member) {
  return (member.ps != nullptr ? member.ps->stats() : member.worker->stats()).messages_rejected;
}

}  // namespace downpour
