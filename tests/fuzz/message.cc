// What is accepted keeps to the rules: it can be passed on, and says the same again.
#include <glog/logging.h>

#include "schema/codec.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/target.h"
#include "tests/schema/random_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downpour;
  const absl::StatusOr<Message> message = Decode(SplitFrames(data, size));
  if (!message.ok()) return 0;
  const absl::StatusOr<Message> again = Decode(Encode(*message));
  CHECK(again.ok()) << again.status();
  CHECK(FieldLines(*again) == FieldLines(*message));
  return 0;
}
