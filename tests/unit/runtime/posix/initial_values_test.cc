#include "runtime/posix/initial_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "runtime/initial_values.h"
#include "schema/checkpoint_format.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// dense_0/kernel [4, 600], dense_0/bias [600], dense_1/kernel [600, 3], dense_1/bias [3]: several slices each.
class PosixInitialValues : public testing::Test {
 protected:
  PosixInitialValues() : folder_(absl::StrCat(testing::TempDir(), "initial", getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/job");
    const JobFileResult read = ParseJob(
        "name: x\nseed: 7\nmodel: {inputs: [{name: i, shape: [4]}], layers: [{dense: {units: 600}}, {dense: {units: "
        "3}}]}\ntraining: {optimizer: {name: adam}}\ndata: {train: {images: a, labels: b}}\n",
        "j.yaml");
    EXPECT_TRUE(read.ok());
    job_ = read.job;
    job_.model.initialize_from = folder_ + "/m.safetensors";
    grid_ = *GridOf(job_.model);
  }
  ~PosixInitialValues() override { std::filesystem::remove_all(folder_); }

  static std::string Floats(int64_t count, float first) {
    std::string bytes(4 * static_cast<size_t>(count), '\0');
    for (int64_t i = 0; i < count; ++i) {
      const float value = first + static_cast<float>(i);
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    }
    return bytes;
  }
  void Put(const std::string& bytes) { std::ofstream(job_.model.initialize_from, std::ios::binary) << bytes; }
  static std::string File(const std::string& header, const std::string& data) {
    const uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
  }
  static std::string Entry(const std::string& name, const std::string& type, const std::string& shape, size_t begin,
                           size_t end) {
    return absl::StrCat("\"", name, "\": {\"dtype\": \"", type, "\", \"shape\": ", shape, ", \"data_offsets\": [",
                        begin, ", ", end, "]}");
  }
  // The second layer's, in the other order, and one that the model does not know.
  void PutSecondLayer() {
    Put(File(absl::StrCat("{", Entry("dense_1/bias", "F32", "[3]", 0, 12), ", ",
                          Entry("dense_1/kernel", "F32", "[600, 3]", 12, 7212), ", ",
                          Entry("head/kernel", "F32", "[1]", 7212, 7216), "}"),
             Floats(3, 0.5f) + Floats(1800, 1000) + Floats(1, 0)));
  }
  absl::Status WhyNot() { return InitialValuesFile::Open(job_).status(); }
  std::string Read(const std::string& path) const {
    std::ifstream file(folder_ + "/job/" + path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // All slices of a variable, as they were staged.
  std::vector<float> Staged(const std::string& variable) {
    const absl::StatusOr<Manifest> manifest = DecodeManifest(Read("initial/MANIFEST"));
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    const std::string shard = Read(absl::StrCat("initial/", manifest->files.at(0).name));
    EXPECT_EQ(shard.size(), manifest->files[0].bytes);
    EXPECT_EQ(manifest->records.size(), grid_.size());
    std::vector<float> values;
    for (const Slice& slice : grid_.slices) {
      if (grid_.variables[slice.variable].name != variable) continue;
      const Manifest::Record& record = manifest->records[ToNumber(slice.id)];
      const Payload bytes = Payload::CopyOf(shard.data() + record.offset, record.bytes);
      EXPECT_EQ(Crc32c(bytes.bytes()), record.crc32c);
      const absl::StatusOr<SliceState> state = DecodeRecord({&bytes, 1});
      EXPECT_TRUE(state.ok()) << state.status();
      EXPECT_EQ(state->slice, slice.id);
      EXPECT_EQ(state->version, 0u);
      EXPECT_TRUE(state->finished.Intervals().empty() && state->counters.empty());
      EXPECT_EQ(state->slots.size(), 2u);  // Adam's
      for (const Payload& slot : state->slots) EXPECT_EQ(slot.bytes(), Payload::Zeros(slice.bytes()).bytes());
      values.insert(values.end(), state->values.floats().begin(), state->values.floats().end());
    }
    return values;
  }

  std::string folder_;
  JobSpec job_;
  SliceGrid grid_;
};

TEST_F(PosixInitialValues, VariablesOfTheFileBeginAsItSaysAndTheOthersAsWithoutIt) {
  PutSecondLayer();
  const absl::StatusOr<std::string> note = StageInitialValues(job_, folder_ + "/job");
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_THAT(*note, AllOf(HasSubstr("2 variables from " + job_.model.initialize_from),
                           HasSubstr("it lacks dense_0/kernel, dense_0/bias,"), HasSubstr("is named head/kernel")));
  EXPECT_THAT(Staged("dense_1/bias"), ElementsAre(0.5f, 1.5f, 2.5f));
  const std::vector<float> kernel = Staged("dense_1/kernel");
  ASSERT_EQ(kernel.size(), 1800u);
  for (size_t i = 0; i < kernel.size(); ++i) ASSERT_EQ(kernel[i], 1000 + static_cast<float>(i));
  std::vector<float> drawn;
  for (const Slice& slice : grid_.slices) {
    if (grid_.variables[slice.variable].name != "dense_0/kernel") continue;
    drawn.resize(drawn.size() + static_cast<size_t>(slice.elements));
    InitialValues(job_.seed, grid_, slice.id, drawn.data() + slice.offset);
  }
  EXPECT_EQ(Staged("dense_0/kernel"), drawn);
  const Manifest manifest = *DecodeManifest(Read("initial/MANIFEST"));
  EXPECT_EQ(manifest.round, Round());
  EXPECT_EQ(*ParseCanonicalJob(manifest.job), job_);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/job/initial/MANIFEST.tmp"));
}

TEST_F(PosixInitialValues, StagingAgainReplacesWhatWasThere) {
  PutSecondLayer();
  ASSERT_TRUE(StageInitialValues(job_, folder_ + "/job").ok());
  Put(File(absl::StrCat("{", Entry("dense_1/bias", "F32", "[3]", 0, 12), "}"), Floats(3, 9)));
  ASSERT_TRUE(StageInitialValues(job_, folder_ + "/job").ok());
  EXPECT_THAT(Staged("dense_1/bias"), ElementsAre(9, 10, 11));
  // What fails leaves no manifest that says it is whole.
  Put(File(absl::StrCat("{", Entry("dense_1/bias", "F32", "[3]", 0, 12), "}"), Floats(3, NAN)));
  EXPECT_THAT(std::string(StageInitialValues(job_, folder_ + "/job").status().message()),
              HasSubstr("its tensor dense_1/bias is not finite as float32 at element 0"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/job/initial/MANIFEST"));
}

TEST_F(PosixInitialValues, OtherNumbersBecomeFloats) {
  Put(File(absl::StrCat("{", Entry("dense_1/bias", "BF16", "[3]", 0, 6), "}"),
           std::string("\xc0\x3f\x00\xc0\x00\x00", 6)));
  ASSERT_TRUE(StageInitialValues(job_, folder_ + "/job").ok());
  EXPECT_THAT(Staged("dense_1/bias"), ElementsAre(1.5f, -2.0f, 0.0f));
  const double beyond[] = {1, 1e300, 2};  // finite, and no float
  Put(File(absl::StrCat("{", Entry("dense_1/bias", "F64", "[3]", 0, 24), "}"),
           std::string(reinterpret_cast<const char*>(beyond), 24)));
  EXPECT_THAT(std::string(StageInitialValues(job_, folder_ + "/job").status().message()), HasSubstr("at element 1"));
}

TEST_F(PosixInitialValues, AFileThatDoesNotFitIsRefusedByName) {
  EXPECT_TRUE(absl::IsNotFound(WhyNot())) << WhyNot();
  EXPECT_THAT(std::string(WhyNot().message()), HasSubstr("cannot open " + job_.model.initialize_from));
  const auto message = [&](const std::string& entry, size_t bytes) {
    Put(File(absl::StrCat("{", entry, "}"), std::string(bytes, '\0')));
    EXPECT_TRUE(absl::IsInvalidArgument(WhyNot())) << WhyNot();
    return std::string(WhyNot().message());
  };
  EXPECT_THAT(message(Entry("dense_1/bias", "F32", "[4]", 0, 16), 16),
              HasSubstr("its tensor dense_1/bias has the shape [4], and the model's variable [3]"));
  EXPECT_THAT(message(Entry("dense_0/kernel", "F32", "[600, 4]", 0, 9600), 9600), HasSubstr("[600, 4]"));
  EXPECT_THAT(message(Entry("dense_1/bias", "I32", "[3]", 0, 12), 12), HasSubstr("dense_1/bias is of I32, not of F32"));
  EXPECT_THAT(message(Entry("fc/bias", "F32", "[3]", 0, 12), 12),
              AllOf(HasSubstr("it has fc/bias"), HasSubstr("the model dense_0/kernel, dense_0/bias, dense_1/kernel")));
  EXPECT_THAT(message(Entry("dense_1/bias", "F32", "[3]", 0, 12), 11), HasSubstr("may be cut short"));
  std::filesystem::remove(job_.model.initialize_from);
  std::filesystem::create_directory(job_.model.initialize_from);
  EXPECT_THAT(std::string(WhyNot().message()), HasSubstr("is no file"));
}

// Every file that is shorter is refused; one with a flipped bit, too, or its header still fits the data.
TEST_F(PosixInitialValues, FilesThatAreCutOrFlippedNeverCrash) {
  const std::string good = File(absl::StrCat("{", Entry("dense_1/bias", "F32", "[3]", 0, 12), "}"), Floats(3, 1));
  for (size_t length = 0; length < good.size(); ++length) {
    Put(good.substr(0, length));
    ASSERT_TRUE(absl::IsInvalidArgument(WhyNot())) << length;
  }
  for (size_t at = 0; at < good.size() - 12; ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x11);
    Put(bad);
    const absl::Status status = WhyNot();
    ASSERT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << at << ": " << status;
  }
  std::string long_header = good;
  long_header[7] = '\x7f';
  Put(long_header);
  EXPECT_THAT(std::string(WhyNot().message()), HasSubstr("says at byte 0 that its header has 91"));
  Put(good + "x");
  EXPECT_THAT(std::string(WhyNot().message()), HasSubstr("end at byte 12 of its data, which has 13"));
}

TEST_F(PosixInitialValues, ManyNamesAreNotAllTold) {
  std::string header = "{" + Entry("dense_1/bias", "F32", "[3]", 0, 12);
  for (int i = 0; i < 9; ++i) absl::StrAppend(&header, ", ", Entry(absl::StrCat("t", i), "F32", "[0]", 12, 12));
  Put(File(header + "}", Floats(3, 1)));
  EXPECT_THAT(InitialValuesFile::Open(job_)->Note(),
              AllOf(HasSubstr("1 variable from"), HasSubstr("t0, t1, t2, t3 and 5 more"), Not(HasSubstr("t4"))));
}

}  // namespace
}  // namespace downpour
