#include "worker/python/python_child.h"

#include <glog/logging.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/modules/module_file.h"
#include "runtime/posix/code_cache.h"
#include "schema/bounded_json.h"
#include "schema/text.h"
#include "worker/python/question_size.h"
#include "worker/python/ready_code.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

constexpr int kTimeToEndMs = 1000;
constexpr int kTimeToBeSeenMs = 5000;   // on a busy machine, from the end of its channel to its own, as others see them
constexpr int kMostDepth = 32;          // levels of what it says
constexpr size_t kMostWords = 400;      // of what the user's code raised, in a sentence for people
constexpr size_t kMostTraceback = 400;  // of where it did, the place itself first

bool IsSet(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && *found == true;
}

}  // namespace

void NameTool(ChildSpec* spec) {
  constexpr const char* kNamed = "DOWNPOUR_TOOL";
  const std::string tool = std::getenv(kNamed) == nullptr ? FindBeside("downpour", "tools") : "";
  if (!tool.empty()) spec->environment.emplace_back(kNamed, tool);
}

absl::StatusOr<std::unique_ptr<PythonChild>> PythonChild::Start(const PythonOptions& options, const PythonSpec& code,
                                                                const std::string& folder, Sizes sizes) {
  const absl::StatusOr<SharedBytes> memory = SharedBytes::Make(sizes.bytes);
  if (!memory.ok()) return memory.status();
  const absl::StatusOr<SharedBytes> rows = sizes.row_bytes > 0 ? SharedBytes::Make(sizes.row_bytes) : SharedBytes();
  if (!rows.ok()) {
    return absl::Status(rows.status().code(),
                        absl::StrCat(std::string(rows.status().message()), " for rows of tables"));
  }
  return Start(options, code, folder, *memory, *rows);
}

absl::StatusOr<std::unique_ptr<PythonChild>> PythonChild::Start(const PythonOptions& options, const PythonSpec& code,
                                                                const std::string& folder, const SharedBytes& memory,
                                                                const SharedBytes& rows) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a channel to a Python process");
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  ChildSpec spec{.argv = {options.interpreter, "-m", "downpour.child", options.serves ? "serve" : "work", "--channel",
                          absl::StrCat(theirs.get()), "--memory", absl::StrCat(memory.file()), "--package", folder,
                          "--module", code.module, "--environment", folder + kPackagesSuffix, "--task", options.task,
                          "--patience", absl::StrCat(options.patience)},
                 .environment = options.environment,
                 .out = options.out,
                 .kept = {theirs.get(), memory.file()}};
  if (!rows.empty()) {
    spec.argv.insert(spec.argv.end(), {"--rows", absl::StrCat(rows.file())});
    spec.kept.push_back(rows.file());
  }
  spec.argv.emplace_back("--");
  NameTool(&spec);
  spec.environment.emplace_back("PYTHONUNBUFFERED", "1");  // what it prints is in the log when it dies
  spec.argv.insert(spec.argv.end(), code.args.begin(), code.args.end());
  const absl::StatusOr<pid_t> pid = StartChild(spec);
  if (!pid.ok()) {
    return absl::Status(pid.status().code(), absl::StrCat(std::string(pid.status().message()),
                                                          ": install Python 3, or name its program by --python"));
  }
  return std::unique_ptr<PythonChild>(new PythonChild(std::move(ours), memory, rows, *pid, options.stop));
}

PythonChild::PythonChild(UniqueFd channel, SharedBytes memory, SharedBytes row_memory, pid_t pid, int stop)
    : channel_(std::move(channel)),
      memory_(std::move(memory)),
      row_memory_(std::move(row_memory)),
      pid_(pid),
      stop_(stop),
      life_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {
  guard_.Watch(pid);
}

