#include "schema/text.h"

#include <gtest/gtest.h>

#include "schema/typed_command.h"

namespace downpour {
namespace {

using namespace std::string_literals;

// Source: the Unicode standard, table 3-7: the first and last character of each row, and what lies just outside.
TEST(TextTest, IsUtf8WithoutControlCharacters) {
  for (const std::string& text :
       {""s, "plain"s, "two\nlines\tand a tab"s, "\xc2\xa0"s, "\xdf\xbf"s, "\xe0\xa0\x80"s, "\xec\xbf\xbf"s,
        "\xed\x9f\xbf"s, "\xee\x80\x80"s, "\xef\xbf\xbf"s, "\xf0\x90\x80\x80"s, "\xf4\x8f\xbf\xbf"s}) {
    EXPECT_TRUE(IsText(text)) << text;
    EXPECT_EQ(CleanText(text, 100), text);
  }
  for (const std::string& junk :
       {"\0"s, "\x1b[2J"s, "\r"s, "\x7f"s, "\x80"s, "\xc1\xbf"s, "\xc2"s, "\xc2\xc2"s, "\xc2\x80"s, "\xc2\x9b"s,
        "\xc2\x9f"s, "\xe0\x9f\xbf"s, "\xe2\x82"s, "\xed\xa0\x80"s, "\xf0\x8f\xbf\xbf"s, "\xf0\x9f\x8c"s,
        "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s, "\xff"s}) {
    EXPECT_FALSE(IsText(junk));
    EXPECT_TRUE(IsText(CleanText(junk, 100)));
    EXPECT_FALSE(IsText("a" + junk + "b"));
  }
  EXPECT_EQ(CleanText("a\x1b[2Jb\xe2\x82", 100), "a?[2Jb??");
}

TEST(TextTest, IsCutBetweenCharacters) {
  const std::string euros = "\xe2\x82\xac\xe2\x82\xac";
  EXPECT_EQ(CleanText(euros, 6), euros);
  EXPECT_EQ(CleanText(euros, 5), euros.substr(0, 3));
  EXPECT_EQ(CleanText(euros, 2), "");
}

TEST(TextTest, AJobThatEndedGoesOnFromItsLastCheckpoint) {
  EXPECT_EQ(HowToGoOn("", "run it"), "There is no checkpoint yet: start it again with run it");
  EXPECT_EQ(HowToGoOn("checkpoints/1-2", "run it"),
            "The last checkpoint is checkpoints/1-2: go on from it with run it --resume");
}

TEST(TextTest, WhatIsAddedToACommandStandsBeforeTheUsersWords) {
  EXPECT_EQ(HowToGoOn("c", "run it -- --epochs 3"),
            "The last checkpoint is c: go on from it with run it --resume -- --epochs 3");
  const std::string words = ShellCommand({"run", "it's -- one", "--", "--", "x"});
  EXPECT_EQ(WithFlag(words, "--now"), R"(run 'it'\''s -- one' --now -- -- x)");
}

TEST(TextTest, WhatIsCountedIsOneOrSeveral) {
  EXPECT_EQ(Counted(1, "batch") + Counted(2, "batch"), "1 batch2 batches");
  EXPECT_EQ(Counted(0, "epoch") + Counted(1, "epoch"), "0 epochs1 epoch");
}

TEST(TextTest, OneLineStaysOne) {
  EXPECT_EQ(OneLine("sad\nE 2024-01-01 00:00:00.000 forged\tline", 100), "sad E 2024-01-01 00:00:00.000 forged line");
  EXPECT_EQ(OneLine("\x1b[2J\xc2\x9b"
                    "2J",
                    100),
            "?[2J??2J");
  EXPECT_EQ(OneLine("abcdef", 3), "abc");
}

TEST(PlainNameTest, NamesNothingOutsideItsFolder) {
  for (const char* name : {"a", "ps-0.shard", "MANIFEST", "A_b-9..c"}) EXPECT_TRUE(IsPlainName(name)) << name;
  EXPECT_TRUE(IsPlainName(std::string(128, 'x')));
  for (const std::string& name : {""s, "."s, ".."s, ".hidden"s, "a/b"s, "/a"s, "a\\b"s, "a b"s, "a\0b"s, "\xc3\xa9"s}) {
    EXPECT_FALSE(IsPlainName(name)) << name;
  }
  EXPECT_FALSE(IsPlainName(std::string(129, 'x')));
}

TEST(TextTest, AShellTakesItForOneWord) {
  EXPECT_EQ(ShellWord("/jobs/mnist-1"), "/jobs/mnist-1");
  EXPECT_EQ(ShellWord("my jobs"), "'my jobs'");
  EXPECT_EQ(ShellWord("Ada's; rm"), "'Ada'\\''s; rm'");
  EXPECT_EQ(ShellWord(""), "''");
}

}  // namespace
}  // namespace downpour
