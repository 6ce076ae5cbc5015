#include "chief/folder/checkpoint_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

// Without its manifest it is no checkpoint any more; once that is durable, nothing leaves half of one.
std::vector<StorageOp> RemoveCheckpoint(Round round) {
  return {Remove(ManifestPath(round)), SyncDir(CheckpointDir(round)), Remove(CheckpointDir(round))};
}

}  // namespace

void CheckpointStore::Load(std::function<void(const absl::Status&)> then) {
  loaded_ = std::move(then);
  unread_.clear();
  valid_.clear();
  damaged_.clear();
  rubbish_.clear();
  durable_.clear();
  spared_.clear();
  storage_.Run({MakeDir(kCheckpointsDir), ListDir(kCheckpointsDir)}, [this](const StorageDone& done) {
    if (!done.status.ok()) return loaded_(done.status);
    for (const std::string& name : done.names) {
      if (name.empty() || name.back() != '/') continue;
      const absl::StatusOr<Round> round = ParseRound(name.substr(0, name.size() - 1));
      if (!round.ok() || *round == Round()) continue;  // {0, 0} stands for what the job began with
      unread_.push_back(*round);
      highest_term_ = std::max(highest_term_, round->term);
    }
    std::sort(unread_.begin(), unread_.end());
    ReadNext();
  });
}

void CheckpointStore::ReadNext() {
  if (unread_.empty()) {
    for (auto manifest = valid_.rbegin(); manifest != valid_.rend(); ++manifest) {
      durable_.push_back({manifest->round, manifest->unix_ms});
    }
    return loaded_(absl::OkStatus());
  }
  const Round round = unread_.back();
  unread_.pop_back();
  storage_.Run({ReadFile(ManifestPath(round), 0, kMaxManifestBytes)}, [this, round](const StorageDone& done) {
    if (absl::IsNotFound(done.status)) {
      rubbish_.push_back(round);
      return ReadNext();
    }
    // INVALID_ARGUMENT: it is no file at all, such as a folder.
    const bool is_damaged = absl::IsDataLoss(done.status) || absl::IsInvalidArgument(done.status);
    if (!done.status.ok() && !is_damaged) return loaded_(done.status);
    absl::StatusOr<Manifest> manifest =
        done.status.ok() ? DecodeManifest(ToString(done.data)) : absl::StatusOr<Manifest>(done.status);
    if (manifest.ok() && manifest->round != round) manifest = absl::DataLossError("it is another checkpoint's");
    if (manifest.ok()) {
      valid_.push_back(*std::move(manifest));
    } else {
      damaged_.push_back({round, absl::StrCat(ManifestPath(round), ": ", MessageOf(manifest.status()))});
    }
    ReadNext();
  });
}

Round CheckpointStore::newest() const {
  const Round valid = valid_.empty() ? Round() : valid_.front().round;
  return damaged_.empty() ? valid : std::max(valid, damaged_.front().round);
}

std::string CheckpointStore::WhyNot(Round lost) const {
  for (const Damaged& damaged : damaged_) {
    if (damaged.round == lost) return damaged.why;
  }
  return ManifestPath(lost) + " is gone";
}

// Calendars may be set back: what counts is how far two are apart.
size_t CheckpointStore::LeastWanted(const Retention& retention) const {
  if (retention.keep < 3) return 0;
  const size_t third = durable_.size() - 3;  // newest; before it are those that are apart already
  const auto [early, late] = std::minmax({durable_[third - 1].unix_ms, durable_[third].unix_ms});
  const uint64_t apart = static_cast<uint64_t>(late) - static_cast<uint64_t>(early);
  return apart < static_cast<uint64_t>(retention.apart.count()) ? third : 0;
}

void CheckpointStore::Prune(Round round, int64_t unix_ms, const Retention& retention,
                            std::function<void(const absl::Status&)> then) {
  durable_.push_back({round, unix_ms});
  std::vector<Round> doomed = std::exchange(rubbish_, {});
  while (durable_.size() > static_cast<size_t>(std::max<int64_t>(retention.keep, 1))) {
    const auto least = durable_.begin() + static_cast<ptrdiff_t>(LeastWanted(retention));
    if (pinned_.contains(least->round)) {
      spared_.insert(least->round);
    } else {
      doomed.push_back(least->round);
    }
    durable_.erase(least);
  }
  RemoveAll(doomed, then);
}

void CheckpointStore::Pin(std::set<Round> rounds, const std::function<void(const absl::Status&)>& then) {
  pinned_ = std::move(rounds);
  std::vector<Round> doomed;
  std::set_difference(spared_.begin(), spared_.end(), pinned_.begin(), pinned_.end(), std::back_inserter(doomed));
  for (const Round round : doomed) spared_.erase(round);
  RemoveAll(doomed, then);
}

void CheckpointStore::RemoveAll(const std::vector<Round>& rounds,
                                const std::function<void(const absl::Status&)>& then) {
  for (const Round round : rounds) {
    std::vector<StorageOp> ops = RemoveCheckpoint(round);
    ops.push_back(SyncDir(kCheckpointsDir));
    // An abandoned round may have been listed while Discard was about to remove it.
    storage_.Run(std::move(ops), [then](const StorageDone& done) {
      if (!absl::IsNotFound(done.status)) then(done.status);
    });
  }
}

void CheckpointStore::Discard(Round round) {
  storage_.Run(RemoveCheckpoint(round), [](const StorageDone&) {});
}

}  // namespace downpour
