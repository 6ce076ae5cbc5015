#include "tools/cli/data_split.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "data/byte_source.h"
#include "data/byte_stream.h"
#include "data/open_source.h"
#include "data/record_format.h"
#include "data/record_scan.h"
#include "data/word_hash.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSetNames[kMostSets] = {"train", "eval", "test"};

// One set on its way: beside its path until it is whole.
class SetWriter {
 public:
  explicit SetWriter(std::string path) : path_(std::move(path)), draft_(path_ + ".part") {}
  SetWriter(const SetWriter&) = delete;
  SetWriter& operator=(const SetWriter&) = delete;
  ~SetWriter() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::remove(draft_.c_str());
  }

  absl::Status Begin(std::string_view header) {
    file_ = std::fopen(draft_.c_str(), "wbx");
    if (file_ == nullptr) return Failed();
    return Put(header);
  }
  absl::Status Add(std::string_view record, bool ends_line) {
    ++records_;
    absl::Status status = Put(record);
    if (status.ok() && ends_line && !record.ends_with('\n')) status = Put("\n");
    return status;
  }
  absl::StatusOr<SplitSet> End() {
    if (std::fflush(file_) != 0) return Failed();
    std::error_code error;
    fs::rename(draft_, path_, error);
    if (error) return absl::ErrnoToStatus(error.value(), "cannot write " + path_);
    std::fclose(std::exchange(file_, nullptr));
    return SplitSet{path_, records_};
  }

 private:
  absl::Status Failed() const { return absl::ErrnoToStatus(errno, "cannot write " + draft_); }
  absl::Status Put(std::string_view bytes) {
    return std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size() ? absl::OkStatus() : Failed();
  }

  std::string path_, draft_;
  FILE* file_ = nullptr;
  uint64_t records_ = 0;
};

// people.csv.gz: .csv
std::string EndingOf(const std::string& path) {
  fs::path name = fs::path(path).filename();
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  return name.extension().string();
}

absl::StatusOr<std::string> HeaderOf(const ByteSource& source, const RecordFile& file) {
  std::string header(file.begin(), '\0');
  ByteStream stream(source);
  for (size_t have = 0; have < header.size();) {
    auto to = absl::MakeSpan(reinterpret_cast<uint8_t*>(header.data()) + have, header.size() - have);
    const absl::StatusOr<size_t> got = stream.Read(to);
    if (!got.ok()) return got.status();
    if (*got == 0) return absl::DataLossError(source.name() + " ends within its header");
    have += *got;
  }
  return header;
}

// Where each set ends among hashes, which are numbers from 0 to 1.
std::vector<double> EndsOf(const std::vector<double>& shares) {
  std::vector<double> ends(shares.size());
  std::partial_sum(shares.begin(), shares.end(), ends.begin());
  const double all = ends.back();
  for (double& end : ends) end /= all;
  return ends;
}

size_t SetOf(std::string_view record, uint64_t seed, const std::vector<double>& ends) {
  while (record.ends_with('\n') || record.ends_with('\r')) record.remove_suffix(1);
  const double place = std::ldexp(static_cast<double>(HashWord(record, seed) >> 11), -53);
  const auto set = std::upper_bound(ends.begin(), ends.end() - 1, place);
  return static_cast<size_t>(set - ends.begin());
}

}  // namespace

absl::StatusOr<std::vector<SplitSet>> SplitRecords(const DataSpec& data, const std::string& path,
                                                   const std::string& folder, const std::vector<double>& shares,
                                                   uint64_t seed) {
  if (!std::all_of(shares.begin(), shares.end(), [](double share) { return share > 0 && std::isfinite(share); })) {
    return absl::InvalidArgumentError("--shares: each must be a number above 0");
  }
  auto source = OpenSource(path);
  if (!source.ok()) return source.status();
  auto file = OpenRecordFile(data, **source);
  if (!file.ok()) return file.status();
  const absl::StatusOr<std::string> header = HeaderOf(**source, **file);
  if (!header.ok()) return header.status();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return absl::ErrnoToStatus(error.value(), "cannot make " + folder);

  std::vector<std::unique_ptr<SetWriter>> sets;
  for (size_t i = 0; i < shares.size(); ++i) {
    const std::string to = absl::StrCat(folder, "/", kSetNames[i], EndingOf(path));
    if (fs::exists(to, error)) {
      return absl::AlreadyExistsError(to + " is there already; name another folder, or remove it");
    }
    sets.push_back(std::make_unique<SetWriter>(to));
    if (absl::Status status = sets.back()->Begin(*header); !status.ok()) return status;
  }
  const std::vector<double> ends = EndsOf(shares);
  const bool has_lines = (*file)->first_line() > 0;
  RecordScanner scanner(**source, **file);
  for (std::string_view record;;) {
    const absl::StatusOr<bool> more = scanner.Next(&record);
    if (!more.ok()) return more.status();
    if (!*more) break;
    const absl::Status status = sets[SetOf(record, seed, ends)]->Add(record, has_lines);
    if (!status.ok()) return status;
  }
  std::vector<SplitSet> written;
  for (const auto& set : sets) {
    auto ended = set->End();
    if (!ended.ok()) return ended.status();
    written.push_back(*std::move(ended));
  }
  return written;
}

}  // namespace downpour
