#include "runtime/zmq/driver.h"

#include <glog/logging.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "runtime/exit_code.h"
#include "runtime/http/status_server.h"
#include "runtime/log_line.h"
#include "runtime/posix/process.h"
#include "runtime/process/glog_warning_tap.h"
#include "schema/codec.h"
#include "schema/host_port.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr Duration kSampleEvery = 1s;

Time Now() { return Time(std::chrono::steady_clock::now().time_since_epoch()); }

}  // namespace

absl::StatusOr<std::unique_ptr<ZmqDriver>> ZmqDriver::Open(const DriverOptions& options, const DriverWorld& world) {
  CHECK(world.mailbox != nullptr);
  absl::StatusOr<ZmqContext> context = ZmqContext::Create(options.io_threads);
  if (!context.ok()) return context.status();
  std::unique_ptr<ZmqDriver> driver(new ZmqDriver(options, world, std::move(*context)));
  if (options.listen.empty()) return driver;
  if (absl::Status status = driver->StartListening(); !status.ok()) return status;
  return driver;
}

absl::Status ZmqDriver::StartListening() {
  if (options_.keys && !IsIpc(options_.listen)) {
    absl::StatusOr<std::unique_ptr<ZmqAuthenticator>> authenticator = ZmqAuthenticator::Open(context_, *options_.keys);
    if (!authenticator.ok()) return authenticator.status();
    authenticator_ = *std::move(authenticator);
  }
  absl::StatusOr<ZmqSocket> socket = Listen(context_, options_.listen, options_.keys ? &*options_.keys : nullptr);
  if (!socket.ok()) return socket.status();
  if (authenticator_) {
    if (absl::Status status = authenticator_->Watch(context_, *socket); !status.ok()) return status;
  }
  listener_.emplace(std::move(*socket), ZmqChannel::Side::kListener);
  return absl::OkStatus();
}

std::string ZmqDriver::endpoint() const {
  return listener_ ? options_.as_others_reach_it(listener_->socket().endpoint(), options_.chief) : "";
}

int ZmqDriver::Run(Role& role) {
  role_ = &role;
  next_tick_ = Now() + options_.tick;
  next_sample_ = Now() + kSampleEvery;
  if (options_.keys && !options_.keys_folder.empty()) keys_watch_.emplace(options_.keys_folder, *options_.keys);
  Step(Started{UnixMs(), endpoint(), BootId()});
  if (world_.service != nullptr) world_.service->Ready();
  while (!exit_code_) {
    ServeMail();
    ServeAuthenticator();
    ServeListener();
    ServeLinks();
    ServeShared();
    ServeClock();
    if (!exit_code_ && Drained()) Wait();
  }
  Close();
  return *exit_code_;
}

void ZmqDriver::Step(Input input) {
  if (exit_code_) return;
  Effects effects;
  role_->Step(Now(), std::move(input), effects);
  for (Effect& effect : effects.Take()) {
    std::visit([this](auto& one) { Do(one); }, effect);
    if (exit_code_) break;
  }
  if (world_.trace != nullptr) world_.trace->Flush();
}

void ZmqDriver::ServeMail() {
  if (!world_.mailbox->has_mail()) return;
  for (Input& input : world_.mailbox->Take()) Step(std::move(input));
}

void ZmqDriver::ServeListener() {
  if (!listener_) return;
  for (int i = 0; i < kBurst && !exit_code_; ++i) {
    const Link::Receipt receipt = listener_->Receive(&sender_, &frames_);
    if (receipt == Link::Receipt::kNothing) return;
    if (authenticator_) authenticator_->Heard(listener_->speaker_fd());
    if (authenticator_ && !authenticator_->RoleOf(listener_->speaker())) {
      listener_->CutOffSpeaker();
      continue;
    }
    speaking_ = peers_.Spoke(sender_);
    if (speaking_ == PeerId::kNone) {  // and would have us decrypt for nothing
      listener_->CutOffSpeaker();
      continue;
    }
    speaker_ = listener_->speaker();
    Deliver(speaking_, receipt, [this](const Message& message, uint64_t run) { return ValidateSpeaker(message, run); });
    speaking_ = PeerId::kNone;
  }
}

