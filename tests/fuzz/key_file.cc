// A key file that is accepted can be written and read again.
#include "schema/key_file.h"

#include <glog/logging.h>

#include <string>

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downpour;
  const absl::StatusOr<KeyFile> file = ParseKeyFile({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) return 0;
  const std::string written = PrintKeyFile(*file);
  const absl::StatusOr<KeyFile> again = ParseKeyFile(written);
  CHECK(again.ok()) << again.status();
  CHECK(PrintKeyFile(*again) == written);
  return 0;
}
