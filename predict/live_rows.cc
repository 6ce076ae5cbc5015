#include "predict/live_rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/row_frames.h"
#include "schema/limits.h"

namespace downpour {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void LiveRows::UseGrid(std::shared_ptr<const SliceGrid> grid) { grid_ = std::move(grid); }

std::map<uint32_t, LiveRows::Part> LiveRows::Split(const TableKeys& keys) const {
  std::map<uint32_t, Part> parts;
  for (size_t table = 0; table < keys.size(); ++table) {
    for (size_t place = 0; place < keys[table].size(); ++place) {
      Part& part = parts[BucketOf(table, keys[table][place], grid_->buckets)];
      part.keys.counts.resize(keys.size());
      ++part.keys.counts[table];
      part.keys.keys.push_back(keys[table][place]);
      part.places.emplace_back(table, place);
    }
  }
  return parts;
}

absl::StatusOr<SliceValues> LiveRows::Pack(const std::map<uint32_t, Part>& parts) const {
  SliceValues packed;
  for (const auto& [bucket, part] : parts) {
    Payload frame = PackKeys(part.keys);
    const size_t bytes = std::max(frame.size(), RowBytes(part.keys, grid_->row_widths));
    if (bytes > kMaxFrameBytes) {
      return absl::InvalidArgumentError(absl::StrCat("these rows need ", bytes, " bytes of one bucket of the tables, ",
                                                     "of at most ", kMaxFrameBytes, ": send fewer at a time"));
    }
    packed.emplace_back(grid_->BucketAt(bucket), std::move(frame));
  }
  return packed;
}

absl::StatusOr<SliceValues> LiveRows::Ask(SliceValues keys) const {
  std::unique_lock hold(mutex_);
  const uint64_t number = ++last_number_;
  if (closed_.ok()) {
    news_.asked.push_back({number, std::move(keys)});
    waiting_[number];
    hold.unlock();
    wake_();
    hold.lock();
    const auto has_ended = [&] { return !closed_.ok() || waiting_[number].has_value(); };
    answered_.wait_for(hold, kBrief, has_ended);
    const bool is_oldest = waiting_.begin()->first == number;
    if (is_oldest || Clock::now() >= silent_until_) answered_.wait_for(hold, kPatience - kBrief, has_ended);
    const std::optional<SliceValues> found = std::move(waiting_[number]);
    waiting_.erase(number);
    if (found) return *found;
    news_.forgotten.push_back(number);
    if (is_oldest) silent_until_ = Clock::now() + kSilence;
  }
  if (closed_.ok()) {
    return absl::UnavailableError("a server that has rows of the job's tables does not answer: ask again");
  }
  return absl::UnavailableError(
      absl::StrCat("rows of the job's tables are not read any more: ", std::string(closed_.message()),
                   ". If it left a checkpoint, that one answers soon"));
}

absl::StatusOr<TableValues> LiveRows::Fetch(const TableKeys& keys) const {
  TableValues values(keys.size());
  for (size_t table = 0; table < keys.size(); ++table)
    values[table].resize(keys[table].size() * grid_->row_widths[table]);
  const std::map<uint32_t, Part> parts = Split(keys);
  if (parts.empty()) return values;
  absl::StatusOr<SliceValues> packed = Pack(parts);
  if (!packed.ok()) return packed.status();
  const absl::StatusOr<SliceValues> found = Ask(*std::move(packed));
  if (!found.ok()) return found.status();
  for (const auto& [slice, rows] : *found) {
    const Part& part = parts.at(static_cast<uint32_t>(grid_->at(slice).offset));
    const float* from = rows.floats().data();
    for (const auto& [table, place] : part.places) {
      const size_t width = grid_->row_widths[table];
      std::copy_n(from, width, values[table].data() + place * width);
      from += width;
    }
  }
  return values;
}

LiveRows::News LiveRows::Take() {
  const std::lock_guard hold(mutex_);
  return std::exchange(news_, {});
}

void LiveRows::Answer(uint64_t number, SliceValues rows) {
  const std::lock_guard hold(mutex_);
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return;
  found->second = std::move(rows);
  answered_.notify_all();
}

void LiveRows::Close(const absl::Status& why) {
  const std::lock_guard hold(mutex_);
  closed_ = why.ok() ? absl::CancelledError("") : why;
  answered_.notify_all();
}

}  // namespace downpour
