#include "predict/python_pool.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/row_frames.h"
#include "schema/text.h"
#include "worker/python/ready_code.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

constexpr auto kLookEvery = std::chrono::milliseconds(200);  // at processes that may have ended
constexpr size_t kMostWords = 800;                           // of what the code says, in an error

std::string TextOf(const Json& object, const char* key) {
  const Json value = object.value(key, Json());
  return value.is_string() ? OneLine(value.get<std::string>(), kMostWords) : "";
}

// An exception of the user's code, which has not ended it.
absl::Status FailureIn(const Json& predicted) {
  const Json failed = predicted.value("failed", Json());
  if (!failed.is_object()) return absl::OkStatus();
  const std::string what = TextOf(failed, "message"), where = TextOf(failed, "where");
  if (failed.value("isOfRequest", Json()) == true) return absl::InvalidArgumentError(what);
  return absl::InternalError(absl::StrCat("the Python code: ", what, where.empty() ? "" : ", at ", where));
}

// In the words of who asked for a prediction.
absl::Status OfRequest(const absl::Status& status, const PythonChild& child, std::chrono::milliseconds call) {
  const std::string said(status.message());
  if (absl::IsDeadlineExceeded(status)) {
    const std::string& where = child.last_warning();
    return absl::DeadlineExceededError(absl::StrCat(where.empty() ? said : where, "; a request may take ",
                                                    static_cast<double>(call.count()) / 1000, " s"));
  }
  if (absl::IsUnavailable(status)) {
    return absl::InternalError(absl::StrCat(said, " as it answered; the version's log may say why"));
  }
  return absl::InternalError(said);
}

absl::Status IsEnding() { return absl::UnavailableError("the model is being closed: ask again"); }

}  // namespace

