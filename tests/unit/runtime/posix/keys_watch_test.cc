#include "runtime/posix/keys_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/unit/runtime/zmq/test_keys.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

// Nobody tells when the folder was read; a change that does not come is where a hang ends.
KeyRing Next(KeysWatch& watch) {
  std::optional<KeyRing> changed;
  while (!(changed = watch.Take())) std::this_thread::yield();
  return *changed;
}

class PosixKeysWatchTest : public testing::Test {
 protected:
  const TestKeys keys_;
  const KeyRing before_ = LoadKeys(keys_.folder, PeerRole::kChief).value();
};

TEST_F(PosixKeysWatchTest, AChangeIsToldOnce) {
  KeysWatch watch(keys_.folder, before_);
  ASSERT_TRUE(RenewKeys(keys_.folder, PeerRole::kWorker).ok());
  EXPECT_THAT(Next(watch).Of(PeerRole::kWorker), SizeIs(2));
  EXPECT_FALSE(watch.Take().has_value());
}

TEST_F(PosixKeysWatchTest, WhatCannotBeReadChangesNothing) {
  KeysWatch watch(keys_.folder, before_);
  const std::string worker = keys_.folder + "/worker.public", ps = keys_.folder + "/ps.public";
  const std::string text = ReadText(worker);
  WriteText(worker, "nonsense");
  ASSERT_TRUE(RenewKeys(keys_.folder, PeerRole::kPs).ok());  // is not told of before the rest is good again
  WriteText(worker, text);
  const KeyRing after = Next(watch);
  EXPECT_THAT(after.Of(PeerRole::kPs), SizeIs(2));
  EXPECT_THAT(after.Of(PeerRole::kWorker), ElementsAre(keys_.worker.own.public_key));
}

}  // namespace
}  // namespace downpour
