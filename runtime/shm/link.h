// A connection between two processes of one host through memory that they share (runtime/link.h). The listener is a
// ps, the dialler one that pulls from it.
//
//   SharedLink link(SharedLink::Side::kDialler, control, std::move(socket), &arena);
//   if (link.Send(now, std::move(frames)) != Link::Sending::kSent) ...say it over ZeroMQ...
//
// Headers and small frames are copied through a ring (ring.h). Larger ones stay where they lie in the sender's arena:
// the record says where, and the sender holds them until the receiver gives them back. A dialler reads them in place. A
// listener copies them first: what it checks must be what it applies, whatever the other one writes meanwhile.
//
// A socket beside the memory carries what needs the kernel: the descriptors of chunks, a byte to wake a peer that
// waits, and the news that it is gone.
//
// Both may live on when a link ends, as where a key is taken away. So whoever ends it parts: it tells the other, and
// keeps what it lent as it is until that was given back. What was read in place holds the socket, too: once a socket is
// closed, nothing is read any more.
//
// Order: as Link. What a peer said before it went, or parted, is received, if it was whole.
// Cost: no system call while both are busy; one for whoever wakes the other.
// Errors: kBusy where a message does not fit now: it can go another way. After a peer that broke the rules, or went,
//   nothing is sent and ended() is true once all is received.
// Threads: one; a received frame may be dropped on any.
// Tests: tests/unit/runtime/shm/link_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/link.h"
#include "runtime/posix/fd.h"
#include "runtime/shm/arena.h"
#include "runtime/shm/memory.h"
#include "runtime/shm/ring.h"
#include "schema/limits.h"

namespace downpour {

class SharedLink : public Link {
 public:
  enum class Side { kListener, kDialler };
  static constexpr size_t kRingBytes = size_t{512} << 10;
  // Frames by reference at a time: a dialler holds the values of all slices, of several versions.
  static constexpr size_t kSlots = size_t{1} << 15;
  // Up to here two copies cost less than a reference, and a page of values holds no stranger's.
  static constexpr size_t kInlineBytes = size_t{4} << 10;
  // Of one message: no honest one has more.
  static constexpr size_t kMostBytes = kMaxHeaderBytes + 2 * kMaxMessagePayload;
  static constexpr size_t kControlBytes = (size_t{1} << 20) + (size_t{1} << 19);  // of the memory that both write

  // `control`: zeros at first, of kControlBytes. `socket`: of packets, connected to the peer. `arena` outlives all.
  SharedLink(Side side, std::shared_ptr<SharedMemory> control, UniqueFd socket, SharedArena* arena);
  SharedLink(const SharedLink&) = delete;
  ~SharedLink() override;

  Receipt Receive(Time now, std::vector<Payload>* frames) override;
  Sending Send(Time now, std::vector<Payload>&& frames) override;
  bool Drained() override;
  int fd() const override { return socket_->get(); }
  uint64_t bytes_in() const override { return bytes_in_; }
  uint64_t bytes_out() const override { return bytes_out_; }

  // The descriptor is readable.
  void NoteReadable() { readable_ = true; }
  bool ended() const { return broken_ || (gone_ && empty_); }
  bool broken() const { return broken_ && !is_short_; }  // it broke the rules

  // Nothing is said or heard any more. The link must stay until HasParted: else what was lent would be written to while
  // the peer reads it.
  void Part();
  bool HasParted();

 private:
  struct FrameHead;
  struct Control;
  struct Held {
    Payload frame;  // empty: the slot is free
    uint32_t turn = 0;
  };
  bool Refer(const Payload& frame, Payload* placed, FrameHead* head);
  bool HandOverChunks(uint32_t last);
  void TakeBack(size_t most);
  void ReadSocket();
  void TakeChunk(UniqueFd fd);
  bool ReadRecord(std::vector<Payload>* frames);
  bool ReadFrame(const FrameHead& head, size_t* inline_at, Payload* frame);

  const Side side_;
  const std::shared_ptr<SharedMemory> control_;
  const std::shared_ptr<UniqueFd> socket_;  // as long as something is read in place
  SharedArena& arena_;
  Control& shared_;
  RingWriter writer_;
  RingReader reader_;

  std::vector<Held> held_;                             // by slot, as far as they were used
  std::vector<uint32_t> free_;                         // slots
  std::vector<uint32_t> lent_;                         // slots, in no order
  size_t next_look_ = 0;                               // in lent_
  size_t chunks_handed_ = 0;                           // of our arena
  std::vector<std::shared_ptr<SharedMemory>> chunks_;  // of the peer's
  std::string record_;                                 // scratch
  std::vector<FrameHead> heads_;                       // scratch, as is the next
  std::vector<Payload> placed_;
  uint64_t bytes_in_ = 0;
  uint64_t bytes_out_ = 0;
  bool asked_ = false;     // to be woken
  bool readable_ = false;  // the socket
  bool gone_ = false;      // the peer says no more than what is in the ring
  bool closed_ = false;    // nor does it read anything
  bool broken_ = false;
  bool is_short_ = false;  // broken for want of memory here
  bool empty_ = false;     // the ring, when it was last looked at
};

}  // namespace downpour
