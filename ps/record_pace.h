// When the next slice record is made for a checkpoint.
//
// While workers keep this ps busy, a record is paid for by what it moves for them, so that a checkpoint costs them a
// small share; what that leaves open is paid by time, so that it ends however slow they are. While none comes, records
// are free.
//
// Units: bytes of records, and of gradients and values on the wire.
// Order: Served with each message of a worker, Tick with each Tick of the role.
// Tests: tests/unit/ps/record_pace_test.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

namespace downpour {

class RecordPace {
 public:
  // Bytes moved for workers that pay for one of a record. Where all share one machine, a record costs as much as seven
  // times its size moved for workers: it also goes through the chief into fresh pages of a file, and to the disk.
  static constexpr size_t kServedPerByte = 48;
  // Paid from one Tick to the next at least: at one every 20 ms, a GiB of records takes at most 41 s, whatever the size
  // of each, since less than this is lent and nothing that is paid is lost while records wait.
  static constexpr size_t kPaidByTick = size_t{512} << 10;

  void Served(size_t bytes) {
    served_ += bytes;
    Pay(bytes / kServedPerByte);
  }
  void Tick() {
    const size_t paid = served_ / kServedPerByte;
    busy_ = std::exchange(served_, 0) > 0;
    Pay(busy_ ? kPaidByTick - std::min(kPaidByTick, paid) : owed_);
  }

  bool Allows() const { return owed_ < kPaidByTick; }
  void Made(size_t bytes) { owed_ += busy_ ? bytes : 0; }

 private:
  void Pay(size_t bytes) { owed_ -= std::min(owed_, bytes); }

  bool busy_ = false;  // a worker was served between the last two Ticks
  size_t served_ = 0;  // since the last Tick
  size_t owed_ = 0;    // of records that were made
};

}  // namespace downpour
