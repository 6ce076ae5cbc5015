#include "tools/cli/data_convert.h"

#include <fcntl.h>
#include <simdjson.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/key_items.h"
#include "data/open_source.h"
#include "data/record_format.h"
#include "data/record_scan.h"
#include "data/record_stream.h"
#include "data/row_groups.h"
#include "data/set_files.h"
#include "job/data_formats.h"
#include "runtime/posix/fd.h"
#include "schema/text.h"
#include "tools/cli/field_survey.h"
#include "tools/cli/packed_file.h"
#include "tools/cli/record_encoder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFields = kMostCsvFields;
constexpr char kLastIndex[] = "10000";  // of libsvm: an index from here on is no field of its own
constexpr size_t kShown = 64;           // bytes of a field's name
constexpr char kPart[] = "part-";

struct Source {
  std::string path = {};
  DataSpec data = {};
  std::vector<std::string> names = {};
  std::vector<size_t> places = {};  // of names, among those of all sources
  bool has_types() const {
    return data.format == kJsonFormat || data.format == kTfRecordFormat || data.format == kParquetFormat;
  }
  bool names_in_records() const {
    return data.format == kJsonFormat || data.format == kTfRecordFormat || data.format == kLibsvmFormat;
  }
};

std::string EndingOf(const ConvertOptions& options) {
  const char* const packed = options.packing == Packing::kGzip   ? ".gz"
                             : options.packing == Packing::kZstd ? ".zst"
                                                                 : "";
  return absl::StrCat(".", options.format, packed);
}

class Conversion {
 public:
  explicit Conversion(const ConvertOptions& options) : options_(options) {}

  absl::StatusOr<Converted> Run() {
    if (absl::Status status = Open(); !status.ok()) return status;
    if (!is_copied_) {
      if (absl::Status status = Survey(); !status.ok()) return status;
      if (absl::Status status = CheckFormat(); !status.ok()) return status;
      converted_.bad = {};
    }
    if (absl::Status status = MakeFolder(); !status.ok()) return status;
    if (absl::Status status = is_copied_ ? Copy() : Encode(); !status.ok()) return status;
    if (absl::Status status = EndPart(); !status.ok()) return status;
    if (absl::Status status = Publish(); !status.ok()) return status;
    return std::move(converted_);
  }

 private:
  absl::Status Open();
  absl::StatusOr<std::vector<std::string>> NamesOf(const DataSpec& data, const ByteSource& source);
  // Calls take(source, values, stream) for each record that can be read.
  template <typename Take>
  absl::Status ForEach(const Take& take);
  absl::Status Survey();
  absl::Status CheckFormat();
  absl::Status CheckField(const std::string& name, const FieldSurvey& survey);
  absl::Status MakeFolder();
  absl::Status Publish();
  absl::Status Copy();
  absl::Status Encode();
  absl::Status LeaveOut(const std::string& place, const absl::Status& why);
  absl::Status AddRecord(std::string_view bytes, const std::string& header);
  absl::Status EndPart();
  absl::Status Withdrawn(const absl::Status& why) const;
  // Words of a file without types are what they are, in another one.
  bool IsTyped(const Source& source, const FieldValue& value) const {
    return source.has_types() || (options_.format == kCsvFormat && std::holds_alternative<std::string_view>(value));
  }

  const ConvertOptions& options_;
  std::vector<Source> sources_;
  bool is_copied_ = false;  // record for record
  std::vector<std::string> names_;
  std::vector<FieldSurvey> surveys_;
  UniqueFd lock_;  // of the folder: nobody else writes there
  std::vector<std::unique_ptr<PackedFile>> parts_;
  std::vector<std::string> published_;
  bool is_open_ = false;  // the last of them
  Converted converted_;
};

absl::Status Conversion::LeaveOut(const std::string& place, const absl::Status& why) {
  BadRecords& bad = converted_.bad;
  if (++bad.count == 1) bad.first = absl::StrCat(place, ": ", why.message());
  if (bad.count <= options_.skip) return absl::OkStatus();
  if (options_.skip == 0) return AtPlace(place, why);
  return absl::InvalidArgumentError(
      absl::StrCat("more than ", Counted(options_.skip, "record"),
                   " cannot be read, which is all that --skip allows; the first: ", bad.first));
}

