#include "tests/schema/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>

#include "schema/codec.h"
#include "tests/schema/random_message.h"

namespace downpour {
namespace {

// What conformance of the schemas does not see, such as a field that is gone or a struct that grew, shows here.
TEST(GoldenTest, EveryKindIsStillReadAsItWasMeant) {
  Random random(1);
  for (size_t kind = 0; kind < std::variant_size_v<MessageKinds>; ++kind) {
    const std::string name = NameOf(RandomMessage(kind, random));
    const Golden golden = ReadGolden(name);
    ASSERT_FALSE(golden.frames.empty()) << "a new kind of message: run write_golden, and commit " << GoldenPath(name);
    const absl::StatusOr<Message> message = Decode(golden.frames);
    ASSERT_TRUE(message.ok()) << name << ": " << message.status();
    // Not equal: later versions have more to tell.
    EXPECT_THAT(FieldLines(*message), ::testing::IsSupersetOf(golden.lines))
        << name << ": append new fields at the end";
  }
}

}  // namespace
}  // namespace downpour
