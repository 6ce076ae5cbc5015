#include "job/cluster_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr char kDense[] =
    R"({"cluster":{"chief":["h0:2222"],"worker":["h1:2222","h2:2222"],"ps":["h3:2222","h4:2222"]},
 "task":{"type":"worker","index":1},"environment":"cloud","rpc_layer":"grpc",
 "job":{"scaleTier":"CUSTOM","args":["a"]}})";

ClusterConfig Parse(const std::string& text) {
  ClusterConfigResult result = ParseTfConfig(text, "TF_CONFIG");
  for (const JobError& error : result.errors) ADD_FAILURE() << ToString(error);
  return std::move(result.config);
}

std::vector<std::string> Errors(const ClusterConfigResult& result) {
  std::vector<std::string> texts;
  for (const JobError& error : result.errors) texts.push_back(ToString(error));
  return texts;
}
std::vector<std::string> Errors(const std::string& text) { return Errors(ParseTfConfig(text, "TF_CONFIG")); }

TEST(TfConfig, ListsAndTheTaskAreRead) {
  const ClusterConfig config = Parse(kDense);
  EXPECT_THAT(config.chief, ElementsAre(Pair(0, "h0:2222")));
  EXPECT_THAT(config.worker, ElementsAre(Pair(0, "h1:2222"), Pair(1, "h2:2222")));
  EXPECT_THAT(config.ps, ElementsAre(Pair(0, "h3:2222"), Pair(1, "h4:2222")));
  EXPECT_EQ(config.worker_count, 2);
  EXPECT_EQ(config.ps_count, 2);
  EXPECT_EQ(config.task->type, TaskType::kWorker);
  EXPECT_EQ(config.task->index, 1);
}

TEST(TfConfig, NothingSaysNothing) {
  for (const char* text : {"", "{}", "null", R"({"task":{}})", R"({"cluster":{}})", R"({"cluster":{"worker":[]}})"}) {
    const ClusterConfig config = Parse(text);
    EXPECT_TRUE(config.chief.empty() && config.worker.empty() && config.ps.empty() && !config.task) << text;
    EXPECT_FALSE(config.worker_count.has_value()) << text;
  }
}

TEST(TfConfig, IndicesMayBeTextAndMayBeLeftOut) {
  EXPECT_EQ(Parse(R"({"task":{"type":"ps","index":"7","trial":"1","cloud":"x"}})").task->index, 7);
  EXPECT_EQ(Parse(R"({"task":{"type":"chief"}})").task->index, 0);
}

TEST(TfConfig, SparseListsTellAddressesButNoCount) {
  const ClusterConfig config =
      Parse(R"({"cluster":{"ps":["h3:2222"],"worker":{"5":"h1:2222"}},"task":{"type":"worker","index":5}})");
  EXPECT_THAT(config.worker, ElementsAre(Pair(5, "h1:2222")));
  EXPECT_FALSE(config.worker_count.has_value());
  EXPECT_EQ(config.ps_count, 1);
}

TEST(TfConfig, AMasterIsAChiefWithOneMoreWorkerBesideIt) {
  const ClusterConfig config = Parse(
      R"({"cluster":{"master":["h0:1"],"worker":["h1:1","h2:1"],"ps":["h3:1"]},"task":{"type":"master","index":0}})");
  EXPECT_THAT(config.chief, ElementsAre(Pair(0, "h0:1")));
  EXPECT_EQ(config.worker_count, 3);
  EXPECT_TRUE(config.task->is_master);
}

TEST(TfConfig, PoolsOfVertexAiAreKnown) {
  const ClusterConfig config = Parse(
      R"({"cluster":{"workerpool0":["h0:1"],"workerpool1":["h1:1"],"workerpool2":["h2:1"],"workerpool3":["h3:1"]},
          "task":{"type":"workerpool2","index":0},"openPorts":["2222"]})");
  EXPECT_THAT(config.chief, ElementsAre(Pair(0, "h0:1")));
  EXPECT_THAT(config.ps, ElementsAre(Pair(0, "h2:1")));
  EXPECT_EQ(config.task->type, TaskType::kPs);
}

TEST(TfConfig, AnEvaluatorNeedNotBeInTheCluster) {
  EXPECT_EQ(Parse(R"({"cluster":{"worker":["h:1"]},"task":{"type":"evaluator","index":0}})").task->type,
            TaskType::kEvaluator);
}

