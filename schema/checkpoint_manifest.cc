// Manifests: one line of JSON, then one with the checksum of the first.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schema/checkpoint_format.h"
#include "schema/codec.h"
#include "schema/text.h"

namespace downpour {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "downpour checkpoint";
constexpr uint64_t kVersion = 1;
constexpr std::string_view kChecksumWord = "crc32c ";
constexpr size_t kChecksumLine = kChecksumWord.size() + 8 + 1;

std::string Hex(uint64_t number, int digits) {
  char text[17];
  std::snprintf(text, sizeof text, "%0*llx", digits, static_cast<unsigned long long>(number));
  return text;
}

// Exactly as Hex writes it.
std::optional<uint64_t> ParseHex(std::string_view text, int digits) {
  uint64_t number = 0;
  for (const char c : text.substr(0, 16)) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return std::nullopt;
    number = number << 4 | static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  if (text.size() != static_cast<size_t>(digits)) return std::nullopt;
  return number;
}

uint32_t Checksum(std::string_view text) {
  return Crc32c({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

// The members of one object; the first error is kept, and empty values are read from then on. Unknown members are left
// to later versions.
class Members {
 public:
  Members(const json& object, std::string place, std::string* error)
      : object_(object), place_(std::move(place)), error_(*error) {}

  void Fail(const std::string& key, const std::string& what) {
    if (error_.empty()) error_ = absl::StrCat(place_, key, " ", what);
  }

  uint64_t Number(const char* key, uint64_t most = ~uint64_t{0}) {
    const json* value = Find(key);
    if (value != nullptr && value->is_number_unsigned() && value->get<uint64_t>() <= most)
      return value->get<uint64_t>();
    Fail(key, absl::StrCat("is not a whole number from 0 to ", most));
    return 0;
  }
  std::string String(const char* key) {
    const json* value = Find(key);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    Fail(key, "is not a string");
    return "";
  }
  uint64_t HexNumber(const char* key, int digits) {
    const std::optional<uint64_t> number = ParseHex(String(key), digits);
    if (!number) Fail(key, absl::StrCat("is not a number of ", digits, " hexadecimal digits"));
    return number.value_or(0);
  }
  bool Has(const char* key) { return Find(key) != nullptr; }
  const json& Array(const char* key) {
    static const json& empty = *new json(json::array());
    const json* value = Find(key);
    if (value != nullptr && value->is_array()) return *value;
    Fail(key, "is not an array");
    return empty;
  }

 private:
  const json* Find(const char* key) {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  const json& object_;
  std::string place_;
  std::string& error_;
};

void ReadCommitted(Members& in, Manifest* manifest) {
  uint64_t last_end = 0;
  for (const json& pair : in.Array("committed")) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned() || !pair[1].is_number_unsigned()) {
      return in.Fail("committed", "holds something else than [begin, end]");
    }
    const auto begin = pair[0].get<uint64_t>();
    const auto end = pair[1].get<uint64_t>();
    if (begin >= end || (last_end > 0 && begin <= last_end)) return in.Fail("committed", "is not ascending");
    manifest->committed.InsertRange(begin, end);
    last_end = end;
  }
}

void ReadFiles(Members& in, std::string* error, Manifest* manifest) {
  std::set<std::string> names;
  for (const json& element : in.Array("files")) {
    Members file(element, absl::StrCat("files[", manifest->files.size(), "]."), error);
    manifest->files.push_back({file.String("name"), file.Number("bytes")});
    const std::string& name = manifest->files.back().name;
    if (!IsPlainName(name)) return file.Fail("name", "is no plain name");
    if (!names.insert(name).second) return file.Fail("name", "is used twice");
  }
}

void ReadTrainFiles(Members& in, std::string* error, Manifest* manifest) {
  if (!in.Has("trainFiles")) return;  // data that cannot grow by files
  for (const json& element : in.Array("trainFiles")) {
    Members file(element, absl::StrCat("trainFiles[", manifest->train_files.size(), "]."), error);
    manifest->train_files.push_back({file.String("name"), file.Number("examples"), file.HexNumber("fingerprint", 16)});
  }
}

void ReadRecords(Members& in, std::string* error, Manifest* manifest) {
  for (const json& element : in.Array("records")) {
    const size_t index = manifest->records.size();
    Members record(element, absl::StrCat("records[", index, "]."), error);
    const uint64_t slice = record.Number("slice", UINT32_MAX);
    const uint64_t file = record.Number("file", UINT32_MAX);
    const uint64_t offset = record.Number("offset");
    const uint64_t bytes = record.Number("bytes", kMaxBucketRecordBytes);
    const uint64_t crc32c = record.HexNumber("crc32c", 8);
    if (slice != index) record.Fail("slice", "is not the number of its place");
    if (file >= manifest->files.size()) {
      record.Fail("file", "is not there");
    } else if (bytes > manifest->files[file].bytes || offset > manifest->files[file].bytes - bytes) {
      record.Fail("bytes", "reach beyond the file's end");
    }
    if (!error->empty()) return;
    manifest->records.push_back({SliceId{static_cast<uint32_t>(slice)}, static_cast<uint32_t>(file), offset, bytes,
                                 static_cast<uint32_t>(crc32c)});
  }
}

// The JSON line of a manifest whose checksum line is right.
absl::StatusOr<std::string_view> CheckedLine(std::string_view text) {
  if (text.size() > kMaxManifestBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("no manifest: ", text.size(), " bytes, of at most ", kMaxManifestBytes));
  }
  if (text.size() < kChecksumLine) return absl::DataLossError("a damaged manifest: it is cut short");
  const std::string_view line = text.substr(0, text.size() - kChecksumLine);
  if (text.substr(line.size()) != absl::StrCat(std::string(kChecksumWord), Hex(Checksum(line), 8), "\n")) {
    return absl::DataLossError("a damaged manifest: its checksum differs, or its end is missing");
  }
  return line;
}

}  // namespace

std::string EncodeManifest(const Manifest& manifest) {
  json committed = json::array();
  for (const auto& interval : manifest.committed.Intervals()) committed.push_back({interval.begin, interval.end});
  json files = json::array();
  for (const Manifest::File& file : manifest.files) files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  json records = json::array();
  for (const Manifest::Record& r : manifest.records) {
    records.push_back({{"slice", ToNumber(r.slice)},
                       {"file", r.file},
                       {"offset", r.offset},
                       {"bytes", r.bytes},
                       {"crc32c", Hex(r.crc32c, 8)}});
  }
  json object = {{"format", kFormat},
                 {"version", kVersion},
                 {"round", ToString(manifest.round)},
                 {"unixMs", static_cast<uint64_t>(manifest.unix_ms)},
                 {"job", manifest.job},
                 {"trainExamples", manifest.train_examples},
                 {"evalExamples", manifest.eval_examples},
                 {"dataFingerprint", Hex(manifest.data_fingerprint, 16)},
                 {"committed", std::move(committed)},
                 {"files", std::move(files)},
                 {"records", std::move(records)}};
  for (const DataFile& file : manifest.train_files) {
    object["trainFiles"].push_back(
        {{"name", file.name}, {"examples", file.examples}, {"fingerprint", Hex(file.fingerprint, 16)}});
  }
  const std::string line = object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  return absl::StrCat(line, std::string(kChecksumWord), Hex(Checksum(line), 8), "\n");
}

absl::StatusOr<Manifest> DecodeManifest(const std::string& text) {
  const absl::StatusOr<std::string_view> line = CheckedLine(text);
  if (!line.ok()) return line.status();
  const json object = json::parse(*line, nullptr, /*allow_exceptions=*/false);
  std::string error;
  Members in(object, "", &error);
  if (in.String("format") != kFormat) return absl::InvalidArgumentError("no manifest: it is not a checkpoint's");
  if (const uint64_t version = in.Number("version"); version > kVersion) {
    return absl::UnimplementedError(
        absl::StrCat("a manifest of version ", version, ", and this build reads up to ", kVersion));
  }

  Manifest manifest;
  const absl::StatusOr<Round> round = ParseRound(in.String("round"));
  if (!round.ok()) return round.status();
  manifest.round = *round;
  manifest.unix_ms = static_cast<int64_t>(in.Number("unixMs", INT64_MAX));
  manifest.job = in.String("job");
  manifest.train_examples = in.Number("trainExamples");
  manifest.eval_examples = in.Number("evalExamples");
  manifest.data_fingerprint = in.HexNumber("dataFingerprint", 16);
  if (manifest.job.size() > kMaxTextBytes) in.Fail("job", "is too long");
  ReadCommitted(in, &manifest);
  ReadTrainFiles(in, &error, &manifest);
  ReadFiles(in, &error, &manifest);
  ReadRecords(in, &error, &manifest);
  if (!error.empty()) return absl::InvalidArgumentError("no manifest: " + error);
  return manifest;
}

absl::StatusOr<Round> ParseRound(const std::string& folder) {
  Round round;
  const size_t dash = folder.find('-');
  const std::string term = folder.substr(0, dash);
  const std::string n = dash == std::string::npos ? "" : folder.substr(dash + 1);
  // Writing it again tells what SimpleAtoi lets pass: spaces, signs, leading zeros.
  if (absl::SimpleAtoi(term, &round.term) && absl::SimpleAtoi(n, &round.n) && ToString(round) == folder) return round;
  return absl::InvalidArgumentError(
      absl::StrCat("'", CleanText(folder, 64), "' names no checkpoint round; TERM-N does"));
}

std::string CheckpointDir(Round round) {
  return round == Round() ? kInitialDir : absl::StrCat(kCheckpointsDir, "/", ToString(round));
}
std::string ManifestPath(Round round) { return absl::StrCat(CheckpointDir(round), "/", kManifestName); }
std::string ShardPath(Round round, const std::string& file) { return absl::StrCat(CheckpointDir(round), "/", file); }

std::string DescribeCheckpoint(Round round, const IntervalSet& committed) {
  return absl::StrCat(CheckpointDir(round), " with ", Counted(committed.Count(), "lease"));
}

std::string DescribeVersions(const VersionSpan& evaluated, const VersionSpan& kept) {
  if (evaluated == kept || evaluated.empty() || kept.empty()) return "";
  return absl::StrCat(", measured at versions ", evaluated.oldest, " to ", evaluated.newest, ", kept at ", kept.oldest,
                      " to ", kept.newest);
}

}  // namespace downpour