absl::Status ZmqDriver::ValidateSpeaker(const Message& message, uint64_t run) {
  return authenticator_ ? authenticator_->Validate(speaker_, message, run) : absl::OkStatus();
}

void ZmqDriver::ServeAuthenticator() {
  if (authenticator_) authenticator_idle_ = authenticator_->Serve();
}

void ZmqDriver::ServeLinks() {
  for (PeerId id = links_.After(PeerId::kNone); id != PeerId::kNone; id = links_.After(id)) {
    ServeLink(id, *links_.Find(id));
  }
}

// Of a peer that was dialled. What its role says may hang up on it.
void ZmqDriver::ServeLink(PeerId id, Link& link) {
  for (int i = 0; i < kBurst && !exit_code_; ++i) {
    const Link::Receipt receipt = link.Receive(Now(), &frames_);
    if (receipt == Link::Receipt::kNothing) return;
    Deliver(id, receipt, [this, id](const Message& message, uint64_t) { return links_.Validate(id, message); });
    if (links_.Find(id) != &link && shared_.Find(id) != &link) return;
  }
}

void ZmqDriver::ServeShared() {
  for (const PeerId id : shared_.Tend(Now())) {
    if (id < PeerId::kFirstAccepted) Step(Reconnected{id});
  }
  for (PeerId id = shared_.After(PeerId::kNone); id != PeerId::kNone; id = shared_.After(id)) {
    SharedLink& link = *shared_.Find(id);
    if (id < PeerId::kFirstAccepted) {
      ServeLink(id, link);
    } else if (!ServeGuest(id, link)) {
      shared_.Drop(id);
    }
  }
}

// Of a peer that dialled. False: its key was taken away, so it is heard no more, as over ZeroMQ. Its connection may
// have ended: what it said before counts.
bool ZmqDriver::ServeGuest(PeerId id, Link& link) {
  const uint64_t enough = link.bytes_in() + kBurst * kMaxMessagePayload;  // few words may refer to many bytes
  for (int i = 0; i < kBurst && link.bytes_in() < enough && !exit_code_; ++i) {
    const Link::Receipt receipt = link.Receive(Now(), &frames_);
    if (receipt == Link::Receipt::kNothing) return true;
    speaker_ = shared_.KeyOf(id);
    if (authenticator_ && !authenticator_->RoleOf(speaker_)) return false;
    if (const std::string* routing_id = peers_.Find(id)) peers_.Spoke(std::string(*routing_id));
    speaking_ = id;
    Deliver(id, receipt, [this](const Message& message, uint64_t run) { return ValidateSpeaker(message, run); });
    speaking_ = PeerId::kNone;
    if (shared_.Find(id) == nullptr) return true;
  }
  return true;
}

// What drivers say to each other.
bool ZmqDriver::TakeOwn(PeerId from, const Message& message) {
  if (const auto* asks = std::get_if<ShareMemory>(&message)) {
    if (from >= PeerId::kFirstAccepted) {
      Send answer{from, shared_.Expect(from, speaker_, asks->boot, Now()), 0};
      Do(answer);
    }
    return true;
  }
  const auto* door = std::get_if<MemoryDoor>(&message);
  if (door != nullptr && from < PeerId::kFirstAccepted) shared_.Visit(from, *door, Now());
  return door != nullptr;
}

// Each ps whose connection stands since the last time.
void ZmqDriver::AskToShare() {
  const ShareMemory question = shared_.Question();
  for (const PeerId peer : links_.TakeConnected()) {
    if (question.boot.empty()) continue;
    Send asks{peer, question, 0};
    Do(asks);
  }
}