PythonChild::~PythonChild() {
  if (pid_ <= 0) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool PythonChild::HasEnded() const {
  pollfd on_end = {life_.get(), POLLIN, 0};
  return pid_ <= 0 || poll(&on_end, 1, 0) > 0;
}

// Until the channel can be used. False: the process has ended, and there is nothing more to read; or it is late.
bool PythonChild::Await(short events) {
  pollfd on[3] = {{channel_.get(), events, 0}, {life_.get(), POLLIN, 0}, {stop_, POLLIN, 0}};
  for (;;) {
    int wait_ms = -1;
    if (deadline_) {
      const auto left = *deadline_ - std::chrono::steady_clock::now();
      wait_ms = std::max(0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    }
    const int found = poll(on, 3, wait_ms);
    if (found < 0 && errno == EINTR) continue;
    is_late_ = found == 0 || on[2].revents != 0;
    return !is_late_ && on[0].revents != 0;
  }
}

bool PythonChild::ReadAll(void* to, size_t bytes) {
  auto* at = static_cast<std::byte*>(to);
  while (bytes > 0) {
    if (!Await(POLLIN)) return false;
    const ssize_t got = recv(channel_.get(), at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool PythonChild::WriteAll(const void* from, size_t bytes) {
  const auto* at = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    if (!Await(POLLOUT)) return false;
    const ssize_t put = send(channel_.get(), at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<size_t>(put);
  }
  return true;
}

// Of a child that has closed its channel: it has ended, or is told to, unless it is finishing. What closes its channel
// and lives on was killed by nobody else.
absl::Status PythonChild::HowItEnded() {
  int status = 0;
  pollfd on_end = {life_.get(), POLLIN, 0};
  const bool by_itself = poll(&on_end, 1, finishing_ ? -1 : kTimeToBeSeenMs) > 0;
  if (!by_itself) {
    kill(pid_, SIGTERM);
    poll(&on_end, 1, kTimeToEndMs);
  }
  kill(-pid_, SIGKILL);                                     // its group too, while the number is still its own
  const bool is_known = waitpid(pid_, &status, 0) == pid_;  // not where this process ignores its children's ends
  pid_ = 0;
  guard_.Dismiss();
  if (!by_itself) return absl::AbortedError("the Python code closed the channel to its worker");
  if (!is_known) return absl::UnavailableError("the Python process ended");
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  killed_by_ = signal == SIGKILL || signal == SIGTERM ? signal : 0;
  ended_well_ = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return absl::UnavailableError(absl::StrCat("the Python process ended: ", DescribeEnd(status)));
}

absl::Status PythonChild::WhyNothingCame() {
  if (!is_late_) return HowItEnded();
  return absl::DeadlineExceededError("the Python code has not answered in time");
}

absl::StatusOr<Json> PythonChild::ReceiveMessage() {
  std::array<unsigned char, 4> head{};
  if (pid_ <= 0) return absl::FailedPreconditionError("the Python process has ended");
  if (!ReadAll(head.data(), head.size())) return WhyNothingCame();
  const uint32_t length = head[0] | head[1] << 8 | head[2] << 16 | static_cast<uint32_t>(head[3]) << 24;
  if (length > kMostQuestionBytes) return absl::AbortedError("the Python process says what is too long");
  std::string text(length, '\0');
  if (!ReadAll(text.data(), text.size())) return WhyNothingCame();
  absl::StatusOr<Json> message = ParseBoundedJson(text, kMostDepth);
  if (absl::IsOutOfRange(message.status())) {
    return absl::AbortedError("the Python process says what lies too deep in each other");
  }
  if (!message.ok() || !message->is_object())
    return absl::AbortedError("the Python process says what is no JSON object");
  return message;
}

absl::StatusOr<Json> PythonChild::Receive(const std::string& kind, const OnPreparing& on_preparing) {
  last_warning_.clear();
  absl::StatusOr<Json> message = ReceiveMessage();
  for (; message.ok(); message = ReceiveMessage()) {
    const auto preparing = message->find("preparing");
    if (on_preparing && preparing != message->end() && preparing->is_object()) {
      on_preparing(TextOf(*preparing, "what"), TextOf(*preparing, "waitingFor"));
    } else if (message->contains("warning")) {
      last_warning_ = CleanText(TextOf(*message, "warning"), kMostWords);
      LOG(WARNING) << last_warning_;
    } else {
      break;
    }
  }
  if (!message.ok()) return message.status();
  if (const auto error = message->find("error"); error != message->end() && error->is_object()) {
    const std::string what = CleanText(TextOf(*error, "message"), kMostWords);
    if (IsSet(*error, "refused")) return absl::InvalidArgumentError(what);
    failed_unasked_ = IsSet(*error, "unasked");
    const std::string where = OneLine(TextOf(*error, "where"), kMostTraceback);
    const std::string told = absl::StrCat("the Python code: ", what, where.empty() ? "" : ", at ", where);
    return IsSet(*error, "ended") ? absl::CancelledError(told) : absl::AbortedError(told);
  }
  const auto found = message->find(kind);
  if (found == message->end() || !found->is_object()) {
    return absl::AbortedError(absl::StrCat("the Python process does not answer with ", kind));
  }
  return *found;
}

absl::StatusOr<Json> PythonChild::Ask(const Json& question, const std::string& kind) {
  return AskText(question.dump(), kind);
}

absl::StatusOr<Json> PythonChild::AskText(std::string_view question, const std::string& kind) {
  std::string text(4, '\0');
  text += question;
  const size_t size = text.size() - 4;
  if (size > kMostQuestionBytes) return absl::InvalidArgumentError("a step of too many examples for one question");
  for (size_t i = 0; i < 4; ++i) text[i] = static_cast<char>(size >> 8 * i);
  if (pid_ <= 0) return absl::FailedPreconditionError("the Python process has ended");
  const bool asked = WriteAll(text.data(), text.size());  // in one piece, so that it is woken once
  if (!asked && is_late_) return WhyNothingCame();
  if (!asked) shutdown(channel_.get(), SHUT_RD);  // it may have said why before: that is read, and then its end
  return Receive(kind);
}

absl::Status PythonChild::Finish(const Json& question) {
  finishing_ = true;
  absl::Status said = Ask(question, "finished").status();
  if (said.ok() && pid_ > 0) said = HowItEnded();
  if (ended_well_) return absl::OkStatus();
  return killed_by_ == 0 && absl::IsUnavailable(said) ? absl::AbortedError(said.message()) : said;
}

}  // namespace downpour
