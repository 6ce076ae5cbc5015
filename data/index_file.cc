#include "data/index_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/byte_stream.h"
#include "data/word_hash.h"

namespace downpour {
namespace {

constexpr std::string_view kMagic = "DPINDEX1";
constexpr size_t kMostCutting = 256;
constexpr uint64_t kMostIndexBytes = uint64_t{1} << 32;  // of some 10^10 records
constexpr size_t kSamples = 8;
constexpr size_t kPieceOnDisk = 20;

template <typename T>
void Append(T value, std::string* to) {
  for (size_t i = 0; i < sizeof(T); ++i) to->push_back(static_cast<char>(value >> (8 * i)));
}

// What it takes beyond the end is 0, and then it has failed.
class Parser {
 public:
  explicit Parser(std::string_view bytes) : rest_(bytes) {}
  template <typename T>
  T Take() {
    const std::string_view bytes = TakeBytes(sizeof(T));
    T value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) value |= static_cast<T>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    return value;
  }
  std::string_view TakeBytes(uint64_t count) {
    if (count > rest_.size()) has_failed_ = true;
    if (has_failed_) return {};
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  // How many of so many bytes follow; more than can be are a failure.
  uint64_t TakeCount(size_t bytes_of_one) {
    const auto count = Take<uint64_t>();
    if (count > rest_.size() / bytes_of_one) has_failed_ = true;
    return has_failed_ ? 0 : count;
  }
  bool is_done() const { return !has_failed_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool has_failed_ = false;
};

bool IsPossible(const RecordIndex& index) {
  const std::vector<uint64_t>& left_out = index.left_out.records;
  const bool pieces = std::all_of(index.pieces.begin(), index.pieces.end(), [](const Piece& piece) {
    return piece.bytes > 0 && piece.bytes <= kPieceBytes + kMostRecord && piece.records <= kPieceRecords &&
           piece.records <= piece.bytes;
  });
  const bool rises = std::adjacent_find(left_out.begin(), left_out.end(), std::greater_equal<>()) == left_out.end();
  return pieces && rises && (left_out.empty() || index.records() == 0 || left_out.back() < index.records());
}

}  // namespace

std::string EncodeIndex(const RecordIndex& index) {
  std::string bytes(kMagic);
  Append(index.size, &bytes);
  Append(index.version, &bytes);
  Append(static_cast<uint32_t>(index.cutting.size()), &bytes);
  bytes += index.cutting;
  const Piece begin = index.pieces.empty() ? Piece() : index.pieces.front();
  Append(begin.offset, &bytes);
  Append(begin.line, &bytes);
  Append(static_cast<uint64_t>(index.pieces.size()), &bytes);
  for (size_t i = 0; i < index.pieces.size(); ++i) {
    const Piece& piece = index.pieces[i];
    const uint64_t next_line = i + 1 < index.pieces.size() ? index.pieces[i + 1].line : piece.line;
    Append(piece.checksum, &bytes);
    Append(piece.bytes, &bytes);
    Append(piece.records, &bytes);
    Append(static_cast<uint32_t>(next_line - piece.line), &bytes);
  }
  Append(index.left_out.reading, &bytes);
  Append(static_cast<uint64_t>(index.left_out.records.size()), &bytes);
  for (const uint64_t record : index.left_out.records) Append(record, &bytes);
  Append(HashWord(bytes), &bytes);
  return bytes;
}

absl::StatusOr<RecordIndex> DecodeIndex(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return absl::DataLossError("is no index of this version");
  const size_t sealed = bytes.size() - std::min(bytes.size(), sizeof(uint64_t));
  if (Parser(bytes.substr(sealed)).Take<uint64_t>() != HashWord(bytes.substr(0, sealed))) {
    return absl::DataLossError("is damaged or cut short");
  }
  Parser parser(bytes.substr(kMagic.size(), sealed - std::min(sealed, kMagic.size())));
  RecordIndex index;
  index.size = parser.Take<uint64_t>();
  index.version = parser.Take<uint64_t>();
  const auto cutting = parser.Take<uint32_t>();
  index.cutting = std::string(parser.TakeBytes(cutting > kMostCutting ? bytes.size() : cutting));
  Piece next;
  next.offset = parser.Take<uint64_t>();
  next.line = parser.Take<uint64_t>();
  const uint64_t count = parser.TakeCount(kPieceOnDisk);
  index.pieces.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    next.checksum = parser.Take<uint64_t>();
    next.bytes = parser.Take<uint32_t>();
    next.records = parser.Take<uint32_t>();
    index.pieces.push_back(next);
    next.line += parser.Take<uint32_t>();
    next.offset += next.bytes;
    next.first += next.records;
  }
  index.left_out.reading = parser.Take<uint64_t>();
  const uint64_t left_out = parser.TakeCount(sizeof(uint64_t));
  index.left_out.records.reserve(left_out);
  for (uint64_t i = 0; i < left_out; ++i) index.left_out.records.push_back(parser.Take<uint64_t>());
  if (!parser.is_done() || !IsPossible(index)) return absl::DataLossError("claims what cannot be");
  return index;
}

absl::StatusOr<RecordIndex> ReadIndex(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenFile(path);
  if (!source.ok()) return source.status();
  if ((*source)->size() > kMostIndexBytes) return absl::DataLossError("is larger than any index");
  std::string bytes((*source)->size(), '\0');
  const absl::StatusOr<size_t> got = (*source)->Read(0, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  if (!got.ok()) return got.status();
  bytes.resize(*got);
  return DecodeIndex(bytes);
}

absl::Status WriteIndex(const std::string& path, const RecordIndex& index, const std::string& of) {
  const std::filesystem::path target(path);
  // No pattern of a job's matches a name with a dot before it.
  std::string beside = (target.parent_path() / absl::StrCat(".", target.filename().string(), ".XXXXXX")).string();
  const auto failed = [&] {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  };
  const int fd = mkostemp(beside.data(), O_CLOEXEC);
  if (fd < 0) return failed();
  const std::string bytes = EncodeIndex(index);
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t n = write(fd, bytes.data() + written, bytes.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    written += static_cast<size_t>(n);
  }
  struct stat at {};
  const bool is_good = written == bytes.size() && stat(of.c_str(), &at) == 0 && fchmod(fd, at.st_mode & 0666) == 0;
  const absl::Status status = is_good && rename(beside.c_str(), path.c_str()) == 0 ? absl::OkStatus() : failed();
  close(fd);
  if (!status.ok()) unlink(beside.c_str());
  return status;
}

absl::Status CheckIndex(const RecordIndex& index, const std::string& cutting, const ByteSource& source,
                        uint64_t begin) {
  const auto other = [](const char* what) { return absl::FailedPreconditionError(what); };
  if (index.cutting != cutting) return other("the file is to be read in another way");
  if (index.size != source.size()) return other("the file has another size");
  if (index.version != source.version()) return other("the file was changed at another time");
  const absl::StatusOr<bool> is_packed = IsPacked(source);
  if (!is_packed.ok()) return is_packed.status();
  if (*is_packed) return absl::OkStatus();
  const bool is_empty = index.pieces.empty();
  const uint64_t end = is_empty ? begin : index.pieces.back().offset + index.pieces.back().bytes;
  if ((!is_empty && index.pieces.front().offset != begin) || end != source.size())
    return other("it has not all of the file");
  std::string text;
  const size_t samples = std::min(kSamples, index.pieces.size());
  for (size_t i = 0; i < samples; ++i) {
    const Piece& piece = index.pieces[samples == 1 ? 0 : i * (index.pieces.size() - 1) / (samples - 1)];
    text.resize(piece.bytes);
    const absl::StatusOr<size_t> got =
        source.Read(piece.offset, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
    if (!got.ok()) return got.status();
    if (*got != text.size() || HashWord(text) != piece.checksum) return other("the file has other bytes");
  }
  return absl::OkStatus();
}

}  // namespace downpour
