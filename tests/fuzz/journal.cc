// An entry of the chief's journal that is accepted can be written and read again. Its checksum would keep the fuzzer
// out, so the input is also taken for what stands under one.
#include "chief/folder/journal.h"

#include <glog/logging.h>

#include <string>

#include "chief/folder/sealed_copies.h"
#include "tests/fuzz/target.h"

namespace downpour {
namespace {

void TryEntry(const std::string& text) {
  const auto read = DecodeEntry(text);
  if (!read.ok()) return;
  const auto again = DecodeEntry(EncodeEntry(*read));
  CHECK(again.ok()) << again.status();
  CHECK(*again == *read);
}

}  // namespace
}  // namespace downpour

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downpour;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto unsealed = Unsealed(text); unsealed.ok()) TryEntry(*unsealed);
  TryEntry(text);
  return 0;
}
