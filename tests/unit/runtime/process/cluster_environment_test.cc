#include "runtime/process/cluster_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"

// Those of the members, and the chief's --set.
ABSL_DECLARE_FLAG(std::string, chief);
ABSL_DECLARE_FLAG(int32_t, index);
ABSL_FLAG(std::string, listen, "127.0.0.1:0", "an address");
ABSL_FLAG(downpour::Settings, set, {}, "settings");

namespace downpour {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kTfConfig[] =
    R"({"cluster":{"chief":["h0:2222"],"worker":["h1:2222","h2:2222"],"ps":["h3:2222"]},
 "task":{"type":"worker","index":1}})";

class PosixClusterTest : public testing::Test {
 protected:
  PosixClusterTest() { setenv("TF_CONFIG", kTfConfig, 1); }
  ~PosixClusterTest() override { unsetenv("TF_CONFIG"); }

  std::optional<int> Fill(TaskType role, const std::vector<const char*>& words) {
    std::vector<const char*> argv = {"downpour-test"};
    argv.insert(argv.end(), words.begin(), words.end());
    testing::internal::CaptureStderr();
    std::optional<int> code = ParseFlags(static_cast<int>(argv.size()), argv.data(), usage_);
    if (!code) code = FillFlags(usage_, role);
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }

  std::string File(const std::string& text) {
    const std::string path = testing::TempDir() + "/cluster-" + std::to_string(getpid()) + ".json";
    std::ofstream(path) << text;
    return path;
  }

  const Usage usage_ = {"downpour-test", "", ""};
  std::string err_;
  absl::FlagSaver saver_;
};

TEST_F(PosixClusterTest, TheEnvironmentFillsFlagsThatWereNotGiven) {
  EXPECT_EQ(Fill(TaskType::kWorker, {}), std::nullopt);
  EXPECT_EQ(absl::GetFlag(FLAGS_chief), "h0:2222");
  EXPECT_EQ(absl::GetFlag(FLAGS_index), 1);
  EXPECT_EQ(absl::GetFlag(FLAGS_listen), "127.0.0.1:0");
  EXPECT_EQ(err_, "");
}

TEST_F(PosixClusterTest, FlagsBeatIt) {
  EXPECT_EQ(Fill(TaskType::kPs, {"--index=0", "--chief=c:1", "--listen=127.0.0.1:5"}), std::nullopt);
  EXPECT_EQ(absl::GetFlag(FLAGS_chief), "c:1");
  EXPECT_EQ(absl::GetFlag(FLAGS_index), 0);
  EXPECT_EQ(absl::GetFlag(FLAGS_listen), "127.0.0.1:5");
  // Also where a flag says what is the default.
  EXPECT_EQ(Fill(TaskType::kWorker, {"--index=-1"}), std::nullopt);
  EXPECT_EQ(absl::GetFlag(FLAGS_index), -1);
}

TEST_F(PosixClusterTest, AFileBeatsTheEnvironmentAndNoneSilencesIt) {
  const std::string file = "--cluster=" + File(R"({"cluster":{"chief":["f:1"]}})");
  EXPECT_EQ(Fill(TaskType::kWorker, {file.c_str()}), std::nullopt);
  EXPECT_EQ(absl::GetFlag(FLAGS_chief), "f:1");
  EXPECT_EQ(absl::GetFlag(FLAGS_index), 1);
  const absl::FlagSaver saver;
  absl::SetFlag(&FLAGS_chief, "");
  EXPECT_EQ(Fill(TaskType::kWorker, {"--cluster=none"}), std::nullopt);
  EXPECT_EQ(absl::GetFlag(FLAGS_chief), "");
}

TEST_F(PosixClusterTest, TheSizeOfTheClusterComesBeforeTheSettingsGiven) {
  setenv("TF_CONFIG",
         R"({"cluster":{"chief":["localhost:1"],"worker":["h1:1"],"ps":["h3:1"]},"task":{"type":"chief"}})", 1);
  EXPECT_EQ(Fill(TaskType::kChief, {"--set=seed=3"}), std::nullopt);
  EXPECT_THAT(absl::GetFlag(FLAGS_set).items,
              ElementsAre("cluster={workerCount: 1, parameterServerCount: 1}", "seed=3"));
  EXPECT_THAT(absl::GetFlag(FLAGS_listen), AnyOf("127.0.0.1:1", "[::1]:1"));
  absl::SetFlag(&FLAGS_set, {});
  EXPECT_EQ(Fill(TaskType::kChief, {"--set=cluster.workerCount=9"}), std::nullopt);
  EXPECT_THAT(absl::GetFlag(FLAGS_set).items,
              ElementsAre("cluster={workerCount: 1, parameterServerCount: 1}", "cluster.workerCount=9"));
  for (const std::string size : {"cluster={workerCount: 9}", "cluster.scaleTier=BASIC"}) {
    absl::SetFlag(&FLAGS_set, {});
    EXPECT_EQ(Fill(TaskType::kChief, {absl::StrCat("--set=", size).c_str()}), std::nullopt);
    EXPECT_THAT(absl::GetFlag(FLAGS_set).items, ElementsAre(size)) << "all of it is said";
  }
}

