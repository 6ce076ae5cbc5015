#include "data/set_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::ElementsAre;

TEST(SetFilesTest, PatternsBecomeSortedPathsWithoutIndexes) {
  const ScratchFolder folder;
  const std::string at = folder.path() + "/";
  for (const char* name : {"b", "B", "a", "a.downpour-index", ".hidden"}) folder.Write(name, "");
  EXPECT_THAT(ExpandFiles({at + "*"}).value(), ElementsAre(at + "B", at + "a", at + "b"));
  EXPECT_THAT(ExpandFiles({at + "b", at + "[aB]"}).value(), ElementsAre(at + "b", at + "B", at + "a"));
  EXPECT_THAT(ExpandFiles({at + "absent"}).value(), ElementsAre(at + "absent")) << "opening it says so";
  EXPECT_EQ(ExpandFiles({at + "a", at + "c*"}).status().message(),
            "no file matches " + at + "c*: is the folder there on this host?");
}

}  // namespace
}  // namespace downpour
