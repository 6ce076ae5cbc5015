#include "runtime/posix/storage.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/runtime/zmq/test_peer.h"

namespace {
int failing_reads = 0;  // from now on; they fail as over a bad sector
}

// In place of the C library's.
ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  if (failing_reads == 0) return syscall(SYS_pread64, fd, to, bytes, offset);
  --failing_reads;
  errno = EIO;
  return -1;
}

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = StorageOp::Kind;

Payload Bytes(const std::string& text) { return Payload::CopyOf(text.data(), text.size()); }
std::string Text(const Payload& p) { return std::string(reinterpret_cast<const char*>(p.data()), p.size()); }

class PosixStorageTest : public testing::Test {
 protected:
  // Carries one operation out and waits for its completion.
  StorageDone Do(StorageOp op) {
    op.ticket = Ticket{++ticket_};
    storage_->Submit(std::move(op));
    pollfd mail{mailbox_.fd(), POLLIN, 0};
    EXPECT_EQ(poll(&mail, 1, kPatienceMs), 1);
    std::vector<Input> inputs = mailbox_.Take();
    EXPECT_EQ(inputs.size(), 1u);
    StorageDone done = std::get<StorageDone>(std::move(inputs.at(0)));
    EXPECT_EQ(done.ticket, Ticket{ticket_});
    return done;
  }
  StorageDone Do(Kind kind, const std::string& path, std::vector<Payload> data = {}) {
    StorageOp op;
    op.kind = kind;
    op.path = path;
    op.data = std::move(data);
    return Do(std::move(op));
  }
  StorageDone Read(const std::string& path, uint64_t offset, uint64_t bytes) {
    StorageOp op;
    op.kind = Kind::kRead;
    op.path = path;
    op.offset = offset;
    op.bytes = bytes;
    return Do(std::move(op));
  }
  StorageDone Rename(const std::string& path, const std::string& target) {
    StorageOp op;
    op.kind = Kind::kRename;
    op.path = path;
    op.target = target;
    return Do(std::move(op));
  }
  std::string FileText(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(dir_ / path).rdbuf();
    return text.str();
  }

  TempDir dir_;
  Mailbox mailbox_;
  std::unique_ptr<PosixStorage> storage_ = PosixStorage::Open(dir_.path(), &mailbox_).value();
  uint64_t ticket_ = 0;
};

TEST_F(PosixStorageTest, AFileIsWrittenSyncedAppendedToAndReadBack) {
  ASSERT_TRUE(Do(Kind::kMakeDir, "checkpoints/1-1").status.ok());
  ASSERT_TRUE(Do(Kind::kMakeDir, "checkpoints/1-1").status.ok());  // fine if it exists
  const std::string path = "checkpoints/1-1/ps-0.shard";
  const std::string megabyte(1 << 20, 'x');
  ASSERT_TRUE(Do(Kind::kWrite, path, {Bytes("head "), Payload(), Bytes(megabyte)}).status.ok());
  ASSERT_TRUE(Do(Kind::kAppend, path, {Bytes(" and"), Bytes(" tail")}).status.ok());
  EXPECT_TRUE(Do(Kind::kSync, path).status.ok());
  EXPECT_TRUE(Do(Kind::kSyncDir, "checkpoints/1-1").status.ok());
  EXPECT_TRUE(Do(Kind::kSyncDir, "").status.ok());
  EXPECT_EQ(FileText(path), "head " + megabyte + " and tail");

  EXPECT_EQ(Text(Read(path, 0, 4).data), "head");
  EXPECT_EQ(Text(Read(path, (1 << 20) + 10, 1000).data), "tail");
  EXPECT_EQ(Read(path, 1 << 22, 10).data.size(), 0u);
  // The length is believed only as far as there is a file.
  EXPECT_EQ(Read(path, 5, uint64_t{1} << 62).data.size(), (1u << 20) + 9);
}

TEST_F(PosixStorageTest, AnExistingFileIsNotWrittenAgain) {
  ASSERT_TRUE(Do(Kind::kWrite, "MANIFEST", {Bytes("first")}).status.ok());
  const absl::Status second = Do(Kind::kWrite, "MANIFEST", {Bytes("second")}).status;
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.message()), HasSubstr(dir_ / "MANIFEST"));
  EXPECT_EQ(FileText("MANIFEST"), "first");
}

