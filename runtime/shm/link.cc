#include "runtime/shm/link.h"

#include <glog/logging.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/shm/closing.h"
#include "runtime/shm/packet.h"
#include "schema/limits.h"

namespace downpour {
namespace {

constexpr uint32_t kInline = UINT32_MAX;  // in place of a chunk: the bytes follow in the record
// All chunks of a peer may be there at once. Each wish to wait brings a wake at most, and is followed by a look.
constexpr size_t kPacketsAtATime = SharedArena::kMostChunks + 16;

size_t Index(SharedLink::Side side) { return side == SharedLink::Side::kListener ? 0 : 1; }
// The peer may have passed what does not close.
std::shared_ptr<UniqueFd> EndedElsewhere(UniqueFd socket) {
  return {new UniqueFd(std::move(socket)), [](UniqueFd* last) {
            EndElsewhere(std::move(*last));
            delete last;
          }};
}

size_t Other(SharedLink::Side side) { return 1 - Index(side); }

}  // namespace

struct SharedLink::FrameHead {
  uint64_t bytes;
  uint64_t offset;  // within the chunk
  uint32_t chunk;
  uint32_t slot;
  uint32_t turn;  // how often the slot was used: what comes back names it
  uint32_t unused;
};

// By who receives: 0 is the listener.
struct SharedLink::Control {
  RingWords words[2];
  std::atomic<uint32_t> returned[2][kSlots];  // by slot: the last turn that the receiver has given back
  std::atomic<uint32_t> parts[2];             // not 0: that side has parted
  alignas(64) std::byte bytes[2][kRingBytes];
};

SharedLink::SharedLink(Side side, std::shared_ptr<SharedMemory> control, UniqueFd socket, SharedArena* arena)
    : side_(side),
      control_(std::move(control)),
      socket_(EndedElsewhere(std::move(socket))),
      arena_(*arena),
      shared_(*reinterpret_cast<Control*>(control_->data())),
      writer_(&shared_.words[Other(side)], shared_.bytes[Other(side)], kRingBytes),
      reader_(&shared_.words[Index(side)], shared_.bytes[Index(side)], kRingBytes) {
  static_assert(sizeof(Control) <= kControlBytes);
  static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);
  arena_.AddReader();
}

SharedLink::~SharedLink() { arena_.RemoveReader(); }

// ---- Sending --------------------------------------------------------------------------------------------------------

Link::Sending SharedLink::Send(Time, std::vector<Payload>&& frames) {
  if (gone_ || broken_) return Sending::kGone;
  heads_.clear();
  placed_.resize(frames.size());
  size_t bytes = sizeof(uint64_t) + frames.size() * sizeof(FrameHead);
  size_t references = 0;
  uint32_t last_chunk = 0;
  for (size_t i = 0; i < frames.size(); ++i) {
    FrameHead head = {.bytes = frames[i].size(), .offset = 0, .chunk = kInline, .slot = 0, .turn = 0, .unused = 0};
    if (frames[i].size() <= kInlineBytes) {
      bytes += frames[i].size();
    } else {
      if (!Refer(frames[i], &placed_[i], &head)) return Sending::kBusy;
      last_chunk = std::max(last_chunk, head.chunk);
      ++references;
    }
    heads_.push_back(head);
  }
  TakeBack(2 * references + 1);
  if (lent_.size() + references > kSlots) return Sending::kBusy;
  if (references > 0 && !HandOverChunks(last_chunk)) return Sending::kBusy;
  if (!writer_.Begin(bytes)) return Sending::kBusy;
  for (size_t i = 0; i < frames.size(); ++i) {
    FrameHead& head = heads_[i];
    bytes_out_ += head.bytes;
    if (head.chunk == kInline) continue;
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(held_.size()));
      held_.emplace_back();
    }
    head.slot = free_.back();
    free_.pop_back();
    lent_.push_back(head.slot);
    held_[head.slot].frame = std::move(placed_[i]);
    head.turn = ++held_[head.slot].turn;
  }
  const uint64_t count = frames.size();
  writer_.Put(&count, sizeof(count));
  writer_.Put(heads_.data(), heads_.size() * sizeof(FrameHead));
  for (const Payload& frame : frames) {
    if (frame.size() <= kInlineBytes) writer_.Put(frame.data(), frame.size());
  }
  // A full socket has bytes that wake it.
  if (writer_.Publish()) SendPacket(socket_->get(), Packet::kWake);
  return Sending::kSent;
}

// Where the peer finds the frame: where it is, or a copy in the arena.
bool SharedLink::Refer(const Payload& frame, Payload* placed, FrameHead* head) {
  std::optional<SharedArena::Place> place = arena_.Find(frame);
  *placed = frame;
  if (!place) {
    *placed = Payload::AllocateFrom(arena_, frame.size());
    if (placed->empty()) return false;
    place = arena_.Find(*placed);
    std::memcpy(placed->mutable_data(), frame.data(), frame.size());
  }
  head->chunk = place->chunk;
  head->offset = place->offset;
  return true;
}

bool SharedLink::HandOverChunks(uint32_t last) {
  for (; chunks_handed_ <= last; ++chunks_handed_) {
    if (!SendPacket(socket_->get(), Packet::kChunk, "", arena_.fd(chunks_handed_))) return false;
  }
  return true;
}