TEST(TfConfig, EveryErrorIsReportedAtOnceWithItsPlace) {
  EXPECT_THAT(Errors(R"({"cluster": {
 "chief": ["h0:1", "h1:1"],
 "workers": ["h2:1"],
 "worker": ["h3", 5, "h0:1"],
 "ps": "h4:1"},
 "task": {"type": "sp", "index": -1}})"),
              ElementsAre(HasSubstr("TF_CONFIG:2:11: cluster.chief: there is at most one"),
                          HasSubstr("TF_CONFIG:3:2: cluster.workers: unknown key; did you mean worker?"),
                          HasSubstr("TF_CONFIG:4:13: cluster.worker.0: must be HOST:PORT"),
                          HasSubstr("TF_CONFIG:4:19: cluster.worker.1: must be text"),
                          HasSubstr("TF_CONFIG:4:22: cluster.worker.2: h0:1 is the address of cluster.chief.0"),
                          HasSubstr("TF_CONFIG:5:8: cluster.ps: must list HOST:PORT"),
                          HasSubstr("TF_CONFIG:6:19: task.type: is \"sp\""),
                          HasSubstr("TF_CONFIG:6:34: task.index: is -1, but must lie between 0 and 1023")));
}

TEST(TfConfig, WhatDoesNotFitIsRefused) {
  EXPECT_THAT(Errors(R"({"cluster":{"worker":["h:1"]},"task":{"type":"worker","index":1}})"),
              ElementsAre(HasSubstr("is worker 1, which is not in cluster")));
  EXPECT_THAT(Errors(R"({"cluster":{"chief":["h:1"],"worker":["g:1"]},"task":{"type":"master","index":0}})"),
              ElementsAre(HasSubstr("is master 0, which is not in cluster")));
  EXPECT_THAT(Errors(R"({"cluster":{"chief":["h:1"],"master":["g:1"]}})"),
              ElementsAre(HasSubstr("stand here under another name")));
  EXPECT_THAT(Errors(R"({"cluster":{"worker":{"1":"h:1","01":"g:1"}}})"),
              ElementsAre(HasSubstr("stands here a second time")));
  EXPECT_THAT(Errors(R"({"cluster":{"chief":["h:1"]},"cluster":{}})"), ElementsAre(HasSubstr("a second time")));
  EXPECT_THAT(Errors(R"({"task":{"index":0}})"), ElementsAre(HasSubstr("task.type: is missing")));
  for (const char* text :
       {"[]", "x", "{", "{\"cluster\":3}", "{\"task\":[]}", "{\"cluster\":{\"ps\":{\"x\":\"h:1\"}}}"}) {
    EXPECT_FALSE(Errors(text).empty()) << text;
  }
}

TEST(TfConfig, SizesAreBounded) {
  std::string many = R"({"cluster":{"worker":[)";
  for (int i = 0; i < 2000; ++i) many += (i == 0 ? "\"h" : ",\"h") + std::to_string(i) + ":1\"";
  EXPECT_THAT(Errors(many + "]}}"), ElementsAre(HasSubstr("has more than 1024 tasks")));
  EXPECT_FALSE(Errors(std::string(2 << 20, ' ')).empty());
}

TEST(Torchrun, SaysWhereTheChiefIs) {
  EXPECT_THAT(ParseTorchrun({{"RANK", "x"}, {"WORLD_SIZE", "0"}}).errors, IsEmpty()) << "of something else";
  EXPECT_THAT(ParseTorchrun({{"MASTER_ADDR", "::1"}}).config.chief, ElementsAre(Pair(0, "[::1]:29500")));
  EXPECT_THAT(Errors(ParseTorchrun({{"MASTER_ADDR", "h;x"}, {"MASTER_PORT", "0"}, {"RANK", "2"}, {"WORLD_SIZE", "2"}})),
              ElementsAre(HasSubstr("MASTER_ADDR: must be a host"), HasSubstr("MASTER_PORT: "), HasSubstr("RANK: ")));
}

TEST(Dmlc, WhatIsNotReadIsWarnedOf) {
  const ClusterConfigResult result =
      ParseDmlc({{"DMLC_INTERFACE", "eth1"}, {"DMLC_PS_VAN_TYPE", "zmq"}, {"DMLC_LOCAL", ""}});
  EXPECT_THAT(Errors(result), IsEmpty());
  ASSERT_EQ(result.warnings.size(), 2u);
  EXPECT_THAT(ToString(result.warnings[0]), HasSubstr("DMLC_INTERFACE: is not read: give that interface's address by"));
  EXPECT_THAT(ToString(result.warnings[1]), HasSubstr("DMLC_PS_VAN_TYPE: is not read"));
}

