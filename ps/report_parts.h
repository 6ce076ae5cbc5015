// Reports about many slices, cut into messages that their receiver takes.
//
//   SendInParts(report, part_bytes, MemberSession::kChief, effects);
//
// A slice's finished set has an interval for each lease that ended out of order, and a ps may hold tens of thousands of
// slices: one list of all of them outgrows codec.h. One slice's set never does (ps/lease_counters.h), so a part holds
// whole slices. Each part stands for itself: parts may be lost, doubled and overtaken like any message.
// Units: bytes as they travel, roughly.
// Tests: tests/unit/ps/report_parts_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/role.h"
#include "schema/message.h"

namespace downpour {

// Small beside the seconds of dead_after on a slow link, which heartbeats share; large beside a message's own cost.
inline constexpr uint64_t kReportPartBytes = uint64_t{256} << 10;

template <typename Item>
uint64_t BytesOnTheWay(const Item& item) {
  constexpr uint64_t kItem = 64;
  constexpr uint64_t kInterval = 16;
  uint64_t bytes = kItem + kInterval * item.finished.IntervalCount();
  if constexpr (requires { item.error; }) bytes += item.error.size();
  return bytes;
}

// `report` is a SliceReport or a ShardWritten: each part has its other fields. Without slices it is one part.
template <typename Report>
void SendInParts(Report report, uint64_t part_bytes, PeerId to, Effects& effects) {
  auto items = std::exchange(report.slices, {});
  Report part = report;
  uint64_t bytes = 0;
  for (auto& item : items) {
    const uint64_t more = BytesOnTheWay(item);
    if (!part.slices.empty() && bytes + more > part_bytes) {
      effects.SendTo(to, std::exchange(part, report));
      bytes = 0;
    }
    part.slices.push_back(std::move(item));
    bytes += more;
  }
  effects.SendTo(to, std::move(part));
}

}  // namespace downpour