PythonPool::PythonPool(Model model, PythonServing how)
    : model_(std::move(model)),
      how_(std::move(how)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      processes_(static_cast<size_t>(std::max(1, how_.processes))) {}

PythonPool::~PythonPool() {
  End();
  for (Process& process : processes_) {
    if (process.looks_after.joinable()) process.looks_after.join();
  }
}

void PythonPool::End() {
  {
    const std::lock_guard hold(mutex_);
    ends_ = true;
  }
  eventfd_write(stop_.get(), 1);
  changed_.notify_all();
}

absl::Status PythonPool::Start() {
  std::unique_lock hold(mutex_);
  if (!processes_.front().looks_after.joinable()) {
    OpenLog();
    for (Process& process : processes_) process.looks_after = std::thread([this, &process] { LookAfter(&process); });
  }
  changed_.wait(hold, [&] { return has_begun_ || ends_ || NoneCanStart(); });
  if (ends_) return IsEnding();
  return has_begun_ ? absl::OkStatus() : processes_.front().why;
}

bool PythonPool::NoneCanStart() const {
  return std::ranges::all_of(processes_, [](const Process& process) { return !process.why.ok(); });
}

void PythonPool::OpenLog() {
  if (how_.log.empty()) return;
  log_ = UniqueFd(open(how_.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
}

// Processes append to it, so that what is cut off from its beginning changes nothing for them.
void PythonPool::TrimLog() {
  const std::lock_guard hold(log_mutex_);
  struct stat about {};
  if (!log_.ok() || fstat(log_.get(), &about) != 0 || static_cast<size_t>(about.st_size) <= kMostLogBytes) return;
  std::error_code ignored;
  std::filesystem::copy_file(how_.log, how_.log + ".1", std::filesystem::copy_options::overwrite_existing, ignored);
  if (ftruncate(log_.get(), 0) != 0) return;  // the next look tries again
}

void PythonPool::LookAfter(Process* process) {
  std::unique_lock hold(mutex_);
  while (!ends_) {
    if (process->state == State::kFree && process->child->HasEnded()) Drop(process);
    if (process->state == State::kEnded && Clock::now() >= process->start_at) StartAgain(process, hold);
    hold.unlock();
    TrimLog();
    hold.lock();
    changed_.wait_for(hold, kLookEvery, [this] { return ends_; });
  }
}

void PythonPool::StartAgain(Process* process, std::unique_lock<std::mutex>& hold) {
  process->state = State::kBeingStarted;
  hold.unlock();
  const absl::Status begun = Begin(process);
  hold.lock();
  if (!begun.ok()) {
    process->why = begun;
    Drop(process);
    return;
  }
  process->why = absl::OkStatus();
  process->state = State::kFree;
  has_begun_ = true;
  changed_.notify_all();
}

// With the lock held. Its process is ended, if it has not.
void PythonPool::Drop(Process* process) {
  const auto pause = kLeastPause * (1 << std::min(process->failures, 10));
  process->failures += 1;
  process->start_at = Clock::now() + std::min<Clock::duration>(pause, kMostPause);
  process->child = nullptr;
  process->state = State::kEnded;
  changed_.notify_all();
}

absl::Status PythonPool::Begin(Process* process) const {
  if (!model_.tables.empty() && process->row_memory.empty()) {
    absl::StatusOr<SharedBytes> rows = SharedBytes::Make(ChildRows::BytesOf(ChildRows::MostNumbers(model_.grid)));
    if (!rows.ok()) return rows.status();
    process->row_memory = *std::move(rows);
  }
  PythonOptions options{.interpreter = how_.interpreter,
                        .patience = std::chrono::duration<double>(how_.call).count() / 2,
                        .serves = true,
                        .out = log_.get(),
                        .stop = stop_.get()};
  auto child =
      PythonChild::Start(options, model_.code.spec, model_.code.unpacked.path, model_.memory, process->row_memory);
  if (!child.ok()) return child.status();
  process->rows = ChildRows(&model_.grid, process->row_memory.at().get());
  (*child)->AnswerBy(Clock::now() + how_.start);
  const absl::StatusOr<Json> ready = (*child)->Receive("ready", [](const std::string&, const std::string&) {});
  if (absl::IsUnavailable(ready.status())) {
    return absl::InternalError(absl::StrCat(std::string(ready.status().message()), " before it came to its model; ",
                                            how_.log.empty() ? "what it printed says why" : "its log says why"));
  }
  if (!ready.ok()) return ready.status();
  if (absl::Status status = CheckMakesModel(*ready, model_.job.model); !status.ok()) return status;
  process->child = *std::move(child);
  const absl::StatusOr<Json> predicted = AskChild(process, R"({"warmUp":{}})");
  const absl::Status warm = predicted.ok() ? FailureIn(*predicted) : predicted.status();
  if (warm.ok()) return warm;
  return absl::Status(warm.code(), absl::StrCat("its answer to the example: ", std::string(warm.message())));
}

absl::StatusOr<Json> PythonPool::AskChild(Process* process, std::string_view question) const {
  PythonChild& child = *process->child;
  process->rows.Begin();
  child.AnswerBy(Clock::now() + how_.call);
  absl::StatusOr<Json> said = child.AskText(question, "predicted");
  bool refused = false;
  while (said.ok() && said->contains("needs") && child.row_memory() != nullptr) {
    said = BringRows(process, (*said)["needs"], &refused);
  }
  if (!said.ok()) return OfRequest(said.status(), child, how_.call);
  return said;
}

// The rows of the checkpoint, in the order in which a bucket would send them. `refused`: a need of this question was,
// and each later one is, since what was asked for is counted from its beginning.
absl::StatusOr<Json> PythonPool::BringRows(Process* process, const Json& needs, bool* refused) const {
  const absl::StatusOr<SliceValues> asked = *refused ? absl::CancelledError("") : process->rows.Ask(needs);
  if (absl::IsCancelled(asked.status())) {
    *refused = true;
    return process->child->AskText(R"({"rows":{"refused":true}})", "predicted");
  }
  if (!asked.ok()) return asked.status();
  SliceValues found;
  std::vector<float> scratch;
  for (const auto& [id, frame] : *asked) {
    const absl::StatusOr<RowKeys> keys = UnpackKeys(frame, model_.grid.row_widths);
    if (!keys.ok()) return keys.status();
    Payload rows = Payload::Allocate(RowBytes(*keys, model_.grid.row_widths));
    auto* to = reinterpret_cast<float*>(rows.mutable_data());
    size_t at = 0;
    for (size_t table = 0; table < keys->counts.size(); ++table) {
      const size_t width = model_.grid.row_widths[table];
      scratch.resize(width);
      for (uint32_t i = 0; i < keys->counts[table]; ++i, ++at, to += width) {
        std::memcpy(to, model_.tables[table].Find(keys->keys[at], scratch.data()), width * sizeof(float));
      }
    }
    found.emplace_back(id, std::move(rows));
  }
  if (absl::Status status = process->rows.Lay(found); !status.ok()) return status;
  return process->child->AskText(R"({"rows":{}})", "predicted");
}

// With the lock held. Those that have ended are dropped: nobody's question was lost.
PythonPool::Process* PythonPool::FindFree() {
  for (Process& process : processes_) {
    if (process.state != State::kFree) continue;
    if (!process.child->HasEnded()) return &process;
    Drop(&process);
  }
  return nullptr;
}

absl::StatusOr<PythonPool::Process*> PythonPool::Take() {
  std::unique_lock hold(mutex_);
  if (waiting_ >= kMostWaiting) {
    return absl::UnavailableError(absl::StrCat(kMostWaiting, " requests wait for this model's Python code: ask again"));
  }
  ++waiting_;
  Process* found = nullptr;
  changed_.wait_for(hold, kPatience, [&] {
    if (ends_) return true;
    found = FindFree();
    return found != nullptr || NoneCanStart();
  });
  --waiting_;
  if (ends_) return IsEnding();
  if (found != nullptr) {
    found->state = State::kAsked;
    return found;
  }
  if (!NoneCanStart()) return absl::UnavailableError("this model's Python code is busy or being started: ask again");
  return absl::UnavailableError(absl::StrCat("this model's Python code cannot be started: ",
                                             std::string(processes_.front().why.message()), "; it is tried again"));
}

absl::StatusOr<Json> PythonPool::Ask(std::string_view question) {
  const absl::StatusOr<Process*> process = Take();
  if (!process.ok()) return process.status();
  absl::StatusOr<Json> predicted = AskChild(*process, question);
  const std::lock_guard hold(mutex_);
  if (!predicted.ok()) {
    Drop(*process);
    if (ends_) return IsEnding();
    return predicted;
  }
  (*process)->failures = 0;
  (*process)->state = State::kFree;
  changed_.notify_all();
  if (absl::Status failed = FailureIn(*predicted); !failed.ok()) return failed;
  return predicted;
}

}  // namespace downpour
