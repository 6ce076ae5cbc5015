#include "chief/epilogue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "chief/folder/stored_record.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kMostWords = 900;  // of what the program raised

}  // namespace

const Task* Epilogue::worker() const {
  const Task* task = attempts_ == 0 || over_ ? nullptr : chief_.members.Find(worker_);
  return task != nullptr && task->alive() ? task : nullptr;
}

const Task* Epilogue::master() const {
  if (chief_.job.python.module.empty()) return nullptr;
  if (begun()) return chief_.members.Find(worker_);
  const std::vector<Task*> workers = Candidates();
  return workers.empty() ? nullptr : workers.front();
}

// In the order of their numbers.
std::vector<Task*> Epilogue::Candidates() const {
  std::vector<Task*> workers = chief_.members.Alive(TaskRole::kWorker);
  std::erase_if(workers,
                [this](const Task* task) { return !task->leaving.empty() || chief_.members.IsRetired(*task); });
  return workers;
}

// Where early stopping chose, fit() returns the best values, else the newest.
Round Epilogue::Chosen() const {
  const Round best = chief_.journal.record().best.round;
  return chief_.job.training.stop_early && best != Round() ? best : chief_.rounds.durable()->round;
}

// A program that runs may have written its results: another run, on other values, would write them twice.
void Epilogue::Suspend() {
  if (std::exchange(suspended_, true)) return;
  chief_.context.out.Warn(
      "a ps was lost, and its record in the checkpoint too: leases are trained again and the job ends after that; the"
      " rest of the program keeps the values that it has");
}

void Epilogue::Advance(uint32_t term) {
  suspended_ = false;
  if (IsOver() || !failure_.ok()) return;
  if (!manifest_ || manifest_->round != Chosen()) return ReadManifest();
  if (worker() == nullptr) return Begin(term);
  if (chief_.context.now >= next_grant_) Grant();
}

void Epilogue::ReadManifest() {
  const Round round = Chosen();
  if (reading_ == round || chief_.context.now < next_read_) return;
  reading_ = round;
  manifest_.reset();
  chief_.storage.Run({ReadFile(ManifestPath(round), 0, kMaxManifestBytes)}, [this, round](const StorageDone& done) {
    reading_ = {};  // Advance looks whether this is still the chosen round, and reads that one else
    if (!done.status.ok()) return ReadFailed(round, ManifestPath(round), done.status);
    absl::StatusOr<Manifest> manifest = DecodeManifest(ToString(done.data));
    if (!manifest.ok()) return ReadFailed(round, ManifestPath(round), manifest.status());
    manifest_ = *std::move(manifest);
  });
}

// Of rounds behind the job's end all hold the same values: if this one was removed for a newer one, that is read. What
// fails else is tried again, since a disk may get over it.
void Epilogue::ReadFailed(Round round, const std::string& what, const absl::Status& why) {
  if (round != Chosen()) return;
  next_read_ = chief_.context.now + chief_.timing.control_retry;
  if (!absl::IsDataLoss(why) && ++failed_reads_[what] < kReadsOfOneFile) return;
  Fail(absl::StrCat("the values for the rest of the program cannot be read: ", what, ": ", MessageOf(why)));
}

