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

TEST(SetFilesTest, AManifestBecomesWhatItLists) {
  const ScratchFolder folder;
  const std::string at = folder.path() + "/";
  folder.Write("b/2.csv", "");
  folder.Write("b/1.csv", "");
  folder.Write("all.manifest", "# of May\r\n/abs/a.csv\r\n\n  b/*.csv \ns3://bucket/c.csv\nlast.csv");
  EXPECT_THAT(ExpandFiles({at + "x", at + "all.manifest", at + "y"}).value(),
              ElementsAre(at + "x", "/abs/a.csv", at + "b/1.csv", at + "b/2.csv", "s3://bucket/c.csv", at + "last.csv",
                          at + "y"));
  folder.Write("none.manifest", "\n# nothing\n");
  EXPECT_EQ(ExpandFiles({at + "none.manifest"}).status().message(), at + "none.manifest lists no files");
  folder.Write("loop.manifest", "a.csv\nloop.manifest\n");
  EXPECT_EQ(ExpandFiles({at + "loop.manifest"}).status().message(),
            at + "loop.manifest:2: lists name files, not other lists");
  folder.Write("bytes.manifest", "a\n\xff\n");
  EXPECT_EQ(ExpandFiles({at + "bytes.manifest"}).status().message(),
            at + "bytes.manifest:2: no path: it is not valid UTF-8");
  EXPECT_TRUE(absl::IsNotFound(ExpandFiles({at + "absent.manifest"}).status()));
}

}  // namespace
}  // namespace downpour
