#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "data/cifar_records.h"
#include "data/csv_records.h"
#include "data/dataset.h"
#include "data/idx.h"
#include "data/jsonl_records.h"
#include "data/libsvm_records.h"
#include "data/parquet_module.h"
#include "data/record_dataset.h"
#include "data/record_fields.h"
#include "data/record_format.h"
#include "data/row_groups.h"
#include "data/tfrecord_records.h"
#include "job/data_formats.h"
#include "job/nearest_name.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kMostShown = 20;     // names of fields in an error
constexpr size_t kLongestShown = 64;  // of one of them

// The formats of data files: each is one file of code, and one row here. One with records says how a file of it is
// opened: how it is cut into them, or how its values lie by columns. Any other says how a set is opened.
struct Format {
  const char* name;  // as data.format has it
  absl::StatusOr<std::unique_ptr<Dataset>> (*open_set)(const SetFiles& files);
  absl::StatusOr<std::unique_ptr<RecordFile>> (*open_file)(const DataSpec& data, const ByteSource& source);
  RowGroupOpener open_groups;
  bool (*looks_so)(std::string_view beginning);  // null: nothing in the bytes tells
};
constexpr Format kFormats[] = {
    {kIdxFormat, &OpenIdxDataset, nullptr, nullptr, nullptr},
    {kParquetFormat, nullptr, nullptr, &OpenParquet, &LooksLikeParquet},
    {kCsvFormat, nullptr, &OpenCsvRecords, nullptr, nullptr},
    {kCriteoFormat, nullptr, &OpenCriteoRecords, nullptr, nullptr},
    {kCifar10Format, nullptr, &OpenCifar10Records, nullptr, nullptr},
    {kCifar100Format, nullptr, &OpenCifar100Records, nullptr, nullptr},
    {kJsonFormat, nullptr, &OpenJsonRecords, nullptr, &LooksLikeJson},
    {kLibsvmFormat, nullptr, &OpenLibsvmRecords, nullptr, &LooksLikeLibsvm},
    {kTfRecordFormat, nullptr, &OpenTfRecords, nullptr, &LooksLikeTfRecord},
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
  if ((*format)->open_groups != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.name(), " is ", data.format, ", which keeps values by columns",
                     ": it cannot be cut into its records; convert it, as to JSON lines"));
  }
  return absl::InvalidArgumentError("data.format: files of " + data.format + " have no records");
}

RowGroupOpener RowGroupOpenerOf(const std::string& format) {
  const absl::StatusOr<const Format*> found = FindFormat(format);
  return found.ok() ? (*found)->open_groups : nullptr;
}

absl::StatusOr<std::unique_ptr<RowGroups>> OpenRowGroups(const std::string& format, const ByteSource& source) {
  const std::shared_ptr<const ByteSource> not_owned(std::shared_ptr<void>(), &source);
  absl::StatusOr<std::unique_ptr<RowGroups>> groups = RowGroupOpenerOf(format)(not_owned);
  if (!groups.ok()) return WithFile(source.name(), groups.status());
  return groups;
}

absl::Status WithFile(const std::string& file, const absl::Status& status) {
  if (status.ok() || status.message().find(file) != absl::string_view::npos) return status;
  return absl::Status(status.code(), absl::StrCat(file, ": ", status.message()));
}

absl::StatusOr<std::string> GuessRecordFormat(const ByteSource& source) {
  const absl::StatusOr<std::string> beginning = BeginningOf(source);
  if (!beginning.ok()) return beginning.status();
  for (const Format& one : kFormats) {
    if (one.looks_so != nullptr && one.looks_so(*beginning)) return one.name;
  }
  return kCsvFormat;
}

absl::Status CheckFieldsAreIn(const std::vector<std::string>& known, absl::Span<const std::string> fields,
                              const std::string& file) {
  for (const std::string& field : fields) {
    if (std::find(known.begin(), known.end(), field) == known.end()) return NoSuchField(file, field, known);
  }
  return absl::OkStatus();
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
