#include "tools/cli/safetensors.h"

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kDataAlignment = 64;

std::string Header(const std::vector<SafeTensor>& tensors, const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = {{"__metadata__", metadata}};
  uint64_t offset = 0;
  for (const SafeTensor& tensor : tensors) {
    const uint64_t begin = offset;
    for (const Payload& piece : tensor.pieces) offset += piece.size();
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, offset}}};
  }
  std::string text = header.dump();
  text.append((kDataAlignment - (kLengthBytes + text.size()) % kDataAlignment) % kDataAlignment, ' ');
  return text;
}

bool WriteAll(std::FILE* file, const std::string& header, const std::vector<SafeTensor>& tensors) {
  const auto write = [file](const void* data, size_t bytes) { return std::fwrite(data, 1, bytes, file) == bytes; };
  const uint64_t length = header.size();
  bool good = write(&length, sizeof(length)) && write(header.data(), header.size());
  for (const SafeTensor& tensor : tensors) {
    for (const Payload& piece : tensor.pieces) good = good && write(piece.data(), piece.size());
  }
  return good;
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, const std::vector<SafeTensor>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  const std::string beside = path + ".tmp";
  const auto failed = [&] {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  };
  std::FILE* file = std::fopen(beside.c_str(), "wb");
  if (file == nullptr) return failed();
  const bool written = WriteAll(file, Header(tensors, metadata), tensors);
  if (std::fclose(file) == 0 && written && std::rename(beside.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const absl::Status status = failed();
  std::remove(beside.c_str());
  return status;
}

}  // namespace downpour
