// A record that is accepted is the one that its contents make, byte for byte. Checksums would keep the fuzzer out, so
// the input is also tried with the right ones.
#include <glog/logging.h>

#include <cstring>
#include <string>

#include "schema/checkpoint_format.h"
#include "tests/fuzz/target.h"

namespace downpour {
namespace {

void TryRecord(const std::string& bytes) {
  const absl::StatusOr<SliceState> state = DecodeRecord({Payload::CopyOf(bytes.data(), bytes.size())});
  if (!state.ok()) return;
  std::string again;
  for (const Payload& block : EncodeRecord(*state)) {
    again.append(reinterpret_cast<const char*>(block.data()), block.size());
  }
  CHECK(again == bytes);
}

// See docs/CHECKPOINT_FORMAT.md for the places.
void Seal(std::string* bytes) {
  const auto word = [bytes](size_t at) {
    uint32_t value;
    std::memcpy(&value, bytes->data() + at, sizeof value);
    return value;
  };
  const auto put_checksum = [bytes](size_t at, size_t begin, size_t size) {
    const uint32_t checksum = Crc32c({reinterpret_cast<const std::byte*>(bytes->data()) + begin, size});
    std::memcpy(bytes->data() + at, &checksum, sizeof checksum);
  };
  if (bytes->size() < 56) return;
  const size_t header_bytes = word(8);
  const size_t value_bytes = word(32);
  const size_t blocks = size_t{1} + word(36);
  if (header_bytes < 56 || header_bytes > bytes->size()) return;
  for (size_t i = 0; i < blocks && 48 + 4 * i + 8 <= header_bytes; ++i) {
    if (header_bytes + (i + 1) * value_bytes > bytes->size()) break;
    put_checksum(48 + 4 * i, header_bytes + i * value_bytes, value_bytes);
  }
  put_checksum(header_bytes - 4, 0, header_bytes - 4);
}

}  // namespace
}  // namespace downpour

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  downpour::TryRecord(bytes);
  downpour::Seal(&bytes);
  downpour::TryRecord(bytes);
  return 0;
}
