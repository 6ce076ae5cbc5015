// What `downpour serve` takes for a backend, and what is a mistake.
#include "tools/cli/service_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "tests/unit/tools/scratch_folder.h"

namespace downpour {
namespace {

using testing::HasSubstr;

// What is wrong with these words; empty: nothing.
std::string Refusal(std::vector<std::string> words) {
  CLI::App app;
  BackendSettings settings;
  AddBackendOptions(app, &settings);
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

TEST(ServiceOptionsTest, WhatBelongsToAnotherBackendIsAMistake) {
  EXPECT_EQ(Refusal({"--cores", "2"}), "");
  EXPECT_THAT(Refusal({"--backend", "slurm", "--cores", "2"}), HasSubstr("belongs to --backend local"));
  EXPECT_THAT(Refusal({"--partition", "main"}), HasSubstr("belongs to --backend slurm"));
  EXPECT_THAT(Refusal({"--chief-port", "7"}), HasSubstr("belongs to --backend ssh"));
}

TEST(ServiceOptionsTest, SshNeedsHostsAndItsLauncher) {
  const ScratchFolder scratch;
  const std::string file = scratch.Write("lab.hosts", "");
  EXPECT_THAT(Refusal({"--backend", "ssh"}), HasSubstr("needs --hosts FILE"));
  EXPECT_THAT(Refusal({"--backend", "ssh", "--hosts", file}), HasSubstr("--launcher FILE"));
  EXPECT_EQ(Refusal({"--backend", "ssh", "--hosts", file, "--launcher", file}), "");
}

TEST(ServiceOptionsTest, OptionsOfSbatchAreLongAndNotOurs) {
  EXPECT_EQ(Refusal({"--backend", "slurm", "--sbatch-option=--time=5"}), "");
  EXPECT_THAT(Refusal({"--backend", "slurm", "--sbatch-option=-t5"}), HasSubstr("no long option of sbatch"));
  EXPECT_THAT(Refusal({"--backend", "slurm", "--sbatch-option=--job-name=x"}), HasSubstr("the service's own"));
}

TEST(ServiceOptionsTest, APipeInTheDatasPlaceIsNotRead) {
  const ScratchFolder scratch;
  JobFileResult read;
  read.job.data.train.labels = scratch.path() + "/pipe";
  ASSERT_EQ(mkfifo(read.job.data.train.labels.c_str(), 0600), 0);
  EXPECT_EQ(MemoryOf(read), 0u);
}

}  // namespace
}  // namespace downpour
