#include "data/record_scan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

constexpr size_t kPiece = size_t{1} << 18;

}  // namespace

absl::StatusOr<bool> RecordScanner::Next(std::string_view* record) {
  for (;;) {
    bool is_record = false;
    const absl::StatusOr<bool> more = NextRun(record, &is_record);
    if (!more.ok() || !*more || is_record) return more;
  }
}

absl::StatusOr<bool> RecordScanner::NextRun(std::string_view* run, bool* is_record) {
  for (;;) {
    const std::string_view rest = std::string_view(text_).substr(at_);
    if (rest.empty() && at_end_) return false;
    offset_ = stream_.offset() - rest.size();
    line_ = next_line_;
    CutRecord cut;
    if (!rest.empty()) {
      const absl::StatusOr<CutRecord> got = file_.Cut(rest, at_end_);
      if (!got.ok()) return AtPlace(RecordPlace(source_.name(), offset_, line_), got.status());
      cut = *got;
    }
    if (cut.bytes > kMostRecord || (cut.bytes == 0 && rest.size() > kMostRecord)) {
      return absl::InvalidArgumentError(absl::StrCat(RecordPlace(source_.name(), offset_, line_),
                                                     ": a record of more than ", kMostRecord >> 20,
                                                     " MiB: is it of this format?"));
    }
    if (cut.bytes == 0) {
      if (absl::Status status = Fill(); !status.ok()) return status;
      continue;
    }
    *run = rest.substr(0, cut.bytes);
    *is_record = cut.is_record;
    at_ += cut.bytes;
    if (line_ != 0) next_line_ += static_cast<uint64_t>(std::count(run->begin(), run->end(), '\n'));
    return true;
  }
}

absl::Status RecordScanner::Fill() {
  text_.erase(0, at_);
  at_ = 0;
  if (at_end_) {
    const std::string place = RecordPlace(source_.name(), offset_, line_);
    return absl::DataLossError(absl::StrCat(place, ": the last record is cut short"));
  }
  while (stream_.offset() < file_.begin()) {  // what is no record
    text_.resize(std::min<uint64_t>(kPiece, file_.begin() - stream_.offset()));
    const absl::StatusOr<size_t> got = stream_.Read({reinterpret_cast<uint8_t*>(text_.data()), text_.size()});
    if (!got.ok()) return got.status();
    text_.clear();
    if (*got == 0) return absl::DataLossError(source_.name() + " became shorter");
  }
  const size_t have = text_.size(), wanted = std::max(kPiece, have);  // so that no byte is looked at too often
  text_.resize(have + wanted);
  const absl::StatusOr<size_t> got = stream_.Read({reinterpret_cast<uint8_t*>(text_.data()) + have, wanted});
  text_.resize(have + (got.ok() ? *got : 0));
  if (!got.ok()) return got.status();
  at_end_ = *got < wanted;
  return absl::OkStatus();
}

std::string RecordPlace(const std::string& file, uint64_t offset, uint64_t line) {
  return line != 0 ? absl::StrCat(file, ":", line) : absl::StrCat(file, " at byte ", offset);
}

absl::Status AtPlace(const std::string& place, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(place, ": ", status.message()));
}

}  // namespace downpour
