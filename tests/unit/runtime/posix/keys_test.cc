#include "runtime/posix/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/unit/runtime/zmq/test_keys.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Said(const absl::Status& status) { return std::string(status.message()); }

class PosixKeysTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(WriteNewKeys(keys_).ok()); }

  absl::Status LoadWorker() const { return LoadKeys(keys_, PeerRole::kWorker).status(); }

  TempDir dir_;
  const std::string keys_ = dir_ / "keys";
};

TEST_F(PosixKeysTest, EachRoleKnowsThoseWithWhomItTalks) {
  const KeyRing chief = LoadKeys(keys_, PeerRole::kChief).value();
  const KeyRing ps = LoadKeys(keys_, PeerRole::kPs).value();
  const KeyRing worker = LoadKeys(keys_, PeerRole::kWorker).value();
  const KeyRing client = LoadKeys(keys_, PeerRole::kClient).value();
  EXPECT_EQ(chief.RoleOf(worker.own.public_key), PeerRole::kWorker);
  EXPECT_EQ(chief.RoleOf(ps.own.public_key), PeerRole::kPs);
  EXPECT_EQ(chief.RoleOf(client.own.public_key), PeerRole::kClient);
  EXPECT_EQ(ps.RoleOf(worker.own.public_key), PeerRole::kWorker);
  EXPECT_EQ(ps.RoleOf(client.own.public_key), std::nullopt);
  const KeyRing viewer = LoadKeys(keys_, PeerRole::kViewer).value();
  EXPECT_EQ(chief.RoleOf(viewer.own.public_key), PeerRole::kViewer);
  EXPECT_EQ(ps.RoleOf(viewer.own.public_key), PeerRole::kViewer) << "it reads values there";
  EXPECT_EQ(worker.RoleOf(viewer.own.public_key), std::nullopt);
  EXPECT_THAT(viewer.Of(PeerRole::kPs), ElementsAre(ps.own.public_key));
  EXPECT_EQ(chief.RoleOf(MakeCurvePair().public_key), std::nullopt);
  EXPECT_THAT(worker.Of(PeerRole::kPs), ElementsAre(ps.own.public_key));
  EXPECT_EQ(chief.cluster, worker.cluster);
}

TEST_F(PosixKeysTest, NewKeysAreWrittenAllOrNone) {
  const std::string other = dir_ / "other";
  const std::string in_the_way = other + "/worker.public.tmp";
  fs::create_directories(in_the_way);
  fs::permissions(other, fs::perms::owner_all);
  const absl::Status status = WriteNewKeys(other);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Said(status), HasSubstr("cannot write " + other + "/worker.public: "));
  for (const auto& file : fs::directory_iterator(other)) EXPECT_EQ(file.path(), in_the_way);
  fs::remove(in_the_way);
  EXPECT_TRUE(WriteNewKeys(other).ok());
}

TEST_F(PosixKeysTest, AHostNeedsNoSecretsOfOthers) {
  for (const char* name : {"chief.secret", "ps.secret", "client.secret", "client.public", "worker.public"}) {
    fs::remove(keys_ + "/" + name);
  }
  EXPECT_TRUE(LoadWorker().ok());
  fs::remove(keys_ + "/ps.public");
  EXPECT_EQ(LoadWorker().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Said(LoadWorker()), HasSubstr("there is no " + keys_ + "/ps.public"));
}

TEST_F(PosixKeysTest, KeysAreTheirOwnersAlone) {
  EXPECT_EQ(fs::status(keys_).permissions(), fs::perms::owner_all);
  for (const auto& file : fs::directory_iterator(keys_)) {
    EXPECT_EQ(file.status().permissions(), fs::perms::owner_read | fs::perms::owner_write) << file.path();
  }
}