TEST(Dmlc, OnlyTheSchedulersAddressIsKnown) {
  const ClusterConfigResult result = ParseDmlc({{"DMLC_ROLE", "server"},
                                                {"DMLC_PS_ROOT_URI", "10.0.0.1"},
                                                {"DMLC_PS_ROOT_PORT", "9091"},
                                                {"DMLC_NUM_WORKER", "4"},
                                                {"DMLC_NUM_SERVER", "2"},
                                                {"DMLC_NODE_HOST", "10.0.0.7"}});
  EXPECT_THAT(Errors(result), IsEmpty());
  EXPECT_THAT(result.config.chief, ElementsAre(Pair(0, "10.0.0.1:9091")));
  EXPECT_EQ(result.config.task->type, TaskType::kPs);
  EXPECT_FALSE(result.config.task->index.has_value());
  EXPECT_EQ(result.config.worker_count, 4);
  EXPECT_EQ(result.config.ps_count, 2);
  EXPECT_EQ(result.config.own_host, "10.0.0.7");
  EXPECT_TRUE(ParseDmlc({}).config.chief.empty());
}

TEST(Dmlc, BadVariablesAreAllNamed) {
  EXPECT_THAT(Errors(ParseDmlc({{"DMLC_ROLE", "boss"},
                                {"DMLC_PS_ROOT_URI", "h;x"},
                                {"DMLC_PS_ROOT_PORT", "9091"},
                                {"DMLC_NODE_HOST", "a b"},
                                {"DMLC_NUM_WORKER", "-4"}})),
              ElementsAre(HasSubstr("DMLC_PS_ROOT_URI: must be a host"), HasSubstr("DMLC_NUM_WORKER: "),
                          HasSubstr("DMLC_NODE_HOST: must be a host, but is a b"),
                          HasSubstr("DMLC_ROLE: must be worker, server or scheduler, but is boss")));
  EXPECT_THAT(Errors(ParseDmlc({{"DMLC_PS_ROOT_URI", "h"}})), ElementsAre(HasSubstr("DMLC_PS_ROOT_PORT: is missing")));
  EXPECT_THAT(Errors(ParseDmlc({{"DMLC_PS_ROOT_PORT", "1"}})), ElementsAre(HasSubstr("DMLC_PS_ROOT_URI: is missing")));
}

TEST(Slurm, TheChiefIsOnTheFirstNode) {
  for (const auto& [list, first] : {std::pair("n1", "n1"), std::pair("n[07-12,20],m1", "n07"), std::pair("a,b", "a"),
                                    std::pair("n[3]-x", "n3-x"), std::pair("r[1-2]c[05,6]", "r1c05")}) {
    const ClusterConfigResult result = ParseSlurm({{"SLURM_JOB_NODELIST", list}, {"SLURMD_NODENAME", "n9"}});
    EXPECT_THAT(Errors(result), IsEmpty());
    EXPECT_THAT(result.config.chief, ElementsAre(Pair(0, std::string(first) + ":7000"))) << list;
    EXPECT_EQ(result.config.own_host, "n9");
    EXPECT_FALSE(result.config.resume);
  }
  for (const char* list : {"[", "n[1", ",", "n 1"}) {
    EXPECT_FALSE(ParseSlurm({{"SLURM_JOB_NODELIST", list}}).errors.empty()) << list;
  }
  EXPECT_FALSE(ParseSlurm({{"SLURM_JOB_NODELIST", "n1"}, {"SLURMD_NODENAME", "n;1"}}).errors.empty());
  EXPECT_TRUE(ParseSlurm({}).config.chief.empty());
}

