#include "runtime/driver/zmq_driver.h"

#include <glog/logging.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/driver/posix_process.h"
#include "runtime/driver/posix_tcp_probe.h"
#include "schema/codec.h"
#include "schema/host_port.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr Duration kSampleEvery = 1s;
constexpr Duration kLastWords = 1s;  // what an Exit, or a HangUp, gives to what was sent before it
constexpr size_t kMaxLogBytes = 4096;

Time Now() { return Time(std::chrono::steady_clock::now().time_since_epoch()); }

int64_t UnixMs() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
}

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
    absl::StatusOr<std::unique_ptr<ZmqDoor>> door = ZmqDoor::Open(context_, *options_.keys);
    if (!door.ok()) return door.status();
    door_ = *std::move(door);
  }
  absl::StatusOr<ZmqSocket> socket = Listen(context_, options_.listen, keys());
  if (!socket.ok()) return socket.status();
  if (door_) {
    if (absl::Status status = door_->Watch(context_, *socket); !status.ok()) return status;
  }
  listener_.emplace(std::move(*socket), ZmqChannel::Side::kListener);
  return absl::OkStatus();
}

int ZmqDriver::Run(Role& role) {
  role_ = &role;
  next_tick_ = Now() + options_.tick;
  next_sample_ = Now() + kSampleEvery;
  if (keys_ && !options_.keys_folder.empty()) keys_watch_.emplace(options_.keys_folder, *keys_);
  Step(Started{UnixMs(), endpoint()});
  if (world_.service != nullptr) world_.service->Ready();
  while (!exit_code_) {
    ServeMail();
    ServeDoor();
    ServeListener();
    ServeLinks();
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
    const ZmqChannel::Receipt receipt = listener_->Receive(&sender_, &frames_);
    if (receipt == ZmqChannel::Receipt::kNothing) return;
    if (door_) door_->Heard(listener_->speaker_fd());
    if (door_ && !door_->RoleOf(listener_->speaker())) {
      listener_->CutOffSpeaker();
      continue;
    }
    speaking_ = peers_.Spoke(sender_);
    if (speaking_ == PeerId::kNone) {  // and would have us decrypt for nothing
      listener_->CutOffSpeaker();
      continue;
    }
    Deliver(speaking_, receipt, [this](const Message& message) {
      return door_ ? door_->Judge(listener_->speaker(), message) : absl::OkStatus();
    });
    speaking_ = PeerId::kNone;
  }
}

void ZmqDriver::ServeDoor() {
  if (door_) door_quiet_ = door_->Serve();
}

void ZmqDriver::ServeLinks() {
  // A Step may dial or hang up: iterators do not last.
  for (auto link = links_.begin(); link != links_.end();) {
    const PeerId id = link->first;
    ServeLink(id);
    link = links_.upper_bound(id);
  }
}

void ZmqDriver::ServeLink(PeerId id) {
  for (int i = 0; i < kBurst && !exit_code_; ++i) {
    auto link = links_.find(id);
    if (link == links_.end()) return;
    if (link->second.waiting()) link->second.Flush(Now());
    const ZmqChannel::Receipt receipt = link->second.channel().Receive(&sender_, &frames_);
    if (receipt == ZmqChannel::Receipt::kNothing) return;
    Deliver(id, receipt, [this, to = link->second.to()](const Message& message) {
      return keys() != nullptr ? CheckSpeaker(to, message) : absl::OkStatus();
    });
  }
}

void ZmqDriver::Deliver(PeerId from, ZmqChannel::Receipt receipt, const Check& check) {
  if (receipt == ZmqChannel::Receipt::kTooMany) {
    Step(Malformed{from, "more than " + std::to_string(kMaxFrames) + " frames"});
    return;
  }
  absl::StatusOr<Message> message = Decode(frames_);
  frames_.clear();  // the message alone holds its payloads
  absl::Status status = message.status();
  if (status.ok()) status = check(*message);
  if (status.ok()) {
    Step(Received{from, std::move(*message)});
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
    if (door_) door_->LimitBacklog();
    HeedNewKeys();
    TendLinks(now);
    Step(Tick{});
  }
}

void ZmqDriver::SampleAndReport() {
  ResourceSample sample = SampleResources();
  sample.bytes_in = closed_bytes_in_;
  sample.bytes_out = closed_bytes_out_;
  if (door_) {
    sample.refused = door_->refused();
    sample.refused_from = door_->refused_from();
  }
  if (world_.gpu != nullptr) sample.gpu = world_.gpu->Latest();
  const auto count = [&](const ZmqChannel& channel) {
    sample.bytes_in += channel.bytes_in();
    sample.bytes_out += channel.bytes_out();
  };
  if (listener_) count(*listener_);
  for (auto& [id, link] : links_) {
    count(link.channel());
    lost_ += link.TakeLost();
  }
  if (lost_ > 0) LOG(WARNING) << std::exchange(lost_, 0) << " messages were lost: their peers do not read";
  Step(std::move(sample));
}

void ZmqDriver::TendLinks(Time now) {
  for (auto& [id, link] : links_) {
    if (const std::optional<ZmqMonitor::Event> outcome = link.Tend(now)) {
      NoteHandshake(link.channel().socket().endpoint(), *outcome);
    }
    if (link.DueToLook(now)) LookWhySilent(link);
    if (!link.DueToDial(now)) continue;
    link.DialAgain(keys());
  }
}

void ZmqDriver::LookWhySilent(ZmqLink& link) {
  if (looking_->exchange(true)) return;
  const std::string whom = absl::StrCat("the ", NameOf(link.to()));
  std::thread([looking = looking_, whom, endpoint = link.channel().socket().endpoint()] {
    LogWhySilent(whom, endpoint);
    looking->store(false);
  }).detach();
}

