// Text as JSON lines.
#include "tests/fuzz/records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  downpour::ReadAsRecords({reinterpret_cast<const char*>(data), size}, {.format = downpour::kJsonFormat});
  return 0;
}