TEST_F(PosixStorageTest, APrivateFileIsReadByItsOwnerAlone) {
  StorageOp op;
  op.kind = Kind::kWrite;
  op.path = "chief.json";
  op.is_private = true;
  ASSERT_TRUE(Do(std::move(op)).status.ok());
  ASSERT_TRUE(Do(Kind::kWrite, "journal.a").status.ok());
  const auto others = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
  const auto of = [&](const char* name) { return std::filesystem::status(dir_ / name).permissions() & others; };
  EXPECT_EQ(of("chief.json"), std::filesystem::perms::none);
  EXPECT_NE(of("journal.a"), std::filesystem::perms::none);
}

TEST_F(PosixStorageTest, ARenameReplaces) {
  Do(Kind::kWrite, "a", {Bytes("new")});
  Do(Kind::kWrite, "b", {Bytes("old")});
  ASSERT_TRUE(Rename("a", "b").status.ok());
  EXPECT_EQ(FileText("b"), "new");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "a"));
  EXPECT_EQ(Rename("a", "b").status.code(), absl::StatusCode::kNotFound);
}

TEST_F(PosixStorageTest, AListIsSortedAndMarksFolders) {
  for (const std::string name : {"b", "a", "c"}) Do(Kind::kWrite, "d/" + name);  // no folder yet: nothing happens
  ASSERT_TRUE(Do(Kind::kMakeDir, "d/sub").status.ok());
  for (const std::string name : {"b", "a", "c"}) ASSERT_TRUE(Do(Kind::kWrite, "d/" + name).status.ok());
  EXPECT_THAT(Do(Kind::kList, "d").names, ElementsAre("a", "b", "c", "sub/"));
  EXPECT_THAT(Do(Kind::kList, "").names, ElementsAre("d/"));
  EXPECT_EQ(Do(Kind::kList, "missing").status.code(), absl::StatusCode::kNotFound);
}

TEST_F(PosixStorageTest, ARemovalTakesAllThatIsInAFolder) {
  Do(Kind::kMakeDir, "old/deep/deeper");
  Do(Kind::kWrite, "old/deep/deeper/file", {Bytes("x")});
  Do(Kind::kWrite, "old/file", {Bytes("x")});
  Do(Kind::kWrite, "kept", {Bytes("x")});
  std::filesystem::create_symlink(dir_ / "kept", dir_ / "old/link");
  ASSERT_TRUE(Do(Kind::kRemove, "old").status.ok());
  EXPECT_THAT(Do(Kind::kList, "").names, ElementsAre("kept"));
  EXPECT_EQ(FileText("kept"), "x");  // a link is removed, not followed
  EXPECT_TRUE(Do(Kind::kRemove, "kept").status.ok());
  EXPECT_TRUE(Do(Kind::kRemove, "kept").status.ok());  // fine if absent
  EXPECT_TRUE(Do(Kind::kRemove, "never/was").status.ok());
}

TEST_F(PosixStorageTest, NoNameLeadsOutOfTheFolder) {
  TempDir outside;
  for (const std::string& path :
       {std::string("../x"), std::string(".."), std::string("a/../../x"), outside / "x", std::string("/etc/passwd"),
        std::string("a//b"), std::string("a/"), std::string("."), std::string(".hidden"), std::string("a b"),
        std::string("a\nb"), std::string("a\0b", 3), std::string(129, 'a')}) {
    for (Kind kind : {Kind::kMakeDir, Kind::kWrite, Kind::kAppend, Kind::kSync, Kind::kSyncDir, Kind::kRename,
                      Kind::kRemove, Kind::kRead, Kind::kList}) {
      EXPECT_EQ(Do(kind, path, {Bytes("x")}).status.code(), absl::StatusCode::kInvalidArgument) << path;
    }
    ASSERT_TRUE(Do(Kind::kAppend, "file", {Bytes("x")}).status.ok());
    EXPECT_EQ(Rename("file", path).status.code(), absl::StatusCode::kInvalidArgument) << path;
  }
  for (Kind kind : {Kind::kWrite, Kind::kAppend, Kind::kRemove, Kind::kRead}) EXPECT_FALSE(Do(kind, "").status.ok());
  EXPECT_TRUE(std::filesystem::is_empty(outside.path()));
}

