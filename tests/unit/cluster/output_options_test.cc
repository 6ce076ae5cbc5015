#include "cluster/output_options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace downpour {
namespace {

struct Chosen {
  bool json = false;
  ColorChoice color = ColorChoice::kAuto;
  bool operator==(const Chosen&) const = default;
};

// `words` in the order in which they are typed.
Chosen Parse(std::vector<std::string> words) {
  Chosen chosen;
  CLI::App app;
  AddFormatOption(app, "table or json", &chosen.json);
  AddColorOption(app, &chosen.color);
  app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  return chosen;
}

TEST(OutputOptionsTest, TableAndAutoUnlessToldOtherwise) {
  EXPECT_EQ(Parse({}), Chosen());
  EXPECT_EQ(Parse({"-o", "json", "--color", "always"}), (Chosen{true, ColorChoice::kAlways}));
  EXPECT_EQ(Parse({"--output=table", "--color=never"}), (Chosen{false, ColorChoice::kNever}));
}

TEST(OutputOptionsTest, OtherWordsAreRefused) {
  EXPECT_THROW(Parse({"-o", "xml"}), CLI::ValidationError);
  EXPECT_THROW(Parse({"--color", "blue"}), CLI::ValidationError);
}

}  // namespace
}  // namespace downpour
