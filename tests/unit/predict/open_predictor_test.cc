#include "predict/open_predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/predict/made_predictor.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

std::string ErrorOf(const std::string& origin, const PredictorOptions& options = {}) {
  return std::string(OpenPredictor(origin, options).status().message());
}

// As downpour export writes it, with a header of somebody's.
std::string Exported(const std::string& header) {
  std::string data(15 * sizeof(float), '\0');
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + data;
}
std::string HeaderOf(const std::string& metadata) {
  return R"({"__metadata__":{)" + metadata +
         R"(},"out/kernel":{"dtype":"F32","shape":[4,3],"data_offsets":[0,48]},)"
         R"("out/bias":{"dtype":"F32","shape":[3],"data_offsets":[48,60]}})";
}
std::string InQuotes(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\\\"" : c == '\\' ? "\\\\" : std::string(1, c);
  return quoted + "\"";
}

TEST(OpenPredictor, TakesTheNewestCheckpointThatIsWholeOrOneThatIsNamed) {
  const std::string folder = FreshFolder("origins");
  for (uint32_t n = 1; n <= 3; ++n) MakeCheckpoint(folder, SmallJob(), {1, n}, Diagonal);
  PutFile(folder + "/checkpoints/1-3/MANIFEST", "damaged");
  std::vector<std::string> notes;
  const auto newest = OpenPredictor(folder + "/", {}, &notes);
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_THAT((*newest)->origin(), EndsWith("origins/checkpoints/1-2"));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("passing over checkpoint 1-3")));
  EXPECT_THAT((*OpenPredictor(folder, {.checkpoint = "1-1"}))->origin(), EndsWith("/checkpoints/1-1"));
  EXPECT_THAT((*OpenPredictor(folder + "/checkpoints/1-1", {}))->origin(), EndsWith("/checkpoints/1-1"));
  EXPECT_THAT((*OpenPredictor(folder + "/checkpoints/1-1/", {}))->origin(), EndsWith("/checkpoints/1-1"));
  EXPECT_THAT(ErrorOf(folder + "/checkpoints/1-1", {.checkpoint = "1-2"}), HasSubstr("name the job's folder"));
  EXPECT_THAT(ErrorOf(folder + "/checkpoints/1-3"), HasSubstr("1-3/MANIFEST"));
  EXPECT_THAT(ErrorOf(folder, {.checkpoint = "best"}), HasSubstr("names no best checkpoint"));
  EXPECT_THAT(ErrorOf(folder + "/nowhere"), HasSubstr("name a job's folder"));
  for (const char* round : {"1-1", "1-2"}) PutFile(folder + "/checkpoints/" + round + "/MANIFEST", "damaged");
  EXPECT_FALSE(OpenPredictor(folder, {}, &notes).ok());
  EXPECT_EQ(notes.size(), 3u) << "why there is none";
  EXPECT_THAT(ErrorOf(FreshFolder("empty")), HasSubstr("checkpoints"));
}

TEST(OpenPredictor, TakesAnExportedFileThatSaysWhichModelItIs) {
  const std::string folder = FreshFolder("exported");
  const std::string path = folder + "/model.safetensors";
  PutFile(path, Exported(HeaderOf("\"job\":" + InQuotes(CanonicalJob(SmallJob())))));
  const auto opened = OpenPredictor(path, {});
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->origin(), path);
  EXPECT_TRUE(WarmUp(**opened).ok());

  PutFile(path, Exported(HeaderOf("\"format\":\"pt\"")));
  EXPECT_THAT(ErrorOf(path), HasSubstr("does not say which model its numbers are of"));
  PutFile(path, Exported(HeaderOf("\"job\":\"{}\"")));
  EXPECT_THAT(ErrorOf(path), HasSubstr("the job in it"));
  PutFile(path, "short");
  EXPECT_THAT(ErrorOf(path), HasSubstr("is no safetensors file"));
  PutFile(path, std::string(8, '\xff') + "{}");
  EXPECT_THAT(ErrorOf(path), HasSubstr("is no safetensors file"));
  PutFile(path, Exported(HeaderOf("\"job\":" + InQuotes(CanonicalJob(JobWithTables())))));
  EXPECT_THAT(ErrorOf(path), HasSubstr("has no rows of the model's tables: name the job's folder"));
  JobSpec other = SmallJob();
  std::get<DenseSpec>(other.model.layers[0].op).units = 2;
  PutFile(path, Exported(HeaderOf("\"job\":" + InQuotes(CanonicalJob(other)))));
  EXPECT_THAT(ErrorOf(path), HasSubstr("out/"));
}

TEST(OpenPredictor, AModelOfPythonCodeNeedsItsCode) {
  const std::string folder = FreshFolder("own");
  const JobFileResult job = ParseJob("name: own\npython: {module: trainer.task, sha256: " + std::string(64, 'a') +
                                         ", bytes: 1}\nmodel: {initializeFrom: /nowhere, variables: [{name: w, shape: "
                                         "[2]}]}\ndata: {format: python, trainExamples: 10}\n",
                                     "own");
  for (const JobError& error : job.errors) ADD_FAILURE() << ToString(error);
  MakeCheckpoint(folder, job.job, {1, 1}, Zero);
  EXPECT_THAT(ErrorOf(folder),
              testing::AllOf(HasSubstr("python/code.tar.gz is not there"), HasSubstr("answers by its code")));
}

}  // namespace
}  // namespace downpour
