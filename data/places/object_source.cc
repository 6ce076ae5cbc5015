#include "data/places/object_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/places/answers.h"
#include "data/word_hash.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kFirst = 64 << 10;  // bytes of the request that opens an object
constexpr size_t kMostShown = 100;   // bytes of a header
constexpr int kRedirects = 300, kFailures = 400;

// The bytes that were read ahead, of all sources.
class Windows {
 public:
  using Bytes = std::shared_ptr<const std::vector<uint8_t>>;

  static Windows& All() {
    static Windows* const all = new Windows;  // threads may read until the process ends
    return *all;
  }

  // How many bytes from `offset` on were there, and are in `to` now.
  size_t Read(const void* source, uint64_t offset, absl::Span<uint8_t> to) {
    Bytes bytes;
    uint64_t first = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto window = std::find_if(windows_.begin(), windows_.end(), [&](const Window& one) {
        return one.source == source && offset >= one.first && offset - one.first < one.bytes->size();
      });
      if (window == windows_.end()) return 0;
      windows_.splice(windows_.begin(), windows_, window);
      bytes = window->bytes;
      first = window->first;
    }
    const size_t count = std::min<uint64_t>(to.size(), bytes->size() - (offset - first));
    std::memcpy(to.data(), bytes->data() + (offset - first), count);
    return count;
  }
  void Add(const void* source, uint64_t first, std::vector<uint8_t> bytes) {
    const std::lock_guard lock(mutex_);
    windows_.push_front({source, first, std::make_shared<const std::vector<uint8_t>>(std::move(bytes))});
    if (windows_.size() > kMostWindows) windows_.pop_back();  // the one that was used least lately
  }
  void Forget(const void* source) {
    const std::lock_guard lock(mutex_);
    windows_.remove_if([&](const Window& one) { return one.source == source; });
  }

 private:
  struct Window {
    const void* source;
    uint64_t first;
    Bytes bytes;
  };
  std::mutex mutex_;
  std::list<Window> windows_;
};

std::string RangeOf(uint64_t first, uint64_t last) { return absl::StrCat("bytes ", first, "-", last); }

absl::Status WrongBytes(const std::string& name, uint64_t first, uint64_t last, const HttpAnswer& answer) {
  return absl::DataLossError(absl::StrCat(name, ": the server was asked for ", RangeOf(first, last), " and sent ",
                                          answer.taken, " bytes with Content-Range '",
                                          OneLine(answer.Header("content-range"), kMostShown), "'"));
}

absl::Status HasChanged(const std::string& name) {
  return absl::FailedPreconditionError(
      name + " has changed since it was opened: data of a job must stay as they are; give new data another name");
}

absl::StatusOr<HttpAnswer> FetchRange(const ObjectPlace& place, uint64_t first, const std::string& version,
                                      absl::Span<uint8_t> to) {
  return HttpFetch(place.name(), [&]() -> absl::StatusOr<HttpRequest> {
    absl::StatusOr<HttpRequest> request = place.Ask(absl::StrCat("bytes=", first, "-", first + to.size() - 1), version);
    if (request.ok()) request->to = to;
    return request;
  });
}

class ObjectSource final : public ByteSource {
 public:
  explicit ObjectSource(std::unique_ptr<ObjectPlace> place) : place_(std::move(place)) {}
  ObjectSource(const ObjectSource&) = delete;
  ObjectSource& operator=(const ObjectSource&) = delete;
  ~ObjectSource() override { Windows::All().Forget(this); }

  absl::Status Open() {
    std::vector<uint8_t> begin(kFirst);
    const absl::StatusOr<HttpAnswer> answer = FetchRange(*place_, 0, "", absl::MakeSpan(begin));
    if (!answer.ok()) return answer.status();
    version_ = place_->VersionIn(*answer);
    const bool is_empty = answer->status == kNoSuchRange && answer->Header("content-range") == "bytes */0";
    if (is_empty || (answer->status == kWhole && answer->Header("content-length") == "0")) return absl::OkStatus();
    if (answer->status != kPartial) return Failure(*answer);
    const std::optional<ContentRange> range = ContentRangeIn(answer->Header("content-range"));
    if (!range || range->first != 0 || range->last != std::min<uint64_t>(kFirst, range->total) - 1 ||
        answer->taken != range->last + 1) {
      return WrongBytes(name(), 0, kFirst - 1, *answer);
    }
    size_ = range->total;
    begin.resize(answer->taken);
    Windows::All().Add(this, 0, std::move(begin));
    return absl::OkStatus();
  }

