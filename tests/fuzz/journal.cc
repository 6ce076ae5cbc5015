// A job's record that is accepted can be written and read again. Its checksum would keep the fuzzer out, so the input is
// also tried with the right one.
#include "chief/journal.h"

#include <glog/logging.h>

#include <cstdio>
#include <string>

#include "schema/checkpoint_format.h"
#include "tests/fuzz/target.h"

namespace downpour {
namespace {

void TryRecord(const std::string& text) {
  const auto read = DecodeJobRecord(text);
  if (!read.ok()) return;
  const auto& [number, record] = *read;
  const auto again = DecodeJobRecord(EncodeJobRecord(record, number));
  CHECK(again.ok()) << again.status();
  CHECK(*again == *read);
}

}  // namespace
}  // namespace downpour

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downpour;
  const std::string text(reinterpret_cast<const char*>(data), size);
  TryRecord(text);
  char checksum[18];
  std::snprintf(checksum, sizeof checksum, " crc32c %08x\n", Crc32c({reinterpret_cast<const std::byte*>(data), size}));
  TryRecord(text + checksum);
  return 0;
}
