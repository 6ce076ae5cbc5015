#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "data/csv_records.h"
#include "data/dataset.h"
#include "data/idx.h"
#include "data/jsonl_records.h"
#include "data/libsvm_records.h"
#include "data/record_dataset.h"
#include "data/record_fields.h"
#include "data/record_format.h"
#include "data/tfrecord_records.h"
#include "job/nearest_name.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kMostShown = 20;     // names of fields in an error
constexpr size_t kLongestShown = 64;  // of one of them

// The formats of data files: each is one file of code, and one row here. One with records says how a file of it is
// opened, any other how a set is.
struct Format {
  const char* name;  // as data.format has it
  absl::StatusOr<std::unique_ptr<Dataset>> (*open_set)(const SetFiles& files);
  absl::StatusOr<std::unique_ptr<RecordFile>> (*open_file)(const DataSpec& data, const ByteSource& source);
  bool (*looks_so)(std::string_view beginning);  // null: nothing in the bytes tells
};
constexpr Format kFormats[] = {
    {kIdxFormat, &OpenIdxDataset, nullptr, nullptr},
    {kCsvFormat, nullptr, &OpenCsvRecords, nullptr},
    {kJsonFormat, nullptr, &OpenJsonRecords, &LooksLikeJson},
    {kLibsvmFormat, nullptr, &OpenLibsvmRecords, &LooksLikeLibsvm},
    {kTfRecordFormat, nullptr, &OpenTfRecords, &LooksLikeTfRecord},
};

absl::StatusOr<const Format*> FindFormat(const std::string& name) {
  const auto* found =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& one) { return name == one.name; });
  if (found != std::end(kFormats)) return found;
  const auto append = [](std::string* out, const Format& one) { out->append(one.name); };
  return absl::InvalidArgumentError(
      absl::StrCat("data.format: unknown format '", name, "'; known: ", absl::StrJoin(kFormats, ", ", append)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const DataSpec& data, const SetFiles& files) {
  const absl::StatusOr<const Format*> format = FindFormat(data.format);
  if (!format.ok()) return format.status();
  if ((*format)->open_set != nullptr) return (*format)->open_set(files);
  return OpenRecordDataset(data, files);
}

absl::StatusOr<std::unique_ptr<RecordFile>> OpenRecordFile(const DataSpec& data, const ByteSource& source) {
  const absl::StatusOr<const Format*> format = FindFormat(data.format);
  if (!format.ok()) return format.status();
  if ((*format)->open_file != nullptr) return (*format)->open_file(data, source);
  return absl::InvalidArgumentError("data.format: files of " + data.format + " have no records");
}

absl::StatusOr<std::string> GuessRecordFormat(const ByteSource& source) {
  const absl::StatusOr<std::string> beginning = BeginningOf(source);
  if (!beginning.ok()) return beginning.status();
  for (const Format& one : kFormats) {
    if (one.looks_so != nullptr && one.looks_so(*beginning)) return one.name;
  }
  return kCsvFormat;
}

absl::Status NoSuchField(const std::string& file, const std::string& field, const std::vector<std::string>& known) {
  const std::string meant = WhatWasMeant(field, known);
  const size_t shown = std::min(known.size(), kMostShown);
  const std::string some = absl::StrJoin(known.begin(), known.begin() + static_cast<ptrdiff_t>(shown), ", ");
  return absl::InvalidArgumentError(absl::StrCat(  // the file itself was found
      file, " has no field '", OneLine(field, kLongestShown), "'; ",
      meant.empty()
          ? absl::StrCat("it has ", OneLine(some, kMostShown * kLongestShown), shown < known.size() ? ", ..." : "")
          : OneLine(meant, 2 * kLongestShown)));
}

}  // namespace downpour