TEST_F(PosixKeysTest, WhatOthersMayOpenIsRefusedWithTheRemedy) {
  const std::string secret = keys_ + "/worker.secret";
  for (const char* path : {"/worker.secret", "/chief.public", ""}) {
    for (const fs::perms others : {fs::perms::group_read, fs::perms::others_read, fs::perms::group_write}) {
      fs::permissions(keys_ + path, others, fs::perm_options::add);
      EXPECT_EQ(LoadWorker().code(), absl::StatusCode::kPermissionDenied) << path;
      EXPECT_THAT(Said(LoadWorker()), HasSubstr("chmod "));
      fs::permissions(keys_ + path, others, fs::perm_options::remove);
    }
  }
  EXPECT_TRUE(LoadWorker().ok());
}

TEST_F(PosixKeysTest, LinksAndPipesAreRefused) {
  const std::string secret = keys_ + "/worker.secret";
  fs::rename(secret, dir_ / "elsewhere");
  fs::create_symlink(dir_ / "elsewhere", secret);
  EXPECT_THAT(Said(LoadWorker()), HasSubstr("worker.secret is a link; put the file in its place: cp "));
  fs::remove(secret);
  ASSERT_EQ(mkfifo(secret.c_str(), 0600), 0);
  EXPECT_THAT(Said(LoadWorker()), HasSubstr("is no plain file"));
  fs::create_directory_symlink(keys_, dir_ / "link");
  EXPECT_THAT(std::string(LoadKeys(dir_ / "link", PeerRole::kChief).status().message()),
              HasSubstr("link is a link; name the folder that it leads to"));
}

TEST_F(PosixKeysTest, FilesThatDoNotBelongTogetherAreRefused) {
  const std::string others = dir_ / "others";
  ASSERT_TRUE(WriteNewKeys(others).ok());
  const KeyRing ours = LoadKeys(keys_, PeerRole::kWorker).value();
  EXPECT_THAT(Said(LoadKeysAgain(others, ours).status()), HasSubstr("is of another cluster now"));
  EXPECT_TRUE(LoadKeysAgain(keys_, ours).ok());
  const std::string chief = ReadText(keys_ + "/chief.public");
  WriteText(keys_ + "/chief.public", ReadText(others + "/chief.public"));
  EXPECT_THAT(Said(LoadWorker()), HasSubstr("chief.public is of another cluster"));
  WriteText(keys_ + "/chief.public", ReadText(keys_ + "/ps.public"));
  EXPECT_THAT(Said(LoadWorker()), HasSubstr("chief.public holds a key for a ps"));
  WriteText(keys_ + "/chief.public", ReadText(keys_ + "/chief.secret"));
  EXPECT_THAT(Said(LoadWorker()), HasSubstr("chief.public holds a secret key"));
  WriteText(keys_ + "/chief.public", chief);
  WriteText(keys_ + "/worker.secret", ReadText(keys_ + "/worker.public"));
  EXPECT_THAT(Said(LoadWorker()), HasSubstr("worker.secret does not hold one secret key and its public one"));
}

TEST_F(PosixKeysTest, NothingIsReplacedByNewKeys) {
  const std::string before = ReadText(keys_ + "/chief.secret");
  EXPECT_EQ(WriteNewKeys(keys_).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadText(keys_ + "/chief.secret"), before);
}

TEST_F(PosixKeysTest, RenewedKeysAreLetInBesideTheOldOnes) {
  const KeyRing before = LoadKeys(keys_, PeerRole::kWorker).value();
  ASSERT_TRUE(RenewKeys(keys_, PeerRole::kWorker).ok());
  const KeyRing after = LoadKeys(keys_, PeerRole::kWorker).value();
  EXPECT_NE(after.own.secret_key, before.own.secret_key);
  const KeyRing chief = LoadKeys(keys_, PeerRole::kChief).value();
  EXPECT_THAT(chief.Of(PeerRole::kWorker), ElementsAre(after.own.public_key, before.own.public_key));
}

