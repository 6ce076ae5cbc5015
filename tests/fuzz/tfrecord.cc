// Bytes as a TFRecord file, and as the data of one record, whose checksums would else hide them from the decoder.
#include "tests/fuzz/records.h"
#include "tests/unit/data/example_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  downpour::ReadAsRecords(bytes, {.format = downpour::kTfRecordFormat});
  downpour::ReadAsRecords(downpour::TfRecord(bytes), {.format = downpour::kTfRecordFormat});
  return 0;
}
