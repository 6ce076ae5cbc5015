#include "data/idx.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/byte_source.h"
#include "data/byte_stream.h"
#include "data/open_source.h"
#include "runtime/prng.h"
#include "schema/checkpoint_format.h"

namespace downpour {
namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 40;
constexpr size_t kChunk = size_t{4} << 20;

// One file, plain or gzipped; offsets are those of the unpacked bytes.
class Reader {
 public:
  static absl::StatusOr<Reader> Open(const std::string& path) {
    absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenSource(path);
    if (source.ok()) return Reader(*std::move(source));
    if (absl::IsInvalidArgument(source.status())) return source.status();
    return absl::Status(source.status().code(),
                        absl::StrCat(std::string(source.status().message()),
                                     "; data.train and data.eval in the job file name the files"));
  }

  absl::StatusOr<size_t> Read(uint8_t* to, size_t bytes) { return stream_->Read({to, bytes}); }
  absl::StatusOr<uint64_t> SkipToEnd() { return stream_->SkipToEnd(); }
  uint64_t offset() const { return stream_->offset(); }
  const std::string& path() const { return source_->name(); }

 private:
  explicit Reader(std::unique_ptr<ByteSource> source)
      : source_(std::move(source)), stream_(std::make_unique<ByteStream>(*source_)) {}

  std::unique_ptr<ByteSource> source_;
  std::unique_ptr<ByteStream> stream_;
};

uint32_t BigEndian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

// Of ASCII and of UTF-8.
bool IsTextByte(uint8_t byte) { return byte >= 0x20 ? byte != 0x7f : byte == '\t' || byte == '\n' || byte == '\r'; }

absl::StatusOr<std::vector<uint32_t>> ReadHeader(Reader& reader, size_t dimensions) {
  std::array<uint8_t, 4 + 4 * 4> header;
  const size_t bytes = 4 + 4 * dimensions;
  auto got = reader.Read(header.data(), bytes);
  if (!got.ok()) return got.status();
  const uint32_t magic = 0x800 + static_cast<uint32_t>(dimensions);
  if (*got >= 4 && BigEndian(header.data()) != magic) {
    const bool is_text = std::all_of(header.begin(), header.begin() + std::min(*got, bytes), IsTextByte);
    const std::string hint = is_text ? absl::StrCat("; it looks like text: `downpour data stats ", reader.path(),
                                                    "` tells what a CSV has, and docs/PYTHON.md how to train on it")
                                     : "";
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: wrong magic 0x%08x at byte 0: IDX %s of unsigned bytes begin with 0x%08x%s", reader.path(),
                        BigEndian(header.data()), dimensions == 3 ? "images" : "labels", magic, hint));
  }
  if (*got < bytes) {
    return absl::DataLossError(absl::StrCat(reader.path(), ": truncated in its header, at byte ", *got, " of ", bytes));
  }
  std::vector<uint32_t> sizes(dimensions);
  uint64_t elements = 1;
  for (size_t i = 0; i < dimensions; ++i) {
    sizes[i] = BigEndian(header.data() + 4 + 4 * i);
    if (sizes[i] == 0) {
      return absl::InvalidArgumentError(absl::StrCat(reader.path(), ": size ", i, " is 0, at byte ", 4 + 4 * i));
    }
    if (sizes[i] > kMostElements / elements) {  // the product may be one that 64 bits do not hold
      return absl::InvalidArgumentError(
          absl::StrCat(reader.path(), ": absurd sizes in the header, at byte ", 4 + 4 * i));
    }
    elements *= sizes[i];
  }
  return sizes;
}

uint64_t Product(absl::Span<const uint32_t> sizes) {
  uint64_t product = 1;
  for (uint32_t size : sizes) product *= size;
  return product;
}

absl::Status CheckLength(const std::string& path, uint64_t promised, uint64_t bytes) {
  if (bytes < promised) {
    return absl::DataLossError(
        absl::StrCat(path, ": truncated at byte ", bytes, ": its header promises ", promised, " bytes"));
  }
  if (bytes == promised) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": bytes beyond the ", promised, " that its header promises, from byte ", promised));
}

enum : size_t { kImages, kLabels };  // places of its columns

