// A manifest that is accepted can be written and read again. Its checksum would keep the fuzzer out, so the input is
// also tried with the right one.
#include <glog/logging.h>

#include <cstdio>
#include <string>

#include "schema/checkpoint_format.h"
#include "tests/fuzz/target.h"

namespace downpour {
namespace {

void TryManifest(const std::string& text) {
  const absl::StatusOr<Manifest> manifest = DecodeManifest(text);
  if (!manifest.ok()) return;
  const std::string written = EncodeManifest(*manifest);
  const absl::StatusOr<Manifest> again = DecodeManifest(written);
  CHECK(again.ok()) << again.status();
  CHECK(EncodeManifest(*again) == written);
}

}  // namespace
}  // namespace downpour

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downpour;
  const std::string text(reinterpret_cast<const char*>(data), size);
  TryManifest(text);
  char checksum[17];
  std::snprintf(checksum, sizeof checksum, "crc32c %08x\n", Crc32c({reinterpret_cast<const std::byte*>(data), size}));
  TryManifest(text + checksum);
  return 0;
}