TEST(Slurm, ARequeuedJobGoesOn) {
  EXPECT_TRUE(ParseSlurm({{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_RESTART_COUNT", "2"}}).config.resume);
  EXPECT_FALSE(ParseSlurm({{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_RESTART_COUNT", "0"}}).config.resume);
}

// What `role` takes from these sources, as name=value (origin).
std::vector<std::string> Settle(TaskType role, const std::vector<ClusterConfig>& sources,
                                std::optional<int64_t> given_index = std::nullopt) {
  const absl::StatusOr<LaunchSettings> settings = SettleLaunch(role, sources, given_index);
  if (!settings.ok()) return {std::string(settings.status().message())};
  std::vector<std::string> texts;
  for (const auto& [name, told] : *settings) texts.push_back(name + "=" + told.value + " (" + told.origin + ")");
  return texts;
}

TEST(Launch, EachRoleTakesWhatConcernsIt) {
  ClusterConfig config = Parse(kDense);
  EXPECT_THAT(Settle(TaskType::kWorker, {config}), ElementsAre("chief=h0:2222 (TF_CONFIG)", "index=1 (TF_CONFIG)"));
  config.task = ClusterTask{.type = TaskType::kPs, .index = 0};
  EXPECT_THAT(Settle(TaskType::kPs, {config}),
              ElementsAre("chief=h0:2222 (TF_CONFIG)", "index=0 (TF_CONFIG)", "listen=h3:2222 (TF_CONFIG)"));
  config.task = ClusterTask{.type = TaskType::kChief, .index = 0};
  EXPECT_THAT(
      Settle(TaskType::kChief, {config}),
      ElementsAre("listen=h0:2222 (TF_CONFIG)", "set=cluster={workerCount: 2, parameterServerCount: 2} (TF_CONFIG)"));
}

TEST(Launch, WithoutAChiefTheFirstWorkersHostRunsIt) {
  const ClusterConfig config =
      Parse(R"({"cluster":{"worker":["h1:1","h2:1"],"ps":["h3:1"]},"task":{"type":"worker"}})");
  EXPECT_THAT(Settle(TaskType::kChief, {config}), testing::Contains("listen=h1:1 (TF_CONFIG)"));
  EXPECT_THAT(Settle(TaskType::kWorker, {config}), ElementsAre("chief=h1:1 (TF_CONFIG)", "index=0 (TF_CONFIG)"));
}

TEST(Launch, BesideAMasterRunsTheLastWorker) {
  const ClusterConfig config =
      Parse(R"({"cluster":{"master":["h0:1"],"worker":["h1:1","h2:1"],"ps":["h3:1"]},"task":{"type":"master"}})");
  EXPECT_THAT(Settle(TaskType::kWorker, {config}), testing::Contains("index=2 (TF_CONFIG)"));
  EXPECT_THAT(Settle(TaskType::kChief, {config}),
              testing::Contains("set=cluster={workerCount: 3, parameterServerCount: 1} (TF_CONFIG)"));
}

TEST(Launch, AnotherKindOfTaskIsRefusedUnlessTheIndexIsGiven) {
  const ClusterConfig config = Parse(kDense);
  EXPECT_THAT(
      Settle(TaskType::kPs, {config}),
      ElementsAre(HasSubstr("TF_CONFIG says that this task is worker 1, not a ps: start downpour-worker there")));
  EXPECT_THAT(Settle(TaskType::kChief, {config}), ElementsAre(HasSubstr("is worker 1, not a chief")));
  EXPECT_THAT(Settle(TaskType::kPs, {config}, 1),
              ElementsAre("chief=h0:2222 (TF_CONFIG)", "listen=h4:2222 (TF_CONFIG)"));
  EXPECT_THAT(Settle(TaskType::kWorker, {Parse(R"({"task":{"type":"evaluator"}})")}),
              ElementsAre(HasSubstr("the workers evaluate")));
}

TEST(Launch, OnlyAWorkerHasARank) {
  const ClusterConfig config =
      ParseTorchrun({{"MASTER_ADDR", "h0"}, {"MASTER_PORT", "7000"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}}).config;
  EXPECT_THAT(Settle(TaskType::kWorker, {config}), ElementsAre("chief=h0:7000 (MASTER_*)", "index=1 (MASTER_*)"));
  EXPECT_THAT(Settle(TaskType::kWorker, {config}, 0), ElementsAre("chief=h0:7000 (MASTER_*)")) << "a flag's beats it";
  const ClusterConfig told = Parse(R"({"task":{"type":"worker","index":5}})");
  EXPECT_THAT(Settle(TaskType::kWorker, {told, config}),
              ElementsAre("chief=h0:7000 (MASTER_*)", "index=5 (TF_CONFIG)"));
  EXPECT_THAT(Settle(TaskType::kPs, {config}), ElementsAre("chief=h0:7000 (MASTER_*)"));
  EXPECT_THAT(Settle(TaskType::kChief, {config}), ElementsAre("listen=h0:7000 (MASTER_*)"));
}

TEST(Launch, EachSettingComesFromTheFirstSourceThatSaysIt) {
  ClusterConfig file = ParseTfConfig(R"({"cluster":{"chief":["f:1"],"ps":["p:1","q:1"]}})", "cluster.json").config;
  ClusterConfig slurm = ParseSlurm({{"SLURM_JOB_NODELIST", "n1"}, {"SLURMD_NODENAME", "n2"}}).config;
  ClusterConfig task = Parse(R"({"task":{"type":"ps","index":1}})");
  EXPECT_THAT(Settle(TaskType::kPs, {file, task, slurm}),
              ElementsAre("chief=f:1 (cluster.json)", "index=1 (TF_CONFIG)", "listen=q:1 (cluster.json)"));
  EXPECT_THAT(Settle(TaskType::kPs, {slurm}), ElementsAre("chief=n1:7000 (SLURM_*)", "listen=n2:0 (SLURM_*)"));
  EXPECT_THAT(Settle(TaskType::kWorker, {}), IsEmpty());
}

}  // namespace
}  // namespace downpour