absl::StatusOr<std::vector<std::string>> Conversion::NamesOf(const DataSpec& data, const ByteSource& source) {
  if (RowGroupOpenerOf(data.format) != nullptr) {
    const absl::StatusOr<std::unique_ptr<RowGroups>> groups = OpenRowGroups(data.format, source);
    if (!groups.ok()) return groups.status();
    return (*groups)->fields();
  }
  const absl::StatusOr<std::unique_ptr<RecordFile>> file = OpenRecordFile(data, source);
  if (!file.ok()) return file.status();
  std::vector<std::string> names;
  std::set<std::string> seen;
  RecordScanner scanner(source, **file);
  for (std::string_view record;;) {
    const absl::StatusOr<bool> more = scanner.Next(&record);
    if (!more.ok()) return more.status();
    if (!*more) return names;
    const std::string place = RecordPlace(source.name(), scanner.offset(), scanner.line());
    absl::StatusOr<std::vector<std::string>> fields = (*file)->FieldsOf(record);
    if (!fields.ok()) continue;  // as when it is read
    for (std::string& field : *fields) {
      if (data.format == kLibsvmFormat && field == kLastIndex) {
        return absl::InvalidArgumentError(absl::StrCat(place, ": an index of ", kLastIndex,
                                                       " or more: each index becomes a field, and these are too many"));
      }
      if (seen.insert(field).second) names.push_back(std::move(field));
      if (names.size() > kMostFields) {
        return absl::InvalidArgumentError(absl::StrCat(place, ": more than ", kMostFields, " fields in all records"));
      }
    }
    if (!Source{.data = data}.names_in_records()) return names;
  }
}

absl::Status Conversion::Open() {
  const absl::StatusOr<std::vector<std::string>> paths = ExpandFiles(options_.sources);
  if (!paths.ok()) return paths.status();
  for (const std::string& path : *paths) {
    const absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenSource(path);
    if (!source.ok()) return source.status();
    absl::StatusOr<DataSpec> data = options_.spec_of(**source);
    if (!data.ok()) return data.status();
    sources_.push_back({.path = path, .data = *std::move(data)});
  }
  const bool names_fields = options_.format == kJsonFormat || options_.format == kTfRecordFormat;
  is_copied_ = names_fields && std::all_of(sources_.begin(), sources_.end(),
                                           [&](const Source& one) { return one.data.format == options_.format; });
  if (is_copied_) return absl::OkStatus();
  std::map<std::string, size_t> places;
  for (Source& one : sources_) {
    const absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenSource(one.path);
    if (!source.ok()) return source.status();
    absl::StatusOr<std::vector<std::string>> names = NamesOf(one.data, **source);
    if (!names.ok()) return names.status();
    one.names = *std::move(names);
    for (const std::string& name : one.names) {
      const auto [place, is_new] = places.emplace(name, names_.size());
      if (is_new) names_.push_back(name);
      one.places.push_back(place->second);
      ColumnSpec& column = one.data.columns.emplace_back();
      column.from = {name};
      column.kind = ColumnKind::kKey;
      column.numbers = kWholeLists;
      column.fill = 0;  // any record may lack it
    }
  }
  surveys_.resize(names_.size());
  if (names_.size() <= kMostFields) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the sources have more than ", kMostFields, " fields in all"));
}