TEST_F(PosixKeysTest, AHostMayHaveAPairOfItsOwn) {
  const std::string out = dir_ / "h3";
  const std::string key = IssueKeys(keys_, PeerRole::kWorker, out).value();
  const KeyRing issued = LoadKeys(out, PeerRole::kWorker).value(), shared = LoadKeys(keys_, PeerRole::kWorker).value();
  EXPECT_EQ(issued.own.public_key, key);
  EXPECT_EQ(issued.Of(PeerRole::kPs), shared.Of(PeerRole::kPs));
  const KeyRing chief = LoadKeys(keys_, PeerRole::kChief).value();
  EXPECT_THAT(chief.Of(PeerRole::kWorker), ElementsAre(shared.own.public_key, key));
  EXPECT_FALSE(LoadKeys(out, PeerRole::kChief).ok());  // no secrets but its own
  EXPECT_EQ(IssueKeys(keys_, PeerRole::kWorker, out).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(PosixKeysTest, KeysOfAReleaseWithoutViewersServeAsBeforeAndGetViewersWhenWanted) {
  fs::remove(keys_ + "/viewer.public");
  fs::remove(keys_ + "/viewer.secret");
  EXPECT_THAT(LoadKeys(keys_, PeerRole::kChief).value().Of(PeerRole::kViewer), ElementsAre());
  const std::string out = dir_ / "ann";
  const std::string key = IssueKeys(keys_, PeerRole::kViewer, out).value();
  EXPECT_THAT(LoadKeys(keys_, PeerRole::kChief).value().Of(PeerRole::kViewer), ElementsAre(key));
  EXPECT_EQ(LoadKeys(out, PeerRole::kViewer).value().own.public_key, key);
  fs::remove(out + "/ps.public");
  EXPECT_TRUE(LoadKeys(out, PeerRole::kViewer).ok()) << "one of before asks the chief alone";
  EXPECT_FALSE(LoadKeys(out, PeerRole::kClient).ok());
}

TEST_F(PosixKeysTest, NoKeysAreIssuedThatNobodyLetsIn) {
  const std::string out = dir_ / "h3";
  const std::string in_the_way = keys_ + "/worker.public.tmp";
  fs::create_directory(in_the_way);
  const absl::Status status = IssueKeys(keys_, PeerRole::kWorker, out).status();
  EXPECT_THAT(Said(status), HasSubstr("cannot write " + keys_ + "/worker.public: "));
  EXPECT_TRUE(fs::is_empty(out));
  fs::remove(in_the_way);
  EXPECT_TRUE(IssueKeys(keys_, PeerRole::kWorker, out).ok());
}

TEST_F(PosixKeysTest, WhoHoldsKeysLeavesNoCoreDump) {
  ASSERT_EQ(prctl(PR_SET_DUMPABLE, 1), 0);
  ASSERT_TRUE(LoadWorker().ok());
  EXPECT_EQ(prctl(PR_GET_DUMPABLE), 0);
}

TEST_F(PosixKeysTest, AFlagBeatsTheEnvironmentWhichBeatsTheJobFolder) {
  setenv("DOWNPOUR_KEYS", "named", 1);
  EXPECT_EQ(KeysFolder("given", dir_.path()), "given");
  EXPECT_EQ(KeysFolder("", dir_.path()), "named");
  setenv("DOWNPOUR_KEYS", "", 1);  // as if it were not set
  EXPECT_EQ(KeysFolder("", dir_.path()), keys_);
  unsetenv("DOWNPOUR_KEYS");
  EXPECT_EQ(KeysFolder("", dir_.path()), keys_);
  EXPECT_EQ(KeysFolder("", dir_ / "elsewhere"), "");
  EXPECT_EQ(KeysFolder("", ""), "");
}

TEST_F(PosixKeysTest, AFolderThatIsNamedMustBeThere) {
  EXPECT_FALSE(KeysIn("", PeerRole::kPs).value().has_value());
  EXPECT_TRUE(KeysIn(keys_, PeerRole::kPs).value().has_value());
  EXPECT_FALSE(KeysIn(dir_ / "missing", PeerRole::kPs).ok());
}

}  // namespace
}  // namespace downpour
