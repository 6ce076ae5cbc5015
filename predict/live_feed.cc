#include "predict/live_feed.h"

#include <atomic>
#include <csignal>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/job_folder.h"
#include "predict/live_predictor.h"
#include "predict/live_rows.h"
#include "reader/reader_role.h"
#include "runtime/posix/keys.h"
#include "runtime/posix/mailbox.h"
#include "runtime/zmq/driver.h"

namespace downpour {
namespace {

// A chief that is silent for so long may have ended, or listen elsewhere: it is time to look into its folder.
constexpr Duration kSilence = 2s;
constexpr Duration kLookEvery = 1s;
// A run of a job that was killed may be started again: nothing at work for so long says that it is not.
constexpr Duration kGoneFor = 10s;
constexpr Duration kTick = 100ms;

bool HasSaidEnd(const std::string& job_dir, const ChiefLocation& chief) {
  const absl::StatusOr<FoundSummary> summary = ReadSummaryOf(job_dir, chief.term);
  return summary.ok() && HasEnded(summary->summary);
}

// Why a ps does not let a viewer in.
std::string WhatKeysMayLack(const std::optional<KeyRing>& keys, const std::string& folder) {
  if (!keys) return "";
  if (keys->Of(PeerRole::kPs).empty()) return absl::StrCat(". ", folder, " lacks ps.public, which reading takes");
  return ". Each ps must have viewer.public in its folder of keys";
}

}  // namespace

bool HasLiveJobEnded(const std::string& job_dir) {
  const absl::StatusOr<ChiefLocation> chief = ReadChiefLocation(job_dir);
  return chief.ok() && HasSaidEnd(job_dir, *chief);
}

bool IsLiveJobOver(const std::string& job_dir) {
  const absl::StatusOr<ChiefLocation> chief = ReadChiefLocation(job_dir);
  return chief.ok() && (HasSaidEnd(job_dir, *chief) || HasGone(*chief, job_dir));
}

// What the feed, its thread and its predictor share.
struct LiveFeed::Shared {
  Mailbox mailbox;
  std::atomic<bool> stopped = false;
  std::atomic<bool> has_ended = false;

  void Stop() {
    stopped = true;
    mailbox.Post(StopRequested{SIGTERM});
  }
};

// The reader with what it may not do itself: publish, and look into the job's folder.
class LiveFeed::Follower final : public Role {
 public:
  Follower(std::string job_dir, ChiefLocation chief, const LiveOptions& options, LiveEvents events,
           std::string keys_remedy, std::shared_ptr<Shared> shared)
      : job_dir_(std::move(job_dir)),
        patience_(options.patience),
        chief_(std::move(chief)),
        events_(std::move(events)),
        shared_(std::move(shared)),
        rows_(std::make_shared<LiveRows>([shared = shared_] { shared->mailbox.Post(Tick()); })),
        values_(std::make_shared<LiveValues>(job_dir_, options.most_rows, rows_)),
        reader_({.chief = chief_.endpoint, .secret = chief_.secret, .run = options.run, .refresh = options.refresh}),
        keys_remedy_(std::move(keys_remedy)) {}

  void Step(Time now, Input input, Effects& effects) override {
    if (has_finished_) return;
    if (std::holds_alternative<Started>(input)) began_ = now;
    LiveRows::News news = rows_->Take();
    for (LiveRows::Question& one : news.asked) reader_.WantRows(one.number, std::move(one.keys));
    for (const uint64_t number : news.forgotten) reader_.ForgetRows(number);
    reader_.Step(now, std::move(input), effects);
    for (FoundRows& one : reader_.TakeRows()) rows_->Answer(one.number, std::move(one.rows));
    if (has_failed_) return Finish(absl::UnavailableError("its first answer failed"), effects);
    if (shared_->stopped) return Finish(absl::CancelledError("nobody waits for the job's values any more"), effects);
    if (std::optional<ValueSet> values = reader_.TakeValues()) Publish(*values, effects);
    if (has_finished_) return;
    if (!reader_.end().ok()) return Finish(reader_.end(), effects);
    if (now - reader_.chief_heard() >= kSilence || reader_.secret_refused()) Look(now, effects);
    if (!has_first_ && !has_finished_ && now - began_ >= patience_) {
      Finish(absl::UnavailableError(absl::StrCat(
                 "the job of ", job_dir_, " has shown no values within ", patience_ / 1s, " s: its chief at ",
                 chief_.endpoint, " must be reached from here, and all its ps must serve", keys_remedy_)),
             effects);
    }
  }

  void End(const absl::Status& why) {
    Effects none;
    Finish(why, none);
  }