TEST_F(PosixStorageTest, NoLinkLeadsOutOfTheFolder) {
  TempDir outside;
  std::ofstream(outside / "secret") << "secret";
  std::filesystem::create_symlink(outside.path(), dir_ / "folder");
  std::filesystem::create_symlink(outside / "secret", dir_ / "file");
  std::filesystem::create_symlink(outside / "new", dir_ / "dangling");
  for (const std::string path : {"folder/secret", "folder/new", "file", "dangling"}) {
    for (Kind kind : {Kind::kWrite, Kind::kAppend, Kind::kSync, Kind::kRead}) {
      EXPECT_FALSE(Do(kind, path, {Bytes("x")}).status.ok()) << path;
    }
    EXPECT_EQ(Read(path, 0, 6).data.size(), 0u) << path;
  }
  for (Kind kind : {Kind::kList, Kind::kSyncDir}) EXPECT_FALSE(Do(kind, "folder").status.ok());
  EXPECT_FALSE(Do(Kind::kMakeDir, "folder/new").status.ok());
  EXPECT_FALSE(Do(Kind::kRemove, "folder/secret").status.ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(outside.path()), {}), 1);
  EXPECT_EQ(std::filesystem::file_size(outside / "secret"), 6u);
}

TEST_F(PosixStorageTest, WhatIsNoFileIsRefusedWithoutWaiting) {
  ASSERT_EQ(mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  ASSERT_TRUE(Do(Kind::kMakeDir, "folder").status.ok());
  for (const std::string path : {"pipe", "folder"}) {
    for (Kind kind : {Kind::kAppend, Kind::kSync, Kind::kRead}) EXPECT_FALSE(Do(kind, path, {Bytes("x")}).status.ok());
  }
}

TEST_F(PosixStorageTest, WhatWasSubmittedIsCarriedOutBeforeTheEnd) {
  for (int i = 0; i < 100; ++i) {
    StorageOp append;
    append.kind = Kind::kAppend;
    append.path = "log";
    append.data = {Bytes(std::to_string(i) + "\n")};
    storage_->Submit(std::move(append));
  }
  storage_.reset();
  std::ifstream lines(dir_ / "log");
  int number = -1, expected = 0;
  while (lines >> number) EXPECT_EQ(number, expected++);
  EXPECT_EQ(expected, 100);
}

TEST_F(PosixStorageTest, ASecondChiefIsRefusedByName) {
  ASSERT_TRUE(storage_->Lock().ok());
  Mailbox mailbox;
  const auto second = PosixStorage::Open(dir_.path(), &mailbox).value();
  const absl::Status status = second->Lock();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("pid " + std::to_string(getpid())));
  EXPECT_THAT(std::string(status.message()), HasSubstr(dir_.path()));
  storage_.reset();
  EXPECT_TRUE(second->Lock().ok());
}

// So that it costs what a damaged file costs, and not the start.
TEST_F(PosixStorageTest, ABadSectorIsLostData) {
  ASSERT_TRUE(Do(Kind::kWrite, "file", {Bytes("text")}).status.ok());
  failing_reads = 1;
  const absl::Status status = Read("file", 0, 4).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/file: Input/output error"));
  EXPECT_EQ(Text(Read("file", 0, 4).data), "text");
}

TEST(PosixStorageOpenTest, AFolderThatCannotBeIsNamed) {
  TempDir dir;
  std::ofstream(dir / "file") << "x";
  Mailbox mailbox;
  EXPECT_THAT(std::string(PosixStorage::Open(dir / "file/folder", &mailbox).status().message()),
              HasSubstr(dir / "file/folder"));
}

// On a file system of 1 MiB. Needs the right to mount one.
TEST_F(PosixStorageTest, AFullDiskLeavesNothingHalf) {
  ASSERT_TRUE(Do(Kind::kMakeDir, "small").status.ok());
  if (mount("tmpfs", (dir_ / "small").c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "cannot mount a tmpfs here: the full disk is not tested";
  }
  const std::string most(600'000, 'm');
  EXPECT_TRUE(Do(Kind::kWrite, "small/kept", {Bytes(most)}).status.ok());
  const absl::Status write = Do(Kind::kWrite, "small/new", {Bytes(most), Bytes(most)}).status;
  EXPECT_EQ(write.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(write.message()), HasSubstr("small/new: No space left on device"));
  EXPECT_EQ(Do(Kind::kAppend, "small/kept", {Bytes(most)}).status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Do(Kind::kList, "small").names, ElementsAre("kept"));
  EXPECT_EQ(Text(Read("small/kept", 0, 1 << 20).data), most);
  EXPECT_TRUE(Do(Kind::kRemove, "small/kept").status.ok());
  EXPECT_TRUE(Do(Kind::kWrite, "small/new", {Bytes(most)}).status.ok());
  EXPECT_EQ(umount((dir_ / "small").c_str()), 0);
}

}  // namespace
}  // namespace downpour