TEST_F(PosixClusterTest, EveryErrorOfEverySourceIsTold) {
  setenv("TF_CONFIG", R"({"cluster":{"worker":["h1"]}})", 1);
  setenv("DMLC_ROLE", "boss", 1);
  EXPECT_EQ(Fill(TaskType::kWorker, {"--cluster=/nowhere/cluster.json"}), 2);
  unsetenv("DMLC_ROLE");
  EXPECT_THAT(err_, HasSubstr("downpour-test: /nowhere/cluster.json: cannot be read: No such file"));
  EXPECT_THAT(err_, HasSubstr("TF_CONFIG:1:23: cluster.worker.0: must be HOST:PORT"));
  EXPECT_THAT(err_, HasSubstr("DMLC_ROLE: must be worker, server or scheduler"));
  EXPECT_EQ(Fill(TaskType::kWorker, {"--cluster=/"}), 2);
}

TEST_F(PosixClusterTest, WhatIsNotReadIsTold) {
  setenv("DMLC_INTERFACE", "eth1", 1);
  EXPECT_EQ(Fill(TaskType::kWorker, {}), std::nullopt);
  unsetenv("DMLC_INTERFACE");
  EXPECT_THAT(err_, HasSubstr("warning: DMLC_INTERFACE: is not read: "));
}

TEST_F(PosixClusterTest, AnOwnNameMustResolve) {
  setenv("TF_CONFIG", R"({"cluster":{"chief":["no-such-host.invalid:1"]},"task":{"type":"chief"}})", 1);
  EXPECT_EQ(Fill(TaskType::kChief, {}), 2);
  EXPECT_THAT(err_, HasSubstr("TF_CONFIG says that this task is at no-such-host.invalid:1: "));
  EXPECT_EQ(Fill(TaskType::kChief, {"--listen=127.0.0.1:0"}), std::nullopt);
}

TEST(OwnAddressTest, IsOneAtWhichOthersReachIt) {
  EXPECT_EQ(ChooseOwnAddress("h1", {"10.0.0.1", "10.0.0.2"}).value(), "10.0.0.1");
  EXPECT_EQ(ChooseOwnAddress("h1", {"127.0.1.1", "::1", "fd00::1"}).value(), "fd00::1");
  EXPECT_EQ(ChooseOwnAddress("localhost", {"::1", "127.0.0.1"}).value(), "::1");
  EXPECT_EQ(ChooseOwnAddress("127.0.0.2", {"127.0.0.2"}).value(), "127.0.0.2");
  const absl::Status alone = ChooseOwnAddress("h1", {"127.0.1.1"}).status();
  EXPECT_THAT(std::string(alone.message()),
              HasSubstr("here that name means 127.0.1.1, where no other host reaches it"));
}

TEST(OwnAddressTest, AHostsFileAloneTellsWhetherOneIsRefused) {
  const auto judge = [](const std::string& endpoint) {
    std::istringstream hosts("127.0.0.1 localhost # h2\n127.0.1.1\th1.lab h1\n::1 h3\n10.0.0.3 h3\n");
    return std::string(CheckOwnEndpoint({endpoint, "TF_CONFIG"}, hosts).message());
  };
  EXPECT_EQ(judge("h1:7000"),
            "TF_CONFIG says that this task is at h1:7000: here that name means 127.0.1.1, where no other host reaches "
            "it; correct /etc/hosts; give --listen=ADDRESS:PORT");
  for (const char* good : {"localhost:1", "h3:1", "10.0.0.9:1"}) EXPECT_EQ(judge(good), "") << good;
  EXPECT_EQ(judge("h2:1"), "") << "which others may know";
}

TEST_F(PosixClusterTest, AnotherKindOfTaskIsRefused) {
  EXPECT_EQ(Fill(TaskType::kPs, {}), 2);
  EXPECT_THAT(err_, HasSubstr("downpour-test: TF_CONFIG says that this task is worker 1, not a ps"));
}

}  // namespace
}  // namespace downpour