// The first one, as other launchers have it: the task that is number 0. One that still prepares is waited for, since
// its program may have done what is_master() is asked for.
void Epilogue::Begin(uint32_t term) {
  if (attempts_ >= kMostAttempts) {
    return Fail(absl::StrCat("the rest of the program, behind fit(), was begun ", Counted(attempts_, "time"),
                             ", and each time its process died; the last time at ", chief_.journal.record().master));
  }
  std::vector<Task*> workers = Candidates();
  if (workers.empty()) return;
  if (waiting_since_ == Time{}) waiting_since_ = chief_.context.now;
  if (chief_.context.now - waiting_since_ < kWaitsForFirst) {
    // Under the chief before, this one was given it: its program may run, or have ended.
    const std::string& had = begun() ? "" : chief_.journal.record().master;
    if (!had.empty()) std::erase_if(workers, [&](const Task* task) { return task->name != had; });
    workers.resize(std::min<size_t>(workers.size(), 1));
  }
  const auto ready =
      std::find_if(workers.begin(), workers.end(), [](const Task* task) { return task->state == TaskState::kRunning; });
  if (ready == workers.end()) return;
  waiting_since_ = Time{};
  worker_ = (*ready)->incarnation;
  chief_.journal.record().master = (*ready)->name;
  if (const auto& result = chief_.evaluation.result()) {
    chief_.journal.record().evaluated = Evaluation::TextOf(*result);
  }
  history_ = chief_.epochs.Text();
  records_under_way_.clear();
  attempt_ = (uint64_t{term} << 32) + ++attempts_;
  chief_.context.out.Info(absl::StrCat("the job is trained: ", (*ready)->name, " runs the rest of the program",
                                       attempts_ == 1 ? "" : absl::StrCat(", attempt ", attempts_)));
  Grant();
}

// A12: not before a chief that follows would know whom to ask.
void Epilogue::Grant() {
  if (!chief_.journal.durable()) return;
  next_grant_ = chief_.context.now + chief_.timing.control_retry;
  chief_.context.out.SendTo(worker()->control, EpilogueGrant{worker_, attempt_, history_});
}

absl::Status Epilogue::Receive(const Task& worker, const RecordRequest& request) {
  if (request.attempt != attempt_ || worker.incarnation != worker_ || !manifest_ || over_) return absl::OkStatus();
  history_.clear();  // it has the grant, and with each repeated one it would come again
  if (ToNumber(request.slice) >= manifest_->records.size()) {
    return absl::InvalidArgumentError(absl::StrCat("it asks for slice ", ToNumber(request.slice), ", unknown here"));
  }
  if (manifest_->records[ToNumber(request.slice)].bytes > kMaxRecordBytes) {  // rows may be more than it can hold
    return absl::InvalidArgumentError(absl::StrCat("it asks for the rows of slice ", ToNumber(request.slice)));
  }
  // Asked again while the disk is slow, it is read and sent once.
  if (!records_under_way_.insert(request.slice).second) return absl::OkStatus();
  chief_.storage.Run({ReadRecord(*manifest_, request.slice)},
                     [this, to = worker_, attempt = attempt_, slice = request.slice](const StorageDone& done) {
                       SendRecord(to, attempt, slice, done);
                     });
  return absl::OkStatus();
}

// The worker asks again for what cannot be read now.
void Epilogue::SendRecord(Incarnation to, uint64_t attempt, SliceId slice, const StorageDone& read) {
  if (attempt != attempt_) return;
  records_under_way_.erase(slice);
  if (!manifest_ || over_) return;
  const std::string which = absl::StrCat(ShardPathOf(*manifest_, slice), ", slice ", ToNumber(slice));
  if (const absl::Status status = CheckRecord(*manifest_, slice, read); !status.ok()) {
    return ReadFailed(manifest_->round, which, status);
  }
  failed_reads_.erase(which);
  const Task* task = worker();
  if (task == nullptr) return;
  chief_.context.out.SendTo(
      task->control,
      RestoreSlice{
          .to = to, .slice = slice, .epoch = {}, .blocks = CutIntoFrames(read.data), .round = manifest_->round});
}

absl::Status Epilogue::Receive(const Task& worker, const EpilogueDone& done) {
  // A12: of an attempt that is no longer the newest, another worker runs the program by now.
  if (done.attempt != attempt_ || worker.incarnation != worker_ || over_) return absl::OkStatus();
  if (!done.error.empty()) {
    Fail(absl::StrCat("the rest of the program, behind fit(), failed at ", worker.name, ": ",
                      CleanText(done.error, kMostWords)));
    return absl::OkStatus();
  }
  over_ = true;
  chief_.context.out.Info(absl::StrCat("the rest of the program has ended at ", worker.name));
  return absl::OkStatus();
}

void Epilogue::Fail(const std::string& why) {
  if (failure_.ok()) failure_ = absl::AbortedError(why);
}

}  // namespace downpour
