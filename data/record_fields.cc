#include "data/record_fields.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/byte_stream.h"
#include "data/record_scan.h"

namespace downpour {
namespace {

constexpr size_t kBeginning = size_t{1} << 16;
constexpr size_t kLookedAt = 200;                     // records,
constexpr uint64_t kLookedBytes = uint64_t{1} << 20;  // or as many as have so many bytes
constexpr size_t kMostNames = 100'000;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kBlanks = " \t\r";

}  // namespace

CutRecord CutLine(std::string_view text, bool at_end, char comment) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos && !at_end) return {};
  const std::string_view line = text.substr(0, end);
  const size_t first = line.find_first_not_of(kBlanks);
  return {std::min(text.size(), line.size() + 1), first != std::string_view::npos && line[first] != comment};
}

absl::StatusOr<std::string> BeginningOf(const ByteSource& source) {
  std::string beginning(kBeginning, '\0');
  ByteStream stream(source);
  const absl::StatusOr<size_t> got = stream.Read({reinterpret_cast<uint8_t*>(beginning.data()), beginning.size()});
  if (!got.ok()) return got.status();
  beginning.resize(*got);
  return beginning;
}

uint64_t ByteOrderMark(std::string_view beginning) {
  return beginning.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
}

absl::StatusOr<KnownFields> KnownFields::Of(const DataSpec& data, const ByteSource& source, const RecordFile& file) {
  KnownFields known;
  for (const ColumnSpec& column : data.columns) {
    if (column.fill) known.with_default_.insert(column.from.begin(), column.from.end());
  }
  RecordScanner scanner(source, file);
  std::string_view record;
  std::set<std::string> seen;
  for (size_t i = 0; i < kLookedAt && scanner.offset() < kLookedBytes && seen.size() < kMostNames; ++i) {
    const absl::StatusOr<bool> more = scanner.Next(&record);
    if (!more.ok()) return more.status();
    if (!*more) break;
    absl::StatusOr<std::vector<std::string>> names = file.FieldsOf(record);
    if (!names.ok()) continue;
    for (std::string& name : *names) {
      if (seen.insert(name).second) known.names_.push_back(std::move(name));
    }
  }
  return known;
}

absl::Status KnownFields::Check(const std::string& file, absl::Span<const std::string> wanted) const {
  for (const std::string& name : wanted) {
    const bool is_known = std::find(names_.begin(), names_.end(), name) != names_.end();
    if (is_known || names_.empty() || with_default_.contains(name)) continue;
    const absl::Status absent = NoSuchField(file, name, names_);
    return absl::Status(absent.code(), absl::StrCat(absent.message(),
                                                    " (as its first records show; where such a field "
                                                    "may be missing, give its column a default, or write it empty)"));
  }
  return absl::OkStatus();
}

}  // namespace downpour