// Looks at some of what is lent, in turn.
void SharedLink::TakeBack(size_t most) {
  for (size_t looks = std::min(most, lent_.size()); looks > 0; --looks) {
    if (next_look_ >= lent_.size()) next_look_ = 0;
    const uint32_t slot = lent_[next_look_];
    Held& held = held_[slot];
    if (shared_.returned[Other(side_)][slot].load(std::memory_order_acquire) != held.turn) {
      ++next_look_;
      continue;
    }
    held.frame = Payload();
    free_.push_back(slot);
    lent_[next_look_] = lent_.back();
    lent_.pop_back();
  }
}

// ---- Receiving ------------------------------------------------------------------------------------------------------

Link::Receipt SharedLink::Receive(Time, std::vector<Payload>* frames) {
  frames->clear();
  // A wake may be there, though nobody waited. Were it left, wakes would pile up before the next chunk.
  if (std::exchange(asked_, false) && !reader_.TakeBackWish()) readable_ = true;
  if (std::exchange(readable_, false)) ReadSocket();
  if (broken_) return Receipt::kNothing;
  // Before the ring is looked at: what was said last lies there by then.
  const bool parts = shared_.parts[Other(side_)].load(std::memory_order_acquire) != 0;
  const RingReader::Found found = reader_.Next(&record_);
  empty_ = found == RingReader::Found::kNothing;
  gone_ |= empty_ && parts;
  if (empty_) return Receipt::kNothing;
  if (found == RingReader::Found::kBroken || !ReadRecord(frames)) {
    broken_ = true;
    frames->clear();
    return Receipt::kNothing;
  }
  if (frames->size() <= kMaxFrames) return Receipt::kMessage;
  frames->clear();
  return Receipt::kTooMany;
}

bool SharedLink::ReadRecord(std::vector<Payload>* frames) {
  uint64_t count = 0;
  if (record_.size() < sizeof(count)) return false;
  std::memcpy(&count, record_.data(), sizeof(count));
  if (count > (record_.size() - sizeof(count)) / sizeof(FrameHead)) return false;
  heads_.resize(count);
  std::memcpy(heads_.data(), record_.data() + sizeof(count), count * sizeof(FrameHead));
  size_t at = sizeof(count) + count * sizeof(FrameHead);
  size_t bytes = 0;
  for (const FrameHead& head : heads_) {
    if (head.bytes > kMostBytes || (bytes += head.bytes) > kMostBytes) return false;
    if (!ReadFrame(head, &at, &frames->emplace_back())) return false;
  }
  bytes_in_ += bytes;
  return true;
}

bool SharedLink::ReadFrame(const FrameHead& head, size_t* inline_at, Payload* frame) {
  if (head.chunk == kInline) {
    if (head.bytes > record_.size() - *inline_at) return false;
    *frame = Payload::CopyOf(record_.data() + *inline_at, head.bytes);
    *inline_at += head.bytes;
    return true;
  }
  if (head.chunk >= chunks_.size()) ReadSocket();  // its descriptor was sent before this record
  if (head.chunk >= chunks_.size() || head.slot >= kSlots) return false;
  const std::shared_ptr<SharedMemory>& chunk = chunks_[head.chunk];
  if (head.offset > chunk->size() || head.bytes > chunk->size() - head.offset) return false;
  if (head.offset % alignof(float) != 0) return false;
  const std::byte* const data = chunk->data() + head.offset;
  std::atomic<uint32_t>& returned = shared_.returned[Index(side_)][head.slot];
  if (side_ == Side::kListener) {
    *frame = Payload::CopyOf(data, head.bytes);
    returned.store(head.turn, std::memory_order_release);
    return true;
  }
  *frame = Payload::Adopt(data, head.bytes, [chunk, control = control_, socket = socket_, &returned, turn = head.turn] {
    returned.store(turn, std::memory_order_release);
  });
  return true;
}

// ---- Its end --------------------------------------------------------------------------------------------------------

void SharedLink::Part() {
  shared_.parts[Index(side_)].store(1, std::memory_order_seq_cst);
  SendPacket(socket_->get(), Packet::kWake);
}

bool SharedLink::HasParted() {
  TakeBack(lent_.size());
  ReadSocket();
  return closed_ || lent_.empty();
}

bool SharedLink::Drained() {
  if (broken_ || gone_ || readable_) return false;
  asked_ = reader_.AskToBeWoken();
  return asked_;
}

void SharedLink::ReadSocket() {
  for (size_t i = 0; i < kPacketsAtATime && !closed_; ++i) {
    ReceivedPacket packet = ReceivePacket(socket_->get());
    if (packet.kind == Packet::kNone) return;
    if (packet.kind == Packet::kEnd) closed_ = gone_ = true;
    if (packet.kind == Packet::kChunk && chunks_.size() < SharedArena::kMostChunks) {
      TakeChunk(std::move(packet.fd));
    } else {
      broken_ |= packet.kind == Packet::kChunk;
      CloseElsewhere(std::move(packet.fd));
    }
  }
}

void SharedLink::TakeChunk(UniqueFd fd) {
  absl::StatusOr<SharedMemory> chunk =
      SharedMemory::Map(std::move(fd), SharedArena::kChunkBytes, SharedMemory::Others::kRead);
  if (!chunk.ok()) {
    LOG(WARNING) << chunk.status().message();
    broken_ = true;
    is_short_ = absl::IsResourceExhausted(chunk.status());
    return;
  }
  chunks_.push_back(std::make_shared<SharedMemory>(*std::move(chunk)));
}

}  // namespace downpour
