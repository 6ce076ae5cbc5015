// Plays every transcript of this folder.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/scenario/script.h"
#include "tests/source_tree.h"

namespace downpour {
namespace {

std::vector<std::string> Transcripts() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("tests/scenario"))) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class ScenarioTest : public testing::TestWithParam<std::string> {};

TEST_P(ScenarioTest, GoesAsWritten) {
  const std::string path = SourcePath("tests/scenario/" + GetParam() + ".txt");
  std::stringstream written;
  written << std::ifstream(path).rdbuf();
  ASSERT_TRUE(written.str().starts_with("# ")) << path << ": begins with what it shows";
  const std::string played = Play(written.str());
  if (std::getenv("DOWNPOUR_REWRITE") != nullptr) std::ofstream(path) << played;
  EXPECT_EQ(played, written.str());
}

INSTANTIATE_TEST_SUITE_P(Transcripts, ScenarioTest, testing::ValuesIn(Transcripts()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace downpour