void ZmqDriver::Deliver(PeerId from, Link::Receipt receipt, const Check& check) {
  if (receipt == Link::Receipt::kTooMany) {
    Step(Malformed{from, "more than " + std::to_string(kMaxFrames) + " frames"});
    return;
  }
  uint64_t run = 0;
  absl::StatusOr<Message> message = Decode(frames_, &run);
  frames_.clear();  // the message alone holds its payloads
  absl::Status status = message.status();
  if (status.ok()) status = check(*message, run);
  if (status.ok() && TakeOwn(from, *message)) return;
  if (status.ok()) {
    Step(Received{from, std::move(*message), run});
  } else {
    Step(Malformed{from, std::string(status.message())});
  }
}

void ZmqDriver::ServeClock() {
  const Time now = Now();
  if (world_.service != nullptr) world_.service->Alive(now);
  if (now >= next_sample_) {
    next_sample_ = now + kSampleEvery;
    SampleAndReport();
  }
  if (now >= next_tick_) {
    next_tick_ += options_.tick;
    if (next_tick_ < now)
      next_tick_ = now + options_.tick;  // who was stopped for a minute gets one tick, not thousands
    if (authenticator_) authenticator_->LimitBacklog();
    ReloadKeys();
    if (const absl::Status status = links_.Tend(now); !status.ok()) {
      Exit exit{kExitFailed, std::string(status.message())};
      return Do(exit);
    }
    for (const PeerId peer : links_.TakeReconnected()) Step(Reconnected{peer});
    AskToShare();
    Step(Tick{});
  }
}

void ZmqDriver::SampleAndReport() {
  ResourceSample sample = resources_.Sample();
  sample.bytes_in = links_.bytes_in() + shared_.bytes_in();
  sample.bytes_out = links_.bytes_out() + shared_.bytes_out();
  if (authenticator_) {
    sample.refused = authenticator_->refused();
    sample.refused_from = authenticator_->refused_from();
  }
  if (world_.gpu != nullptr) sample.gpu = world_.gpu->Latest();
  if (listener_) {
    sample.bytes_in += listener_->bytes_in();
    sample.bytes_out += listener_->bytes_out();
  }
  lost_ += links_.TakeLost();
  if (lost_ > 0) LOG(WARNING) << std::exchange(lost_, 0) << " messages were lost: their peers do not read";
  Step(std::move(sample));
}

void ZmqDriver::ReloadKeys() {
  if (!keys_watch_) return;
  std::optional<KeyRing> changed = keys_watch_->Take();
  if (!changed) return;
  if (authenticator_) authenticator_->LetIn(*changed);
  links_.DialWith(*changed);
}

// Whether nothing can be done before a descriptor becomes readable.
bool ZmqDriver::Drained() {
  return authenticator_idle_ && (!listener_ || listener_->drained()) && links_.Drained() && shared_.Drained();
}

// On the sockets' own descriptors: zmq_poll would ask each socket twice more, at a system call each.
void ZmqDriver::Wait() {
  waited_on_.clear();
  if (listener_) waited_on_.push_back({listener_->fd(), POLLIN, 0});
  if (authenticator_) authenticator_->AddTo(&waited_on_);
  links_.AddTo(&waited_on_);
  waited_on_.push_back({world_.mailbox->fd(), POLLIN, 0});
  const size_t before = waited_on_.size();
  shared_.AddTo(&waited_on_);
  const Duration left = std::max(Duration::zero(), next_tick_ - Now());
  const timespec patience{.tv_sec = left / 1s, .tv_nsec = (left % 1s).count()};
  const int woken = ppoll(waited_on_.data(), waited_on_.size(), &patience, nullptr);
  PCHECK(woken >= 0 || errno == EINTR) << "ppoll";
  if (woken > 0) shared_.Woken(waited_on_.data() + before);
}

void ZmqDriver::Close() {
  if (world_.service != nullptr) world_.service->Stopping();
  links_.Close();
  authenticator_.reset();
  if (listener_) listener_->socket().Close(ZmqLinks::kLastWords);
  listener_.reset();
}

