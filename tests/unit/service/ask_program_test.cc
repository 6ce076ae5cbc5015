#include "service/ask_program.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace downpour {
namespace {

TEST(AskProgramTest, TellsWhatWasPrintedAndTheExitCode) {
  const Said said = AskProgram({"/bin/sh", "-c", "echo one; echo two >&2; exit 3"}, 30);
  EXPECT_EQ(said.out, "one\ntwo\n");
  EXPECT_EQ(said.code, 3);
  EXPECT_EQ(AskProgram({"/bin/sh", "-c", "echo one; echo two >&2"}, 30, Errors::kDropped).out, "one\n");
}

TEST(AskProgramTest, WordsReachItAsTheyAre) {
  const std::string word = "a 'b' $(echo c)\n;d";
  EXPECT_EQ(AskProgram({"printf", "%s", word}, 30).out, word);
}

TEST(AskProgramTest, TellsTheCodeAlsoWhereNobodyWaitsForChildren) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(AskProgram({"/bin/sh", "-c", "exit 4"}, 30).code, 4);
  signal(SIGCHLD, before);
}

TEST(AskProgramTest, WhatTakesTooLongOrIsNotThereHasNoAnswer) {
  EXPECT_EQ(AskProgram({"sleep", "1000"}, 1).code, std::nullopt);
  EXPECT_EQ(AskProgram({"/no/such/program"}, 30).code, 127);
}

}  // namespace
}  // namespace downpour