  const std::string& name() const override { return place_->name(); }
  uint64_t size() const override { return size_; }
  uint64_t version() const override { return HashWord(version_); }

  absl::StatusOr<size_t> Read(uint64_t offset, absl::Span<uint8_t> to) const override {
    to = to.subspan(0, std::min<uint64_t>(to.size(), size_ - std::min(offset, size_)));
    const bool goes_on = Note(offset, offset + to.size());
    for (size_t got = 0; got < to.size();) {
      const uint64_t at = offset + got;
      absl::Span<uint8_t> rest = to.subspan(got);
      if (const size_t ready = Windows::All().Read(this, at, rest); ready > 0) {
        got += ready;
        continue;
      }
      if (!goes_on || rest.size() >= kWindow) {
        if (absl::Status status = Fetch(at, rest); !status.ok()) return status;
        break;
      }
      std::vector<uint8_t> window(std::min<uint64_t>(kWindow, size_ - at));
      if (absl::Status status = Fetch(at, absl::MakeSpan(window)); !status.ok()) return status;
      Windows::All().Add(this, at, std::move(window));
    }
    return to.size();
  }

 private:
  // Whether the read that begins at `first` goes on where one of the latest ended.
  bool Note(uint64_t first, uint64_t end) const {
    const std::lock_guard lock(mutex_);
    const auto before = std::find(ends_.begin(), ends_.end(), first);
    const bool goes_on = before != ends_.end();
    uint64_t& oldest = goes_on ? *before : ends_[next_++ % ends_.size()];
    oldest = end;
    return goes_on;
  }

  absl::Status Fetch(uint64_t first, absl::Span<uint8_t> to) const {
    const uint64_t last = first + to.size() - 1;
    const absl::StatusOr<HttpAnswer> answer = FetchRange(*place_, first, version_, to);
    if (!answer.ok()) return answer.status();
    if (answer->status != kPartial) return Failure(*answer);
    const std::optional<ContentRange> range = ContentRangeIn(answer->Header("content-range"));
    if (range && range->total != size_) return HasChanged(name());
    if (place_->VersionIn(*answer) != version_) return HasChanged(name());  // a server that heeds no precondition
    if (range && range->first == first && range->last == last && answer->taken == to.size()) return absl::OkStatus();
    return WrongBytes(name(), first, last, *answer);
  }

  absl::Status Failure(const HttpAnswer& answer) const {
    if (answer.status == kChanged || answer.status == kNoSuchRange) return HasChanged(name());
    if (answer.status == kWhole) {
      return absl::FailedPreconditionError(
          name() + ": the server ignores ranges and sends all of it each time: copy it to a disk, to a bucket, or to " +
          "a server that answers ranges, as nginx does");
    }
    return FailureOf(name(), answer, place_->WordsIn(answer));
  }

  const std::unique_ptr<ObjectPlace> place_;
  uint64_t size_ = 0;
  std::string version_;
  mutable std::mutex mutex_;                    // of what follows
  mutable std::array<uint64_t, 16> ends_ = {};  // where the latest reads ended. So one from 0 on goes on.
  mutable size_t next_ = 0;                     // whose place the next one takes
};

}  // namespace

absl::Status FailureOf(const std::string& name, const HttpAnswer& answer, const std::string& words) {
  const std::string said =
      absl::StrCat("the server answers ", answer.status,
                   answer.tries > 1 ? absl::StrCat(" ", answer.tries, " times") : "", words.empty() ? "" : ": ", words);
  switch (answer.status) {
    case kDenied:
    case kForbidden:
      return absl::PermissionDeniedError(name + " may not be read: " + said);
    case kAbsent:
      return absl::NotFoundError(name + " is not there: " + said);
    default:
      break;
  }
  if (answer.tries > 1) return absl::UnavailableError(name + ": " + said);
  const bool leads_on = answer.status >= kRedirects && answer.status < kFailures;
  return absl::FailedPreconditionError(
      absl::StrCat(name, ": ", said, leads_on ? ", which leads to another place: name that one, or its region" : ""));
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenObject(std::unique_ptr<ObjectPlace> place) {
  auto source = std::make_unique<ObjectSource>(std::move(place));
  if (absl::Status status = source->Open(); !status.ok()) return status;
  return source;
}

}  // namespace downpour