 private:
  void Publish(const ValueSet& values, Effects& effects) {
    // A Time is of the steady clock here (ZmqDriver).
    const LiveValues::Clock::time_point as_of(values.as_of.time_since_epoch());
    if (absl::Status status = values_->Publish(values, as_of); !status.ok()) return Finish(std::move(status), effects);
    if (std::exchange(has_first_, true)) return;
    if (values.grid->buckets > 0) rows_->UseGrid(values.grid);
    auto predictor = std::make_shared<LivePredictor>(values_, [shared = shared_] { shared->Stop(); });
    // Its rows come by this thread.
    first_answer_ = std::thread([this, predictor = std::move(predictor)]() mutable {
      absl::Status warm = WarmUp(*predictor);
      has_failed_ = !warm.ok();
      std::exchange(events_.on_first, nullptr)(
          warm.ok() ? absl::StatusOr<std::shared_ptr<const Predictor>>(std::move(predictor)) : std::move(warm));
    });
  }

  void Look(Time now, Effects& effects) {
    if (now < look_at_) return;
    look_at_ = now + kLookEvery;
    absl::StatusOr<ChiefLocation> chief = ReadChiefLocation(job_dir_);
    if (!chief.ok()) return;
    if (!HasGone(*chief, job_dir_)) {
      gone_since_.reset();
    } else if (!gone_since_) {
      gone_since_ = now;
    }
    if (HasSaidEnd(job_dir_, *chief) || (gone_since_ && now - *gone_since_ >= kGoneFor)) {
      return Finish(absl::NotFoundError(absl::StrCat("the job of ", job_dir_, " is over")), effects);
    }
    if (chief->endpoint == chief_.endpoint && chief->secret == chief_.secret) return;
    chief_ = *std::move(chief);
    reader_.Locate(chief_.endpoint, chief_.secret);
  }

  void Finish(const absl::Status& why, Effects& effects) {
    if (std::exchange(has_finished_, true)) return;
    rows_->Close(why);
    if (first_answer_.joinable()) first_answer_.join();
    if (!has_first_) {
      std::exchange(events_.on_first, nullptr)(why);
    } else if (!shared_->stopped && !has_failed_) {
      events_.on_end({.why = why, .run = reader_.run()});
    }
    effects.Add(Exit{0, std::string(why.message()), /*as_told=*/true});
  }

  const std::string job_dir_;
  const Duration patience_;
  ChiefLocation chief_;  // as the folder had it last
  LiveEvents events_;
  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<LiveRows> rows_;
  const std::shared_ptr<LiveValues> values_;
  ReaderRole reader_;
  const std::string keys_remedy_;
  std::thread first_answer_;              // which asks for rows, as any other
  std::atomic<bool> has_failed_ = false;  // the first answer
  bool has_first_ = false, has_finished_ = false;
  Time began_{}, look_at_{};
  std::optional<Time> gone_since_;  // nothing is at work in the folder
};

absl::StatusOr<std::unique_ptr<LiveFeed>> LiveFeed::Open(const std::string& job_dir, const LiveOptions& options,
                                                         LiveEvents events) {
  absl::StatusOr<ChiefLocation> chief = ReadChiefLocation(job_dir);
  if (!chief.ok()) {
    return absl::Status(chief.status().code(), absl::StrCat(std::string(chief.status().message()),
                                                            ": its chief says there where it listens, once it is up"));
  }
  const std::string folder = KeysFolder(options.keys, job_dir);
  absl::StatusOr<std::optional<KeyRing>> keys = KeysIn(folder, PeerRole::kViewer);
  if (!keys.ok()) return keys.status();
  std::unique_ptr<LiveFeed> feed(new LiveFeed);
  feed->shared_ = std::make_shared<Shared>();
  auto follower = std::make_unique<Follower>(job_dir, *std::move(chief), options, std::move(events),
                                             WhatKeysMayLack(*keys, folder), feed->shared_);
  feed->thread_ =
      std::thread([shared = feed->shared_, follower = std::move(follower), keys = *std::move(keys), folder] {
        SharedArena* const memory = SharedArena::IsWanted() ? &SharedArena::OfThisProcess() : nullptr;
        absl::StatusOr<std::unique_ptr<ZmqDriver>> driver =
            ZmqDriver::Open({.listen = "", .tick = kTick, .keys = keys, .keys_folder = folder},
                            {.mailbox = &shared->mailbox, .memory = memory});
        if (driver.ok()) (*driver)->Run(*follower);
        follower->End(driver.ok() ? absl::UnavailableError("its servers cannot be dialled") : driver.status());
        shared->has_ended = true;
      });
  return feed;
}

LiveFeed::~LiveFeed() {
  Stop();
  thread_.join();
}

void LiveFeed::Stop() { shared_->Stop(); }

bool LiveFeed::has_ended() const { return shared_->has_ended; }

}  // namespace downpour
