#include "schema/codec.h"

#include <gtest/gtest.h>

#include <variant>

#include "random_message.h"

namespace downpour {
namespace {

constexpr size_t kKinds = std::variant_size_v<Message>;

TEST(CodecTest, EveryFieldOfEveryMessageArrives) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    for (size_t kind = 0; kind < kKinds; ++kind) {
      const Message sent = RandomMessage(kind, random);
      const absl::StatusOr<Message> received = Decode(Encode(sent));
      ASSERT_TRUE(received.ok()) << received.status();
      ASSERT_EQ(FieldLines(*received), FieldLines(sent));
    }
  }
}

}  // namespace
}  // namespace downpour
