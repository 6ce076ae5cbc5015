#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <set>
#include <sstream>

#include "tools/cli/verbs.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

std::function<int()> SetUpGreet(CLI::App& app, Streams streams) {
  auto name = std::make_shared<std::string>();
  auto code = std::make_shared<int>(0);
  app.add_option("NAME", *name, "who")->required();
  app.add_option("--exit-code", *code, "what to return");
  return [=] {
    streams.out << "hello " << *name << "\n";
    return *code;
  };
}

std::function<int()> SetUpData(CLI::App& app, Streams streams) {
  app.require_subcommand(1);
  app.add_subcommand("digits", "Draw digits");
  return [streams] {
    streams.out << "drawn\n";
    return 0;
  };
}

const Verb kGreet = {"greet", "Greet somebody", "  downpour greet Ada\n", "0 said", SetUpGreet};
const Verb kData = {"data", "Make data", "  downpour data digits\n", "0 drawn", SetUpData, "draw"};

struct Outcome {
  int code;
  std::string out;
  std::string err;
};
Outcome Tool(std::vector<std::string> args) {
  std::ostringstream out, err;
  const int code = RunTool({&kGreet, &kData}, std::move(args), {out, err});
  return {code, out.str(), err.str()};
}

TEST(ToolFrame, RunsTheVerbAndPassesItsExitCodeOn) {
  const Outcome outcome = Tool({"greet", "Ada", "--exit-code", "69"});
  EXPECT_EQ(outcome.code, 69);
  EXPECT_EQ(outcome.out, "hello Ada\n");
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST(ToolFrame, AVerbMayHaveTwoNames) {
  EXPECT_EQ(Tool({"draw", "digits"}).out, "drawn\n");
  EXPECT_THAT(Tool({"help", "draw"}).out, HasSubstr("downpour data digits"));
  EXPECT_THAT(Tool({"help"}).out, HasSubstr("Make data; also: draw\n"));
}

TEST(ToolFrame, OptionsMayBeSpeltWithUnderscoresButValuesAreKept) {
  EXPECT_EQ(Tool({"greet", "--exit_code=3", "Ada_L"}).code, 3);
  EXPECT_EQ(Tool({"greet", "--exit_code=3", "Ada_L"}).out, "hello Ada_L\n");
}

TEST(ToolFrame, NothingToDoShowsHelpOnStderr) {
  const Outcome outcome = Tool({});
  EXPECT_EQ(outcome.code, kExitBadCommandLine);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, HasSubstr("greet  Greet somebody"));
}

TEST(ToolFrame, HelpIsAResultWithExamplesFirst) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"help", "greet"}, {"greet", "--help"}}) {
    const Outcome outcome = Tool(args);
    EXPECT_EQ(outcome.code, kExitDone);
    EXPECT_LT(outcome.out.find("downpour greet Ada"), outcome.out.find("--exit-code")) << outcome.out;
    EXPECT_THAT(outcome.err, IsEmpty());
  }
  EXPECT_THAT(Tool({"--help"}).out, HasSubstr("78 bad job file"));
  EXPECT_THAT(Tool({"data", "digits", "--help"}).out,
              HasSubstr("Exit codes: 0 drawn, 2 bad command line, 130 and 143 ended by Ctrl-C and SIGTERM."));
  EXPECT_EQ(Tool({"help"}).out, Tool({"-h"}).out);
}

TEST(ToolFrame, VersionNamesBuildAndProtocol) { EXPECT_THAT(Tool({"--version"}).out, HasSubstr("protocol 2")); }

TEST(ToolFrame, UnknownVerbsAndOptionsNameTheNearestRightOne) {
  EXPECT_EQ(Tool({"gret", "Ada"}).code, kExitBadCommandLine);
  EXPECT_THAT(Tool({"gret", "Ada"}).err, HasSubstr("did you mean greet?"));
  EXPECT_THAT(Tool({"help", "gret"}).err, HasSubstr("did you mean greet?"));
  EXPECT_THAT(Tool({"greet", "Ada", "--exit-cod=3"}).err, HasSubstr("did you mean --exit-code?"));
  EXPECT_THAT(Tool({"data", "digit"}).err, HasSubstr("there is no subcommand digit; did you mean digits?"));
}

TEST(ToolFrame, WhatFollowsTwoDashesIsNoOption) {
  EXPECT_EQ(Tool({"greet", "--", "--exit_code"}).out, "hello --exit_code\n");
  std::ostringstream out, err;
  EXPECT_EQ(RunTool(AllVerbs(), {"check", "--", "-odd.yaml"}, {out, err}), kExitBadJobFile);
  EXPECT_THAT(err.str(), HasSubstr("-odd.yaml: cannot be read: No such file"));
}

TEST(ToolFrame, WhatGoesToAModuleTakesNoPlaceOfAMissingArgument) {
  std::ostringstream out, err;
  EXPECT_EQ(RunTool(AllVerbs(), {"run", "--module-name", "m", "--", "--flag"}, {out, err}), kExitBadCommandLine);
  EXPECT_THAT(err.str(), HasSubstr("is required"));
}

TEST(ToolFrame, BadCommandLinesAreRefusedBeforeTheVerbRuns) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"greet"}, {"greet", "Ada", "--exit-code", "x"}, {"greet", "Ada", "Grace"}, {"data"}}) {
    const Outcome outcome = Tool(args);
    EXPECT_EQ(outcome.code, kExitBadCommandLine);
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, HasSubstr("downpour help " + args[0]));
  }
}

TEST(ToolFrame, VerbsOfTwoWordsRun) { EXPECT_EQ(Tool({"data", "digits"}).out, "drawn\n"); }

TEST(ToolFrame, EveryVerbHasHelpAndADistinctName) {
  std::set<std::string> names;
  for (const Verb* verb : AllVerbs()) {
    EXPECT_TRUE(names.insert(verb->name).second) << verb->name;
    std::ostringstream out, err;
    EXPECT_EQ(RunTool(AllVerbs(), {"help", verb->name}, {out, err}), kExitDone);
    EXPECT_THAT(out.str(), AllOf(HasSubstr("downpour " + verb->name), HasSubstr("Exit codes: 0 "), HasSubstr("130")));
  }
}

}  // namespace
}  // namespace downpour