// Once for each cause, until they agree: a task may dial its chief twice, and by chance be told in two ways.
void ZmqDriver::NoteHandshake(const std::string& endpoint, ZmqMonitor::Event outcome) {
  if (outcome == ZmqMonitor::Event::kShookHands) {
    refusals_told_.erase(endpoint);
  } else if (refusals_told_[endpoint].insert(outcome).second) {
    LOG(WARNING) << endpoint << WhyRefused(outcome) << "; it is tried again now and then";
  }
}

void ZmqDriver::HeedNewKeys() {
  if (!keys_watch_) return;
  std::optional<KeyRing> changed = keys_watch_->Take();
  if (!changed) return;
  if (door_) door_->LetIn(*changed);
  keys_ = *std::move(changed);
}

std::string ZmqDriver::WhyRefused(ZmqMonitor::Event how) const {
  const std::string ours = options_.keys_folder.empty() ? "our keys" : "our keys in " + options_.keys_folder;
  const std::string remedy = "give --keys=DIR, the folder of its cluster's keys";
  if (how == ZmqMonitor::Event::kKeyRefused) return " does not know our key: are " + ours + " those of its cluster?";
  // Which side sees first that they have no common speech is chance; the other one sees it hang up.
  const std::string hung_up = how == ZmqMonitor::Event::kHungUp ? " hangs up: it has just ended, or" : "";
  if (keys() == nullptr) return hung_up + " speaks to nobody without keys: " + remedy;
  if (hung_up.empty()) return " speaks without keys: it was started without --keys=DIR, or is none of ours";
  return hung_up + " has no keys, or " + ours + " are of another cluster: " + remedy;
}

// Whether nothing can be done before a descriptor becomes readable.
bool ZmqDriver::Drained() {
  if (!door_quiet_ || (listener_ && !listener_->drained())) return false;
  for (auto& [id, link] : links_) {
    if (link.waiting() && link.channel().CanSend()) return false;
    if (!link.channel().drained()) return false;
  }
  return true;
}

// On the sockets' own descriptors: zmq_poll would ask each socket twice more, at a system call each.
void ZmqDriver::Wait() {
  waited_on_.clear();
  if (listener_) waited_on_.push_back({listener_->fd(), POLLIN, 0});
  if (door_) door_->AddTo(&waited_on_);
  for (auto& [id, link] : links_) waited_on_.push_back({link.channel().fd(), POLLIN, 0});
  waited_on_.push_back({world_.mailbox->fd(), POLLIN, 0});
  const Duration left = std::max(Duration::zero(), next_tick_ - Now());
  const timespec patience{.tv_sec = left / 1s, .tv_nsec = (left % 1s).count()};
  if (ppoll(waited_on_.data(), waited_on_.size(), &patience, nullptr) < 0) PCHECK(errno == EINTR) << "ppoll";
}

void ZmqDriver::Close() {
  if (world_.service != nullptr) world_.service->Stopping();
  for (auto& [id, link] : links_) link.Close(kLastWords);
  links_.clear();
  door_.reset();
  if (listener_) listener_->socket().Close(kLastWords);
  listener_.reset();
}

void ZmqDriver::Do(Dial& dial) {
  CHECK(dial.peer != PeerId::kNone && dial.peer < PeerId::kFirstAccepted) << "not a number to dial with";
  CHECK(!links_.contains(dial.peer)) << "dialled twice";
  absl::StatusOr<WatchedSocket> link = ConnectWatched(context_, dial.endpoint, keys(), dial.to);
  if (!link.ok()) {
    LOG(WARNING) << OneLine(std::string(link.status().message()), kMaxLogBytes);
    return;
  }
  links_.emplace(std::piecewise_construct, std::tuple(dial.peer), std::forward_as_tuple(*std::move(link), dial.to));
}

void ZmqDriver::Do(HangUp& hang_up) {
  if (hang_up.peer >= PeerId::kFirstAccepted) return peers_.Mute(hang_up.peer);
  auto link = links_.find(hang_up.peer);
  if (link == links_.end()) return;
  ZmqChannel& channel = link->second.channel();
  closed_bytes_in_ += channel.bytes_in();
  closed_bytes_out_ += channel.bytes_out();
  refusals_told_.erase(channel.socket().endpoint());
  link->second.Close(kLastWords);
  links_.erase(link);
}

void ZmqDriver::Do(Send& send) {
  if (world_.trace != nullptr) world_.trace->Flush();
  if (door_ && send.to == speaking_) door_->NoteAnswer(listener_->speaker(), send.message);
  std::vector<Payload> frames = Encode(send.message);
  if (frames[0].size() > kMaxHeaderBytes) {  // its receiver would hang up without a word
    LOG(ERROR) << NameOf(send.message) << " is too large to be sent: " << frames[0].size() << " bytes";
    return;
  }
  send.message = Message();
  if (send.to < PeerId::kFirstAccepted) {
    if (auto link = links_.find(send.to); link != links_.end()) link->second.Send(Now(), std::move(frames));
    return;
  }
  const std::string* routing_id = peers_.Find(send.to);
  if (routing_id == nullptr || !listener_) return;
  const ZmqChannel::Sending result = listener_->Send(*routing_id, frames);
  if (result == ZmqChannel::Sending::kBusy) ++lost_;
  if (result == ZmqChannel::Sending::kGone) peers_.Forget(send.to);
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

void ZmqDriver::Do(Log& log) {
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
  exit_code_ = exit.code;
  LOG_IF(INFO, exit.code == 0) << OneLine(exit.why, kMaxLogBytes);
  LOG_IF(ERROR, exit.code != 0) << OneLine(exit.why, kMaxLogBytes);
}

}  // namespace downpour
