#include "tools/cli/safetensors.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

namespace downpour {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kDataAlignment = 64;

uint64_t BytesOf(const SafeTensor& tensor) {
  uint64_t bytes = tensor.dtype == "I64" ? sizeof(int64_t) : sizeof(float);
  for (const int64_t extent : tensor.shape) bytes *= static_cast<uint64_t>(extent);
  return bytes;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path, const std::vector<SafeTensor>& tensors,
                                 const std::map<std::string, std::string>& metadata)
    : file_(path) {
  nlohmann::json header = {{"__metadata__", metadata}};
  uint64_t offset = 0;
  for (const SafeTensor& tensor : tensors) {
    const uint64_t end = offset + BytesOf(tensor);
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    tensors_.push_back({offset, end});
    offset = end;
  }
  std::string text = header.dump();
  text.append((kDataAlignment - (kLengthBytes + text.size()) % kDataAlignment) % kDataAlignment, ' ');
  const uint64_t length = text.size();
  file_.WriteAt(0, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&length), kLengthBytes));
  file_.WriteAt(kLengthBytes, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size()));
  for (Range& tensor : tensors_) {
    tensor.next += kLengthBytes + length;
    tensor.end += kLengthBytes + length;
  }
}

void SafetensorsFile::Append(size_t tensor, absl::Span<const std::byte> bytes) {
  file_.WriteAt(tensors_[tensor].next, bytes);
  tensors_[tensor].next += bytes.size();
}

absl::Status SafetensorsFile::Commit() {
  const bool whole = std::all_of(tensors_.begin(), tensors_.end(), [](const Range& t) { return t.next == t.end; });
  return whole ? file_.Commit() : absl::InternalError("a tensor has not as many numbers as its shape says");
}

}  // namespace downpour
