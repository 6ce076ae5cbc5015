// What `downpour serve` takes for a backend, and what is a mistake.
#include "tools/cli/service_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "job/job_file.h"
#include "tests/unit/job/job_text.h"
#include "tests/unit/scratch_folder.h"

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

TEST(ServiceOptionsTest, AJobsMemoryIsReckonedByItsDatasHeadersAlone) {
  const ScratchFolder scratch;
  JobFileResult read = ParseJob(kJob, "j.yaml");
  ASSERT_TRUE(read.ok());
  read.job.cluster.worker_count = 1;
  SetFiles& train = read.job.data.train;
  train = {scratch.path() + "/images", scratch.path() + "/labels"};
  for (const std::string& path : {train.images, train.labels}) ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const uint64_t without = MemoryOf(read);
  std::filesystem::remove(train.images);
  scratch.Write("images", std::string("\0\0\x08\x03\0\x10\0\0\0\0\0\x1c\0\0\0\x1c", 16));  // 2^20 of 28x28
  EXPECT_EQ(MemoryOf(read), without + (uint64_t{785} << 20)) << "which a worker holds";
}

}  // namespace
}  // namespace downpour