class IdxDataset final : public Dataset {
 public:
  IdxDataset(IdxArray images, IdxArray labels)
      : images_(std::move(images)),
        labels_(std::move(labels)),
        columns_({{"image", ColumnType::kBytes, images_.sizes[1] * int64_t{images_.sizes[2]}},
                  {kLabelColumn, ColumnType::kInt64}}) {
    const auto crc = [](const std::vector<uint8_t>& bytes) {
      return Crc32c({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
    };
    fingerprint_ =
        MixAll(images_.sizes[0], images_.sizes[1], images_.sizes[2], crc(images_.elements), crc(labels_.elements));
  }

  uint64_t size() const override { return images_.sizes[0]; }
  const std::vector<Column>& columns() const override { return columns_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  absl::Status ReadBatch(absl::Span<const uint64_t> ids, absl::Span<const size_t> columns,
                         absl::Span<ColumnValues> values) const override {
    const auto beyond = std::find_if(ids.begin(), ids.end(), [this](uint64_t id) { return id >= size(); });
    if (beyond != ids.end()) return absl::OutOfRangeError(absl::StrCat("example ", *beyond, " of ", size()));
    for (size_t i = 0; i < columns.size(); ++i) {
      columns[i] == kImages ? ReadImages(ids, Hold<uint8_t>(values[i])) : ReadLabels(ids, Hold<int64_t>(values[i]));
    }
    return absl::OkStatus();
  }

 private:
  template <typename T>
  static std::vector<T>& Hold(ColumnValues& values) {
    return std::holds_alternative<std::vector<T>>(values) ? std::get<std::vector<T>>(values)
                                                          : values.emplace<std::vector<T>>();
  }
  void ReadImages(absl::Span<const uint64_t> ids, std::vector<uint8_t>& images) const {
    const auto width = static_cast<size_t>(columns_[kImages].width);
    images.resize(ids.size() * width);
    for (size_t row = 0; row < ids.size(); ++row) {
      std::memcpy(images.data() + row * width, images_.elements.data() + ids[row] * width, width);
    }
  }
  void ReadLabels(absl::Span<const uint64_t> ids, std::vector<int64_t>& labels) const {
    labels.resize(ids.size());
    for (size_t row = 0; row < ids.size(); ++row) labels[row] = labels_.elements[ids[row]];
  }

  IdxArray images_;
  IdxArray labels_;
  std::vector<Column> columns_;
  uint64_t fingerprint_;
};

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ReadIdxHeader(const std::string& path, size_t dimensions) {
  absl::StatusOr<Reader> opened = Reader::Open(path);
  if (!opened.ok()) return opened.status();
  Reader& reader = *opened;
  return ReadHeader(reader, dimensions);
}

absl::StatusOr<std::vector<uint32_t>> ReadIdxSizes(const std::string& path, size_t dimensions) {
  absl::StatusOr<Reader> opened = Reader::Open(path);
  if (!opened.ok()) return opened.status();
  Reader& reader = *opened;
  auto sizes = ReadHeader(reader, dimensions);
  if (!sizes.ok()) return sizes;
  const uint64_t promised = reader.offset() + Product(*sizes);
  const auto bytes = reader.SkipToEnd();
  if (!bytes.ok()) return bytes.status();
  if (absl::Status status = CheckLength(path, promised, *bytes); !status.ok()) return status;
  return sizes;
}

absl::StatusOr<IdxArray> ReadIdx(const std::string& path, size_t dimensions) {
  absl::StatusOr<Reader> opened = Reader::Open(path);
  if (!opened.ok()) return opened.status();
  Reader& reader = *opened;
  auto sizes = ReadHeader(reader, dimensions);
  if (!sizes.ok()) return sizes.status();

  IdxArray array{*std::move(sizes), {}};
  const uint64_t elements = Product(array.sizes);
  const uint64_t promised = reader.offset() + elements;
  while (array.elements.size() < elements) {
    const size_t have = array.elements.size();
    array.elements.resize(std::min<uint64_t>(elements, have + kChunk));
    auto got = reader.Read(array.elements.data() + have, array.elements.size() - have);
    if (!got.ok()) return got.status();
    if (have + *got < array.elements.size()) return CheckLength(path, promised, reader.offset());
  }
  uint8_t extra = 0;
  auto got = reader.Read(&extra, 1);
  if (!got.ok()) return got.status();
  if (absl::Status status = CheckLength(path, promised, reader.offset()); !status.ok()) return status;
  return array;
}

absl::Status WriteIdx(const std::string& path, absl::Span<const uint32_t> sizes, absl::Span<const uint8_t> elements) {
  std::vector<uint8_t> header = {0, 0, 8, static_cast<uint8_t>(sizes.size())};
  for (uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) header.push_back(static_cast<uint8_t>(size >> shift));
  }
  const std::string beside = path + ".tmp";
  const auto failed = [&] {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  };
  std::FILE* file = std::fopen(beside.c_str(), "wb");
  if (file == nullptr) return failed();
  const bool written = std::fwrite(header.data(), 1, header.size(), file) == header.size() &&
                       std::fwrite(elements.data(), 1, elements.size(), file) == elements.size();
  if (std::fclose(file) != 0 || !written || std::rename(beside.c_str(), path.c_str()) != 0) {
    const absl::Status status = failed();
    std::remove(beside.c_str());
    return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenIdxDataset(const SetFiles& files) {
  auto images = ReadIdx(files.images, 3);
  if (!images.ok()) return images.status();
  auto labels = ReadIdx(files.labels, 1);
  if (!labels.ok()) return labels.status();
  if (images->sizes[0] != labels->sizes[0]) {
    return absl::InvalidArgumentError(absl::StrCat(files.images, " has ", images->sizes[0], " images (at byte 4), but ",
                                                   files.labels, " has ", labels->sizes[0], " labels (at byte 4)"));
  }
  return std::make_unique<IdxDataset>(*std::move(images), *std::move(labels));
}

}  // namespace downpour