void ZmqDriver::Do(Dial& dial) {
  const absl::Status status = links_.Connect(dial, Now());
  LOG_IF(WARNING, !status.ok()) << OneLine(std::string(status.message()), kMaxLogBytes) << "; it is dialled again";
}

void ZmqDriver::Do(HangUp& hang_up) {
  shared_.Drop(hang_up.peer);
  if (hang_up.peer >= PeerId::kFirstAccepted) return peers_.Mute(hang_up.peer);
  links_.HangUp(hang_up.peer);
}

void ZmqDriver::Do(Send& send) {
  if (send.to == kStatusServer) {
    if (world_.status_server != nullptr) world_.status_server->Answer(std::get<StatusReply>(send.message).json);
    return;
  }
  if (world_.trace != nullptr) world_.trace->Flush();
  if (auto* join = std::get_if<Join>(&send.message)) join->endpoint = endpoint();
  if (authenticator_ && send.to == speaking_) authenticator_->NoteAnswer(speaker_, send.message);
  absl::StatusOr<std::vector<Payload>> frames = EncodeWithinLimits(send.message, send.run);
  if (!frames.ok()) {  // its receiver would drop it, and nobody here would hear of it
    const uint64_t count = ++unsendable_;
    LOG_IF(ERROR, WorthALine(count)) << "a message was not sent, since its receiver would refuse it (" << count
                                     << " so far): " << OneLine(std::string(frames.status().message()), kMaxLogBytes);
    return;
  }
  send.message = Message();
  for (Link* const link : {static_cast<Link*>(shared_.Find(send.to)), static_cast<Link*>(links_.Find(send.to))}) {
    if (link != nullptr && link->Send(Now(), *std::move(frames)) == Link::Sending::kSent) return;
  }
  if (send.to < PeerId::kFirstAccepted) return;
  const std::string* routing_id = peers_.Find(send.to);
  if (routing_id == nullptr || !listener_) return;
  const Link::Sending result = listener_->Send(*routing_id, *frames);
  if (result == Link::Sending::kBusy) ++lost_;
  if (result == Link::Sending::kGone) peers_.Forget(send.to);
}

void ZmqDriver::Do(StorageOp& op) {
  if (world_.storage != nullptr) return world_.storage->Submit(std::move(op));
  StorageDone done;
  done.ticket = op.ticket;
  done.status = absl::FailedPreconditionError("this process was given no folder to write to");
  world_.mailbox->Post(std::move(done));
}

void ZmqDriver::Do(Compute& compute) {
  CHECK(world_.computer != nullptr) << "this role has no device";
  world_.computer->Submit(std::move(compute));
}

void ZmqDriver::Do(PrefetchParameters& load) {
  CHECK(world_.computer != nullptr) << "this role has no device";
  world_.computer->PrefetchParameters(std::move(load.values));
}

void ZmqDriver::Do(Wake& wake) { next_tick_ = std::min(next_tick_, Now() + wake.in); }

void ZmqDriver::Do(Log& log) {
  const WarningTap::RolesOwn own;
  const std::string text = OneLine(log.text, kMaxLogBytes);
  switch (log.severity) {
    case Severity::kInfo:
      LOG(INFO) << text;
      break;
    case Severity::kWarning:
      LOG(WARNING) << text;
      break;
    case Severity::kError:
      LOG(ERROR) << text;
      break;
  }
}

void ZmqDriver::Do(TraceRecord& record) {
  if (world_.trace != nullptr) world_.trace->Append(record);
}

void ZmqDriver::Do(Exit& exit) {
  const WarningTap::RolesOwn own;
  exit_code_ = exit.code;
  const bool as_told = exit.as_told || exit.code == kExitDone || exit.code > kExitSignalled;  // the latter: by a signal
  LOG_IF(INFO, as_told) << OneLine(exit.why, kMaxLogBytes);
  LOG_IF(ERROR, !as_told) << OneLine(exit.why, kMaxLogBytes);
}

}  // namespace downpour
