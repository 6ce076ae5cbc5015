#include "checkpoint/checkpoint_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chief/folder/journal.h"
#include "chief/folder/sealed_copies.h"
#include "tests/unit/tools/cli/made_checkpoint.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

float Simple(uint32_t variable, int64_t i) { return 100.0f * static_cast<float>(variable) + static_cast<float>(i); }

struct Loaded {
  absl::StatusOr<LoadedCheckpoint> checkpoint;
  std::vector<std::string> passed_over;
  std::string error() const { return std::string(checkpoint.status().message()); }
};
Loaded Load(const std::string& job_dir, const std::string& round = "") {
  std::vector<std::string> passed_over;
  auto checkpoint = LoadCheckpoint(job_dir, round, &passed_over);
  return {std::move(checkpoint), std::move(passed_over)};
}

// Flips one bit of a file.
void Damage(const std::string& path, size_t at) {
  std::string bytes = ReadFile(path);
  ASSERT_LT(at, bytes.size());
  bytes[at] ^= 4;
  PutFile(path, bytes);
}

TEST(CheckpointReader, ReadsTheNewestByTermThenNumber) {
  const std::string dir = FreshFolder("newest");
  for (const Round round : {Round{1, 9}, Round{2, 1}, Round{1, 10}}) MakeCheckpoint(dir, SmallJob(), round, Simple);
  const Loaded loaded = Load(dir);
  ASSERT_TRUE(loaded.checkpoint.ok()) << loaded.checkpoint.status();
  EXPECT_EQ(loaded.checkpoint->path, dir + "/checkpoints/2-1");
  EXPECT_THAT(loaded.passed_over, IsEmpty());
  EXPECT_EQ(loaded.checkpoint->job, SmallJob());
  const std::vector<SliceState>& slices = loaded.checkpoint->slices;
  ASSERT_THAT(slices, SizeIs(2));
  EXPECT_THAT(slices, ElementsAre(Field(&SliceState::version, 10), Field(&SliceState::version, 11)));
  EXPECT_THAT(slices[0].values.floats(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(slices[1].values.floats(), ElementsAre(100, 101, 102));
  EXPECT_EQ(Load(dir, "1-9").checkpoint->path, dir + "/checkpoints/1-9");
}

TEST(CheckpointReader, PassesOverWhatIsDamagedAndSaysSo) {
  const std::string dir = FreshFolder("damaged");
  for (uint32_t n = 1; n <= 4; ++n) MakeCheckpoint(dir, SmallJob(), {1, n}, Simple);
  Damage(dir + "/checkpoints/1-4/ps-1.shard", 60);
  Damage(dir + "/checkpoints/1-3/MANIFEST", 5);
  std::filesystem::remove(dir + "/checkpoints/1-2/MANIFEST");
  std::filesystem::create_directories(dir + "/checkpoints/1-5.tmp");
  const Loaded loaded = Load(dir);
  ASSERT_TRUE(loaded.checkpoint.ok()) << loaded.checkpoint.status();
  EXPECT_EQ(loaded.checkpoint->manifest.round, (Round{1, 1}));
  EXPECT_THAT(loaded.passed_over, ElementsAre(HasSubstr("1-4/ps-1.shard: the checksum of bytes 0 to"),
                                              HasSubstr("1-3/MANIFEST"), HasSubstr("1-2/MANIFEST: there is none")));
}

TEST(CheckpointReader, EveryFlippedByteIsFoundAndTheCheckpointBeforeIsUsed) {
  const std::string dir = FreshFolder("flips");
  for (uint32_t n = 1; n <= 2; ++n) MakeCheckpoint(dir, SmallJob(), {1, n}, Simple);
  for (const char* file : {"ps-0.shard", "ps-1.shard", "MANIFEST"}) {
    const std::string path = dir + "/checkpoints/1-2/" + file;
    const size_t bytes = ReadFile(path).size();
    for (size_t at = 0; at < bytes; ++at) {
      Damage(path, at);
      const Loaded loaded = Load(dir);
      EXPECT_EQ(loaded.checkpoint->manifest.round, (Round{1, 1})) << path << " " << at;
      EXPECT_THAT(loaded.passed_over, ElementsAre(HasSubstr(path))) << at;
      EXPECT_EQ(Load(dir, "1-2").checkpoint.status().code(), absl::StatusCode::kDataLoss) << at;
      Damage(path, at);
    }
  }
  EXPECT_EQ(Load(dir).checkpoint->manifest.round, (Round{1, 2}));
}

TEST(CheckpointReader, TellsAllDamageByFileAndBytes) {
  const std::string dir = FreshFolder("all_damage");
  const Manifest manifest = MakeCheckpoint(dir, SmallJob(), {1, 1}, Simple);
  const std::string folder = dir + "/checkpoints/1-1";
  const auto damage = [&] {
    std::vector<std::string> sentences;
    for (const absl::Status& status : FindDamage(*OpenCheckpoint(dir, {1, 1}))) {
      sentences.emplace_back(status.message());
    }
    return sentences;
  };
  EXPECT_THAT(damage(), IsEmpty());
  Damage(folder + "/ps-0.shard", 60);
  PutFile(folder + "/ps-1.shard", ReadFile(folder + "/ps-1.shard") + "x");
  const std::string first = std::to_string(manifest.files[0].bytes), second = std::to_string(manifest.files[1].bytes);
  EXPECT_THAT(damage(),
              ElementsAre(folder + "/ps-1.shard: has " + std::to_string(manifest.files[1].bytes + 1) +
                              " bytes, where its manifest wants " + second,
                          folder + "/ps-0.shard: the checksum of bytes 0 to " + first + ", slice 0, differs"));
}

TEST(CheckpointReader, BytesOfNoSliceAndLeasesThatASliceLacksAreFound) {
  const std::string dir = FreshFolder("uncovered");
  Manifest manifest = MakeCheckpoint(dir, SmallJob(), {1, 1}, Simple);
  const std::string folder = dir + "/checkpoints/1-1";
  const std::string bytes = std::to_string(manifest.files[0].bytes);
  PutFile(folder + "/ps-0.shard", ReadFile(folder + "/ps-0.shard") + "x");
  ++manifest.files[0].bytes;
  manifest.committed.Insert(3);
  PutFile(folder + "/MANIFEST", EncodeManifest(manifest));
  const std::vector<absl::Status> damage = FindDamage(*OpenCheckpoint(dir, {1, 1}));
  ASSERT_THAT(damage, SizeIs(3));
  EXPECT_THAT(std::string(damage[0].message()), HasSubstr("ps-0.shard: bytes " + bytes + " to "));
  EXPECT_THAT(std::string(damage[1].message()), HasSubstr("slice 0 lacks leases that the manifest calls committed"));
  EXPECT_THAT(std::string(damage[2].message()), HasSubstr("ps-1.shard: slice 1 lacks leases"));
}

TEST(CheckpointReader, TruncatedAndMissingShardsAreNamed) {
  const std::string dir = FreshFolder("short");
  MakeCheckpoint(dir, SmallJob(), {1, 1}, Simple);
  const std::string path = dir + "/checkpoints/1-1/ps-0.shard";
  const std::string bytes = ReadFile(path);
  PutFile(path, bytes.substr(0, bytes.size() - 1));
  EXPECT_THAT(Load(dir, "1-1").error(), HasSubstr("ps-0.shard: ends before byte " + std::to_string(bytes.size())));
  std::filesystem::remove(path);
  EXPECT_THAT(Load(dir, "1-1").error(), HasSubstr("ps-0.shard: cannot be read: No such file"));
}

TEST(CheckpointReader, ManifestsThatDoNotFitTheirJobOrFolderAreRefused) {
  const std::string dir = FreshFolder("misfit");
  Manifest manifest = MakeCheckpoint(dir, SmallJob(), {1, 1}, Simple);
  const std::string path = dir + "/checkpoints/1-1/MANIFEST";

  Manifest other = manifest;
  other.round = {1, 2};
  PutFile(path, EncodeManifest(other));
  EXPECT_THAT(Load(dir, "1-1").error(), HasSubstr("is of round 1-2"));

  other = manifest;
  other.records.pop_back();
  PutFile(path, EncodeManifest(other));
  EXPECT_THAT(Load(dir, "1-1").error(), HasSubstr("lists 1 records, but its model has 2 slices"));

  JobSpec job = SmallJob();
  job.training.optimizer.kind = OptimizerKind::kAdam;
  other = manifest;
  other.job = CanonicalJob(job);
  PutFile(path, EncodeManifest(other));
  EXPECT_THAT(Load(dir, "1-1").error(), HasSubstr("holds slice 0 of 48 bytes and 1 slots, where the job wants"));

  other.job = "{}";
  PutFile(path, EncodeManifest(other));
  EXPECT_THAT(Load(dir, "1-1").error(), HasSubstr("name: is missing"));

  other = manifest;  // each checksum is right, but the records are swapped
  std::swap(other.records[0].file, other.records[1].file);
  std::swap(other.records[0].bytes, other.records[1].bytes);
  std::swap(other.records[0].crc32c, other.records[1].crc32c);
  PutFile(path, EncodeManifest(other));
  EXPECT_THAT(Load(dir, "1-1").error(), HasSubstr("holds slice 1"));
}

TEST(CheckpointReader, CodeWithOtherDataThanItsCheckpointIsAnotherJob) {
  const std::string dir = FreshFolder("other_data");
  const auto own = [](int train, int eval) {
    const std::string text =
        absl::StrCat("name: own\npython: {module: m, bytes: 3, sha256: ", std::string(64, 'a'), "}\n",
                     "model: {variables: [{name: v, shape: [2]}], initializeFrom: /f}\n",
                     "data: {format: python, trainExamples: ", train, ", evalExamples: ", eval, "}\n");
    return ParseJob(text, "own").job;
  };
  Manifest manifest = MakeCheckpoint(dir, own(1000, 10), {1, 1}, Simple);
  manifest.train_examples = 1000, manifest.eval_examples = 10, manifest.data_fingerprint = 7;
  PutFile(dir + "/checkpoints/1-1/MANIFEST", EncodeManifest(manifest));
  EXPECT_TRUE(CheckPlanIn(dir, own(1000, 10)).ok()) << CheckPlanIn(dir, own(1000, 10));
  const absl::Status other = CheckPlanIn(dir, own(900, 11));
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("checkpoint 1-1 was begun with other data: train of downpour.fit has 900 examples instead of "
                        "1000, eval of downpour.fit has 11 examples instead of 10: bring those of before back"));

  JournalEntry entry{.number = 1, .record = {}, .costs = {}};
  entry.record.job = CanonicalJob(own(1000, 10));
  entry.record.data = DataShape{800, 10, 7};
  PutFile(dir + "/journal.a", Sealed(EncodeEntry(entry)));
  EXPECT_THAT(std::string(CheckPlanIn(dir, own(1000, 10)).message()),
              HasSubstr("the job of this folder, which is not over, was begun with other data: train of downpour.fit "
                        "has 1000 examples instead of 800"));
}

TEST(CheckpointReader, SaysWhenThereIsNone) {
  const std::string dir = FreshFolder("none");
  EXPECT_THAT(Load(dir).error(), HasSubstr("there is no checkpoint in " + dir + "/checkpoints"));
  EXPECT_THAT(Load(dir, "1-1").error(), HasSubstr("1-1/MANIFEST: there is none"));
  EXPECT_EQ(Load(dir, "../1-1").checkpoint.status().code(), absl::StatusCode::kInvalidArgument);
  MakeCheckpoint(dir, SmallJob(), {1, 1}, Simple);
  Damage(dir + "/checkpoints/1-1/MANIFEST", 0);
  EXPECT_THAT(Load(dir).error(), HasSubstr("there is no valid checkpoint"));
}

}  // namespace
}  // namespace downpour
