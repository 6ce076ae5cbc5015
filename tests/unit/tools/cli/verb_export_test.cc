#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using nlohmann::json;
using testing::HasSubstr;

float Simple(uint32_t variable, int64_t i) { return 1000.0f * static_cast<float>(variable) + static_cast<float>(i); }

struct SafeFile {
  json header;
  std::string data;
};

// As the format's own reader does: every rule of its page.
SafeFile ReadSafetensors(const std::string& path) {
  const std::string bytes = ReadFile(path);
  uint64_t length = 0;
  EXPECT_GE(bytes.size(), 8u);
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_LE(length, bytes.size() - 8);
  EXPECT_EQ((8 + length) % 64, 0u);
  const std::string header = bytes.substr(8, length);
  EXPECT_EQ(header[0], '{');
  SafeFile file{json::parse(header), bytes.substr(8 + length)};

  std::map<uint64_t, uint64_t> ranges;
  for (const auto& [name, tensor] : file.header.items()) {
    if (name == "__metadata__") {
      for (const auto& [key, value] : tensor.items()) EXPECT_TRUE(value.is_string()) << key;
      continue;
    }
    uint64_t elements = 1;
    for (uint64_t size : tensor["shape"]) elements *= size;
    const uint64_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    EXPECT_EQ(tensor["dtype"], "F32");
    EXPECT_EQ(end - begin, 4 * elements) << name;
    EXPECT_TRUE(ranges.emplace(begin, end).second) << name;
  }
  uint64_t reached = 0;
  for (const auto& [begin, end] : ranges) {
    EXPECT_EQ(begin, reached);
    reached = end;
  }
  EXPECT_EQ(reached, file.data.size());
  return file;
}

float FloatAt(const SafeFile& file, const std::string& tensor, uint64_t i) {
  const uint64_t begin = file.header[tensor]["data_offsets"][0];
  float value = 0;
  std::memcpy(&value, file.data.data() + begin + 4 * i, 4);
  return value;
}

TEST(Export, WritesEveryVariableInOrderWithItsOrigin) {
  const std::string dir = FreshFolder("export");
  MakeCheckpoint(dir, SmallJob(), {3, 7}, Simple);
  const std::string out = dir + "/model.safetensors";
  const ToolOutcome outcome = RunDownpour({"export", "--format", "safetensors", "--job-dir", dir, "--out", out});
  ASSERT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_EQ(outcome.out, out + "\n");
  const SafeFile file = ReadSafetensors(out);
  EXPECT_EQ(file.header["out/kernel"]["shape"], json({4, 3}));
  EXPECT_EQ(file.header["out/bias"]["shape"], json({3}));
  for (int i = 0; i < 12; ++i) EXPECT_EQ(FloatAt(file, "out/kernel", i), Simple(0, i));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(FloatAt(file, "out/bias", i), Simple(1, i));
  EXPECT_EQ(file.header["__metadata__"]["checkpoint"], "3-7");
  EXPECT_EQ(*ParseCanonicalJob(file.header["__metadata__"]["job"].get<std::string>()), SmallJob());
  EXPECT_FALSE(std::filesystem::exists(out + ".tmp"));
}

TEST(Export, JoinsTheSlicesOfLargeVariables) {
  JobSpec job = SmallJob();
  job.model.layers = {{"wide", {"in"}, DenseSpec{100000}}, {"out", {"wide"}, DenseSpec{3}}};
  const std::string dir = FreshFolder("export_wide");
  const Manifest manifest = MakeCheckpoint(dir, job, {1, 1}, Simple);
  EXPECT_EQ(manifest.records.size(), 6u);  // both kernels lie in two slices
  const std::string out = dir + "/wide.safetensors";
  ASSERT_EQ(RunDownpour({"export", "--job-dir", dir, "--out", out}).code, kExitDone);
  const SafeFile file = ReadSafetensors(out);
  for (int i = 0; i < 400000; ++i) ASSERT_EQ(FloatAt(file, "wide/kernel", i), Simple(0, i)) << i;
  for (int i = 0; i < 300000; ++i) ASSERT_EQ(FloatAt(file, "out/kernel", i), Simple(2, i)) << i;
}

// Where Python's safetensors is at hand, its own reader has the last word.
TEST(Export, TheReferenceReaderReadsIt) {
  if (std::system("python3 -c 'import safetensors' 2> /dev/null") != 0) GTEST_SKIP() << "python3 has no safetensors";
  const std::string dir = FreshFolder("export_reference");
  MakeCheckpoint(dir, SmallJob(), {1, 1}, Simple);
  ASSERT_EQ(RunDownpour({"export", "--job-dir", dir, "--out", dir + "/m"}).code, kExitDone);
  PutFile(dir + "/read.py",
          "import safetensors, struct, sys\n"
          "found = dict(safetensors.deserialize(open(sys.argv[1], 'rb').read()))\n"
          "assert found['out/kernel']['shape'] == [4, 3], found\n"
          "assert found['out/kernel']['dtype'] == 'F32', found\n"
          "assert bytes(found['out/kernel']['data']) == struct.pack('<12f', *range(12)), found\n"
          "assert bytes(found['out/bias']['data']) == struct.pack('<3f', 1000, 1001, 1002), found\n"
          "assert len(found) == 2, found\n");
  EXPECT_EQ(std::system(("python3 " + dir + "/read.py " + dir + "/m").c_str()), 0);
}

TEST(Export, NamesWhatItPassesOverAndWhatItCannotDo) {
  const std::string dir = FreshFolder("export_bad");
  MakeCheckpoint(dir, SmallJob(), {1, 1}, Simple);
  MakeCheckpoint(dir, SmallJob(), {1, 2}, Simple);
  PutFile(dir + "/checkpoints/1-2/ps-0.shard", "");
  const ToolOutcome older = RunDownpour({"export", "--job-dir", dir, "--out", dir + "/m"});
  EXPECT_EQ(older.code, kExitDone);
  EXPECT_THAT(older.err, HasSubstr("passing over checkpoint 1-2: "));
  EXPECT_EQ(ReadSafetensors(dir + "/m").header["__metadata__"]["checkpoint"], "1-1");

  const ToolOutcome chosen = RunDownpour({"export", "--job-dir", dir, "--checkpoint", "1-2", "--out", dir + "/n"});
  EXPECT_EQ(chosen.code, kExitFailed);
  EXPECT_FALSE(std::filesystem::exists(dir + "/n"));

  const ToolOutcome nowhere = RunDownpour({"export", "--job-dir", dir, "--out", dir + "/no/such/folder/m"});
  EXPECT_EQ(nowhere.code, kExitFailed);
  EXPECT_THAT(nowhere.err, HasSubstr("cannot write " + dir + "/no/such/folder/m"));

  EXPECT_EQ(RunDownpour({"export", "--job-dir", dir, "--checkpoint", "newest", "--out", "m"}).code,
            kExitBadCommandLine);
  EXPECT_EQ(RunDownpour({"export", "--job-dir", dir, "--format", "pickle", "--out", "m"}).code, kExitBadCommandLine);
}

TEST(Export, SaysThatRowsOfTablesAreLeftOut) {
  const std::string dir = FreshFolder("export_tables");
  MakeCheckpoint(dir, JobWithTables(), {1, 1}, Simple);
  const std::string out = dir + "/model.safetensors";
  const ToolOutcome outcome = RunDownpour({"export", "--job-dir", dir, "--out", out});
  ASSERT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("left out: the rows of 1 table; downpour table export"));
  EXPECT_EQ(ReadSafetensors(out).header["out/kernel"]["shape"], json({8, 3}));
}

}  // namespace
}  // namespace downpour
