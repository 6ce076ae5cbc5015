#include "job/yaml_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// The only error of a text, as line:column what.
std::string ErrorOf(const std::string& text) {
  const YamlTree tree = ReadYaml(text);
  if (tree.errors.size() != 1) return "errors: " + std::to_string(tree.errors.size());
  const YamlError& error = tree.errors[0];
  return std::to_string(error.line) + ":" + std::to_string(error.column) + " " + error.what;
}

std::string Repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(YamlTree, KeepsPlacesAndQuotes) {
  const YamlTree tree = ReadYaml("a: 1\nb:\n  - x\n  - 'y'\n  - ~\n");
  ASSERT_THAT(tree.errors, SizeIs(0));
  ASSERT_TRUE(tree.root.Is(YamlNode::Kind::kMap));
  const YamlNode* b = tree.root.Find("b");
  ASSERT_NE(b, nullptr);
  ASSERT_THAT(b->items, SizeIs(3));
  EXPECT_EQ(b->items[1].text, "y");
  EXPECT_TRUE(b->items[1].quoted);
  EXPECT_FALSE(b->items[0].quoted);
  EXPECT_EQ(b->items[1].line, 4);
  EXPECT_EQ(b->items[1].column, 5);
  EXPECT_TRUE(b->items[2].Is(YamlNode::Kind::kNull));
  EXPECT_EQ(tree.root.Find("c"), nullptr);
}

TEST(YamlTree, WhatCannotBeParsedHasARemedy) {
  const auto remedy = [](const std::string& text) {
    const YamlTree tree = ReadYaml(text);
    return tree.errors.size() == 1 ? tree.errors[0].remedy : "errors: " + std::to_string(tree.errors.size());
  };
  EXPECT_EQ(remedy("a:\n  b: 1\n  \tc: 2\nd: 1\n"), "indent by spaces: line 3 begins with a tab");
  EXPECT_EQ(remedy("a: 1\n\tb: 2\n"), "indent by spaces: line 2 begins with a tab");
  EXPECT_THAT(remedy("a: 1\n b: 2\n"), HasSubstr("how far they are indented"));
  EXPECT_THAT(remedy("{\n\t\"a\": 1,\n\t\"b\": [\n}\n"), HasSubstr("brackets")) << "in brackets tabs may be";
  EXPECT_THAT(remedy("a: 1\n b: 2\nc:\n\td: 3\n"), HasSubstr("how far")) << "a tab behind the error";
  for (const char* first : {"a: 1  # [", "# {", "a: '['", "a: \"\\\"[\"", "a: \"[\\\\\"", "{a: '}'}"}) {
    EXPECT_EQ(remedy(absl::StrCat(first, "\n\tb: 2\n")), "indent by spaces: line 2 begins with a tab") << first;
  }
  EXPECT_EQ(remedy("a: don't # '[\n\tb: 2\n"), "indent by spaces: line 2 begins with a tab") << "an apostrophe";
  EXPECT_THAT(remedy("a: {b: '}',\n\t\"c\": [\n"), HasSubstr("brackets")) << "in brackets still";
  EXPECT_THAT(remedy("a: *b\n"), HasSubstr("&NAME"));
  EXPECT_EQ(remedy("a: !!int 1\n"), "") << "it says itself to leave it out";
}

TEST(YamlTree, ReadsJsonAndWindowsLines) {
  EXPECT_EQ(ReadYaml(R"({"a":{"b":"x\u0041\/\n"}})").root.Find("a")->Find("b")->text, "xA/\n");
  EXPECT_EQ(ReadYaml("a: 1\r\nb: 2\r\n").root.Find("b")->text, "2");
}

TEST(YamlTree, DoubledKeysAreErrorsAtTheirPlaceAndTheFirstStays) {
  const YamlTree tree = ReadYaml("a: 1\nb: {c: 1, c: 2}\na: 3\n");
  ASSERT_THAT(tree.errors, SizeIs(2));
  EXPECT_EQ(tree.errors[0].line, 2);
  EXPECT_EQ(tree.errors[0].column, 11);
  EXPECT_EQ(tree.errors[1].line, 3);
  EXPECT_THAT(tree.errors[1].what, HasSubstr("the first in line 1"));
  EXPECT_EQ(tree.root.Find("a")->text, "1");
  EXPECT_THAT(ReadYaml("a: {x: 1}\nb: {x: 1}\n").errors, SizeIs(0));
}

TEST(YamlTree, RefusesWhatAJobFileNeverNeeds) {
  EXPECT_THAT(ErrorOf("a: b: c"), HasSubstr("1:5"));
  EXPECT_THAT(ErrorOf("a: !!int 3"), HasSubstr("1:4 tags such as"));
  EXPECT_THAT(ErrorOf("? [a]\n: b\n"), HasSubstr("a key must be plain text"));
  EXPECT_THAT(ErrorOf("a: 1\n---\nb: 2\n"), HasSubstr("3:1 a second document"));
  EXPECT_THAT(ErrorOf("a: *b"), HasSubstr("anchor"));
  EXPECT_THAT(ErrorOf("a: &x [*x]"), HasSubstr("within what it names"));
  EXPECT_THAT(ErrorOf(std::string("a: \"x\\0y\"")), HasSubstr("UTF-8"));
  EXPECT_THAT(ErrorOf(std::string(kMaxYamlTextBytes + 1, ' ')), HasSubstr("larger than"));
  EXPECT_THAT(ErrorOf(std::string(kMaxYamlTextBytes, ' ')), HasSubstr("errors: 0"));
}

TEST(YamlTree, DepthIsBounded) {
  EXPECT_THAT(ErrorOf(Repeat("[", 64) + Repeat("]", 64)), "errors: 0");
  EXPECT_THAT(ErrorOf(Repeat("[", 65) + Repeat("]", 65)), HasSubstr("more than 64 levels"));
  EXPECT_THAT(ErrorOf(Repeat("- ", 500000)), HasSubstr("more than 64 levels"));
  EXPECT_THAT(ErrorOf(Repeat("{a: ", 200000)), HasSubstr("more than 64 levels"));
}

TEST(YamlTree, AliasesAreCopiesWithinABudget) {
  const YamlTree tree = ReadYaml("a: &x {p: 1}\nb: *x\n");
  EXPECT_EQ(tree.root.Find("b")->Find("p")->text, "1");

  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + Repeat(last + ", ", 9) + last + "]\n";
  }
  EXPECT_THAT(ErrorOf(bomb), HasSubstr("aliases of aliases"));
  const std::string long_text = "a: &x " + std::string(500000, 'x') + "\nb: [" + Repeat("*x, ", 100000) + "*x]\n";
  EXPECT_THAT(ErrorOf(long_text), HasSubstr("aliases of aliases"));
}

}  // namespace
}  // namespace downpour
