#include "tools/cli/onnx_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"
#include "tools/cli/onnx_graph.h"

namespace downpour {
namespace {

using testing::HasSubstr;

// What protoc writes for the same messages, by hand: field and wire type, length, content.
TEST(OnnxGraph, WritesProtocolBuffers) {
  OnnxGraph graph("g");
  const float two = 2;
  const std::string input = graph.AddInput("x", OnnxType::kFloat, {3});
  graph.AddConstant("c", OnnxType::kFloat, {}, {reinterpret_cast<const std::byte*>(&two), sizeof(two)});
  graph.AddOutput("y", OnnxType::kInt64, {},
                  graph.AddNode("A", {input, "c"}, {{"k", 300}, {"l", std::vector<int64_t>{1, 0}}}));
  const std::string bytes = std::move(graph).Finish({{"a", "b"}});
  EXPECT_EQ(bytes.substr(0, 12), std::string("\x08\x08\x12\x08"
                                             "downpour",
                                             12));
  EXPECT_THAT(bytes, HasSubstr(std::string("\x0a\x01x\x0a\x01"
                                           "c\x12\x03"
                                           "A_0\x1a\x03"
                                           "A_0\x22\x01"
                                           "A",
                                           20)));
  EXPECT_THAT(bytes, HasSubstr(std::string("\x0a\x01k\x18\xac\x02\xa0\x01\x02", 9))) << "an INT of 300";
  EXPECT_THAT(bytes, HasSubstr(std::string("\x0a\x01l\x40\x01\x40\x00\xa0\x01\x07", 10))) << "INTS";
  EXPECT_THAT(bytes, HasSubstr(std::string("\x10\x01\x42\x01"
                                           "c\x4a\x04\x00\x00\x00\x40",
                                           11)))
      << "a number";
  EXPECT_THAT(bytes, HasSubstr(std::string("\x0a\x03\x12\x01N\x0a\x02\x08\x03", 9))) << "[N, 3]";
  EXPECT_TRUE(
      bytes.ends_with(std::string("\x72\x06\x0a\x01"
                                  "a\x12\x01"
                                  "b",
                                  8)));
}

TEST(OnnxExport, WritesAFileAndSaysWhatItLeavesOut) {
  const std::string dir = FreshFolder("onnx");
  MakeCheckpoint(dir, JobWithTables(), {1, 1}, Zero);
  const ToolOutcome outcome = RunDownpour({"export", "--format", "onnx", "--job-dir", dir, "--out", dir + "/m.onnx"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("left out: the rows of 1 table"));
  EXPECT_EQ(ReadFile(dir + "/m.onnx"), *OnnxModelOf(*LoadCheckpoint(dir, "1-1", nullptr)));
}

}  // namespace
}  // namespace downpour