template <typename Take>
absl::Status Conversion::ForEach(const Take& take) {
  for (const Source& one : sources_) {
    const absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenSource(one.path);
    if (!source.ok()) return source.status();
    const absl::StatusOr<std::unique_ptr<RecordStream>> stream = OpenRecordStream(one.data, **source, one.names);
    if (!stream.ok()) return stream.status();
    std::vector<FieldValue> values(one.names.size());
    absl::Status read;
    for (;;) {
      const absl::StatusOr<bool> more = (*stream)->Next(absl::MakeSpan(values), &read);
      if (!more.ok()) return more.status();
      if (!*more) break;
      absl::Status status = read.ok() ? take(one, values, **stream) : LeaveOut((*stream)->place(), read);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status Conversion::Survey() {
  return ForEach([&](const Source& source, absl::Span<const FieldValue> values, const RecordStream& stream) {
    const auto place = [&] { return stream.place(); };
    for (size_t i = 0; i < values.size(); ++i) {
      surveys_[source.places[i]].Add(values[i], IsTyped(source, values[i]), place);
    }
    return absl::OkStatus();
  });
}

absl::Status Conversion::CheckFormat() {
  if (names_.empty()) return absl::InvalidArgumentError("the sources have no records");
  for (size_t i = 0; i < names_.size(); ++i) {
    if (absl::Status status = CheckField(names_[i], surveys_[i]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Conversion::CheckField(const std::string& name, const FieldSurvey& survey) {
  using S = FieldSurvey;
  const std::string field = absl::StrCat("field '", OneLine(name, kShown), "'");
  const auto cannot = [&](S::Sight sight, const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(survey.place(sight), ": ", field, " ", what));
  };
  if (!simdjson::validate_utf8(name.data(), name.size())) {
    return absl::InvalidArgumentError(absl::StrCat(sources_.front().path, ": the name of ", field,
                                                   " is no UTF-8, which the names of fields must be"));
  }
  if (options_.format != kTfRecordFormat) {
    const char* const other = "; convert to tfrecord";
    if (survey.has(S::kNoUtf8)) {
      return cannot(S::kNoUtf8,
                    absl::StrCat("has bytes that are no UTF-8, and ", options_.format, " has text alone", other));
    }
    if (options_.format == kCsvFormat) {
      if (survey.has(S::kList)) return cannot(S::kList, "has a list, and csv has none; convert to jsonl or tfrecord");
      if (survey.has(S::kNull)) return cannot(S::kNull, "has a byte of 0, which no csv has; convert to jsonl");
      return absl::OkStatus();
    }
    if (survey.has(S::kInfinite)) {
      return cannot(S::kInfinite, absl::StrCat("has an infinite number, and JSON has none", other));
    }
    return absl::OkStatus();
  }
  switch (survey.type()) {
    case FieldType::kMixed: {
      std::string kinds;
      for (const auto& [sight, word] : {std::pair{S::kText, "a text"},
                                        {S::kTruth, "a truth"},
                                        {S::kFraction, "a number"},
                                        {S::kWide, "a whole number beyond 2^53"},
                                        {S::kHuge, "one from 2^63 on"},
                                        {S::kWhole, "a whole number"},
                                        {S::kNegative, "one below 0"}}) {
        if (survey.has(sight)) absl::StrAppend(&kinds, kinds.empty() ? "" : ", ", word, " at ", survey.place(sight));
      }
      return absl::InvalidArgumentError(
          absl::StrCat(field, " has values of several types, and a feature of tf.Example has one: ", kinds));
    }
    case FieldType::kUnsigned:
      return cannot(S::kHuge, "has a whole number from 2^63 on, and tf.Example has none; convert to jsonl or csv");
    case FieldType::kNumber:
      if (survey.has(S::kBeyondFloat)) {
        return cannot(S::kBeyondFloat, "has a number beyond what 32 bits hold, and tf.Example has no larger ones");
      }
      if (survey.has(S::kRounded)) {
        converted_.notes.push_back(absl::StrCat(field,
                                                " is rounded to the 32 bits that numbers of tf.Example have, to ",
                                                "whole ones or more: the first at ", survey.place(S::kRounded)));
      }
      return absl::OkStatus();
    default:
      if (!survey.has(S::kMissingItem)) return absl::OkStatus();
      return cannot(S::kMissingItem, "lacks a value in a list, and lists of tf.Example lack none");
  }
}

absl::Status Conversion::MakeFolder() {
  std::error_code error;
  fs::create_directories(options_.folder, error);
  if (error) return absl::ErrnoToStatus(error.value(), "cannot make " + options_.folder);
  lock_ = UniqueFd(open(options_.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock_.ok() && flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::AlreadyExistsError(options_.folder + ": another `data convert` writes there now; name another folder");
  }
  std::vector<fs::path> abandoned;  // by one that was stopped
  for (fs::directory_iterator at(options_.folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (PackedFile::IsDraft(name) && name.starts_with(absl::StrCat(".", kPart))) abandoned.push_back(at->path());
    if (!std::string_view(name).starts_with(kPart)) continue;
    return absl::AlreadyExistsError(
        absl::StrCat(at->path().string(), " is there already; name another folder, or remove it"));
  }
  for (const fs::path& draft : abandoned) fs::remove(draft, error);
  return error ? absl::ErrnoToStatus(error.value(), "cannot read " + options_.folder) : absl::OkStatus();
}

// All or none: whoever is stopped here would leave some, and a pattern would find these.
absl::Status Conversion::Publish() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  absl::Status status;
  for (const auto& part : parts_) {
    if (status = part->Publish(); !status.ok()) break;
    published_.push_back(part->path());
  }
  if (!status.ok()) status = Withdrawn(status);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

absl::Status Conversion::AddRecord(std::string_view bytes, const std::string& header) {
  const uint64_t most = options_.records_per_file;
  if (is_open_ && most != 0 && converted_.parts.back().records == most) {
    if (absl::Status status = EndPart(); !status.ok()) return status;
  }
  if (!is_open_) {
    const std::string path =
        absl::StrCat(options_.folder, "/", kPart, absl::StrFormat("%05d", parts_.size()), EndingOf(options_));
    parts_.push_back(std::make_unique<PackedFile>(path, options_.packing));
    converted_.parts.push_back({path, 0});
    if (absl::Status status = parts_.back()->Open(); !status.ok()) return status;
    parts_.back()->Add(header);
    is_open_ = true;
  }
  parts_.back()->Add(bytes);
  ++converted_.parts.back().records;
  return parts_.back()->failure();
}

absl::Status Conversion::EndPart() {
  return std::exchange(is_open_, false) ? parts_.back()->Finish() : absl::OkStatus();
}

absl::Status Conversion::Withdrawn(const absl::Status& why) const {
  std::error_code error;
  for (const std::string& path : published_) fs::remove(path, error);
  return why;
}

absl::Status Conversion::Copy() {
  std::string line;
  for (const Source& one : sources_) {
    const absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenSource(one.path);
    if (!source.ok()) return source.status();
    const absl::StatusOr<std::unique_ptr<RecordFile>> file = OpenRecordFile(one.data, **source);
    if (!file.ok()) return file.status();
    RecordScanner scanner(**source, **file);
    for (std::string_view record;;) {
      const absl::StatusOr<bool> more = scanner.Next(&record);
      if (!more.ok()) return more.status();
      if (!*more) break;
      absl::Status status = (*file)->FieldsOf(record).status();
      if (!status.ok()) {
        status = LeaveOut(RecordPlace(one.path, scanner.offset(), scanner.line()), status);
      } else if (options_.format == kTfRecordFormat) {
        status = AddRecord(record, "");
      } else {
        line = record.substr(0, record.find_last_not_of("\r\n") + 1);
        status = AddRecord(line += '\n', "");
      }
      if (!status.ok()) return status;
    }
  }
  return parts_.empty() ? absl::InvalidArgumentError("the sources have no records") : absl::OkStatus();
}

absl::Status Conversion::Encode() {
  std::vector<EncodedField> fields;
  for (size_t i = 0; i < names_.size(); ++i) {
    fields.push_back({names_[i], surveys_[i].type(), surveys_[i].has(FieldSurvey::kList)});
  }
  const auto encoder = options_.format == kCsvFormat    ? NewCsvEncoder(std::move(fields))
                       : options_.format == kJsonFormat ? NewJsonEncoder(std::move(fields))
                                                        : NewTfRecordEncoder(std::move(fields));
  const std::string header = encoder->header();
  std::vector<FieldValue> all(names_.size());
  std::string bytes;
  absl::Status status =
      ForEach([&](const Source& source, absl::Span<const FieldValue> values, const RecordStream& stream) {
        std::fill(all.begin(), all.end(), FieldValue());
        for (size_t i = 0; i < values.size(); ++i) {
          const size_t place = source.places[i];
          all[place] = surveys_[place].Typed(values[i], IsTyped(source, values[i]));
        }
        bytes.clear();
        encoder->Add(all, &bytes);
        if (bytes.size() <= kMostRecord) return AddRecord(bytes, header);
        return absl::InvalidArgumentError(absl::StrCat(stream.place(), ": the record has ", bytes.size(), " bytes as ",
                                                       options_.format, ", and at most ", kMostRecord, " are read"));
      });
  if (!status.ok() || !parts_.empty()) return status;
  return absl::InvalidArgumentError("the sources have no records");
}

}  // namespace

absl::StatusOr<Converted> ConvertRecords(const ConvertOptions& options) { return Conversion(options).Run(); }

}  // namespace downpour
