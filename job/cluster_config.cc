#include "job/cluster_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "job/job_reader.h"
#include "schema/host_port.h"
#include "schema/text.h"

namespace downpour {
namespace {

struct TypeName {
  const char* name;
  TaskType type;
};
// Each type's own name comes first; Vertex AI numbers its pools in this order.
constexpr TypeName kTypes[] = {
    {"chief", TaskType::kChief},         {"worker", TaskType::kWorker},  {"ps", TaskType::kPs},
    {"evaluator", TaskType::kEvaluator}, {"master", TaskType::kChief},   {"workerpool0", TaskType::kChief},
    {"workerpool1", TaskType::kWorker},  {"workerpool2", TaskType::kPs}, {"workerpool3", TaskType::kEvaluator}};
constexpr const char* kMaster = "master";

std::vector<std::string> TypeNames() {
  std::vector<std::string> names;
  for (const TypeName& type : kTypes) names.push_back(type.name);
  return names;
}

YamlNode Scalar(const std::string& text, int line, int column) {
  YamlNode node;
  node.kind = YamlNode::Kind::kScalar;
  node.text = text;
  node.line = line;
  node.column = column;
  return node;
}

// TensorFlow takes "1" for 1.
bool ReadIndex(YamlNode node, const std::string& path, JobErrors& errors, int64_t* index) {
  node.quoted = false;
  return ReadInteger(node, path, errors, 0, kMostTasks - 1, index);
}

bool IsAddress(const std::string& text) {
  const std::optional<HostPort> address = ParseHostPort(text);
  return address && address->port > 0;
}

class TfConfigReader {
 public:
  TfConfigReader(JobErrors& errors, ClusterConfig* config) : errors_(errors), config_(*config) {}

  void Read(const YamlNode& root) {
    MapReader reader(root, "", errors_);
    if (const YamlNode* cluster = reader.Find("cluster")) ReadCluster(*cluster);
    if (const YamlNode* task = reader.Find("task")) ReadTask(*task);
  }

 private:
  void ReadCluster(const YamlNode& node) {
    MapReader reader(node, "cluster", errors_);
    for (const TypeName& type : kTypes) {
      if (const YamlNode* tasks = reader.Find(type.name)) ReadTasks(*tasks, type);
    }
    reader.Finish();
    if (config_.worker_count && has_master_) ++*config_.worker_count;
  }

  void ReadTasks(const YamlNode& node, const TypeName& type) {
    const std::string path = absl::StrCat("cluster.", type.name);
    const bool is_map = node.Is(YamlNode::Kind::kMap);
    if (!is_map && !node.Is(YamlNode::Kind::kSequence)) {
      return errors_.Add(node, path, absl::StrCat("must list HOST:PORT for each task, but is ", Describe(node)));
    }
    Addresses addresses;
    for (const YamlEntry& entry : node.entries) {
      int64_t index = 0;
      if (ReadIndex(Scalar(entry.key, entry.line, entry.column), path, errors_, &index))
        ReadAddress(entry.value, path, index, &addresses);
    }
    if (node.items.size() > kMostTasks) errors_.Add(node, path, absl::StrCat("has more than ", kMostTasks, " tasks"));
    for (size_t i = 0; i < std::min<size_t>(node.items.size(), kMostTasks); ++i) {
      ReadAddress(node.items[i], path, static_cast<int64_t>(i), &addresses);
    }
    if (!addresses.empty()) Keep(node, path, type, is_map, std::move(addresses));
  }

  void ReadAddress(const YamlNode& node, const std::string& path, int64_t index, Addresses* addresses) {
    const std::string place = absl::StrCat(path, ".", index);
    std::string text;
    if (!ReadText(node, place, errors_, &text)) return;
    if (!IsAddress(text)) {
      return errors_.Add(node, place, absl::StrCat("must be HOST:PORT or [IPV6]:PORT, but is ", Describe(node)));
    }
    const auto [other, is_new] = owners_.try_emplace(text, place);
    if (!is_new) return errors_.Add(node, place, absl::StrCat(text, " is the address of ", other->second, " already"));
    if (!addresses->try_emplace(index, text).second) errors_.Add(node, place, "stands here a second time");
  }

  void Keep(const YamlNode& node, const std::string& path, const TypeName& type, bool is_map, Addresses addresses) {
    const auto count = is_map ? std::nullopt : std::optional(static_cast<int64_t>(addresses.size()));
    Addresses* kept = nullptr;
    if (type.type == TaskType::kWorker) {
      kept = &config_.worker;
      config_.worker_count = count;
    } else if (type.type == TaskType::kPs) {
      kept = &config_.ps;
      config_.ps_count = count;
    } else {
      if (addresses.size() > 1 || addresses.begin()->first != 0)
        errors_.Add(node, path, "there is at most one, task 0");
      if (type.type == TaskType::kEvaluator) return;
      kept = &config_.chief;
      has_master_ = has_master_ || type.name == std::string(kMaster);
    }
    if (!kept->empty()) return errors_.Add(node, path, "the same tasks stand here under another name");
    *kept = std::move(addresses);
  }

  void ReadTask(const YamlNode& node) {
    MapReader reader(node, "task", errors_);
    if (node.entries.empty()) return;
    ClusterTask task;
    const YamlNode* index = reader.Find("index");
    int64_t number = 0;
    const bool numbered = index == nullptr || ReadIndex(*index, "task.index", errors_, &number);
    reader.Require("type");
    const int chosen = reader.Choose("type", TypeNames());
    if (chosen < 0 || !numbered) return;
    task.type = kTypes[chosen].type;
    task.is_master = kTypes[chosen].name == std::string(kMaster);
    task.index = number;
    config_.task = task;
    const Addresses* peers = task.type == TaskType::kWorker  ? &config_.worker
                             : task.type == TaskType::kPs    ? &config_.ps
                             : task.type == TaskType::kChief ? &config_.chief
                                                             : nullptr;
    if (peers == nullptr || config_.chief.size() + config_.worker.size() + config_.ps.size() == 0) return;
    if (!peers->contains(number) || (task.is_master && !has_master_)) {
      errors_.Add(node, "task", absl::StrCat("is ", kTypes[chosen].name, " ", number, ", which is not in cluster"));
    }
  }

  JobErrors& errors_;
  ClusterConfig& config_;
  std::map<std::string, std::string> owners_;  // of addresses
  bool has_master_ = false;
};

// ---- Plain variables ------------------------------------------------------------------------------------------------

class Variables {
 public:
  Variables(const Environment& environment, ClusterConfigResult* result)
      : environment_(environment), errors_(result->errors), warnings_(result->warnings) {}

  std::string Text(const std::string& name) const {
    const auto found = environment_.find(name);
    return found == environment_.end() ? "" : found->second;
  }

  std::optional<int64_t> Number(const std::string& name, int64_t low, int64_t high) {
    const std::string text = Text(name);
    if (text.empty()) return std::nullopt;
    JobErrors errors(name);
    int64_t number = 0;
    if (ReadInteger(Scalar(text, 0, 0), "", errors, low, high, &number)) return number;
    for (JobError& error : errors.Take()) errors_.push_back(std::move(error));
    return std::nullopt;
  }

  // A host's name or address.
  std::string Host(const std::string& name) {
    const std::string host = Text(name);
    if (host.empty() || ParseHostPort(ToString(HostPort{host, 0}))) return host;
    Fail(name, "must be a host, but is " + OneLine(host, 64));
    return "";
  }

  void Ignore(const std::string& name, std::string why) {
    if (!Text(name).empty()) warnings_.push_back({name, 0, 0, "", "is not read: " + std::move(why)});
  }

  void Fail(const std::string& name, std::string what) { errors_.push_back({name, 0, 0, "", std::move(what)}); }

 private:
  const Environment& environment_;
  std::vector<JobError>& errors_;
  std::vector<JobError>& warnings_;
};

// The first host of Slurm's compressed list: n07 of "n[07-12,20],m1".
std::string FirstNode(const std::string& list) {
  std::string host;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const size_t end = list.find(']', i);
    if (end == std::string::npos) return "";
    host += list.substr(i + 1, list.find_first_of(",-]", i) - i - 1);
    i = end;
  }
  return host;
}

}  // namespace

ClusterConfigResult ParseTfConfig(const std::string& text, const std::string& origin) {
  ClusterConfigResult result;
  result.config.origin = origin;
  const YamlTree tree = ReadYaml(text);
  JobErrors errors(origin);
  for (const YamlError& error : tree.errors) errors.Add(error);
  if (tree.errors.empty() && !tree.root.Is(YamlNode::Kind::kNull)) {
    TfConfigReader(errors, &result.config).Read(tree.root);
  }
  result.errors = errors.Take();
  return result;
}

ClusterConfigResult ParseDmlc(const Environment& environment) {
  ClusterConfigResult result;
  Variables variables(environment, &result);
  ClusterConfig& config = result.config;
  config.origin = "DMLC_*";
  const bool rooted = !variables.Text("DMLC_PS_ROOT_URI").empty();
  const bool ported = !variables.Text("DMLC_PS_ROOT_PORT").empty();
  const std::string root = variables.Host("DMLC_PS_ROOT_URI");
  const std::optional<int64_t> port = variables.Number("DMLC_PS_ROOT_PORT", 1, 65535);
  if (!rooted && ported) variables.Fail("DMLC_PS_ROOT_URI", "is missing beside DMLC_PS_ROOT_PORT");
  if (rooted && !ported) variables.Fail("DMLC_PS_ROOT_PORT", "is missing beside DMLC_PS_ROOT_URI");
  if (!root.empty() && port) config.chief[0] = ToString(HostPort{root, static_cast<int>(*port)});
  config.worker_count = variables.Number("DMLC_NUM_WORKER", 1, kMostTasks);
  config.ps_count = variables.Number("DMLC_NUM_SERVER", 1, kMostTasks);
  config.own_host = variables.Host("DMLC_NODE_HOST");
  const std::string role = variables.Text("DMLC_ROLE");
  const std::pair<const char*, TaskType> roles[] = {
      {"scheduler", TaskType::kChief}, {"worker", TaskType::kWorker}, {"server", TaskType::kPs}};
  for (const auto& [name, type] : roles) {
    if (role == name) config.task = ClusterTask{.type = type, .index = std::nullopt};
  }
  if (!role.empty() && !config.task) {
    variables.Fail("DMLC_ROLE", "must be worker, server or scheduler, but is " + OneLine(role, 64));
  }
  variables.Ignore("DMLC_INTERFACE", "give that interface's address by DMLC_NODE_HOST or --listen=ADDRESS:PORT");
  variables.Ignore("DMLC_LOCAL", "downpour run starts a cluster on one machine, over Unix sockets");
  variables.Ignore("DMLC_PS_VAN_TYPE", "tasks talk over ZeroMQ");
  return result;
}

ClusterConfigResult ParseTorchrun(const Environment& environment) {
  ClusterConfigResult result;
  Variables variables(environment, &result);
  ClusterConfig& config = result.config;
  config.origin = "MASTER_*";
  if (variables.Text("MASTER_ADDR").empty()) return result;
  const std::string address = variables.Host("MASTER_ADDR");
  const int64_t port = variables.Number("MASTER_PORT", 1, 65535).value_or(kTorchrunPort);
  if (!address.empty()) config.chief[0] = ToString(HostPort{address, static_cast<int>(port)});
  const int64_t ranks = variables.Number("WORLD_SIZE", 1, kMostTasks).value_or(kMostTasks);
  config.rank = variables.Number("RANK", 0, ranks - 1);
  return result;
}

ClusterConfigResult ParseSlurm(const Environment& environment) {
  ClusterConfigResult result;
  Variables variables(environment, &result);
  ClusterConfig& config = result.config;
  config.origin = "SLURM_*";
  const std::string nodes = variables.Text("SLURM_JOB_NODELIST");
  if (nodes.empty()) return result;
  const std::string address = absl::StrCat(FirstNode(nodes), ":", kSlurmChiefPort);
  if (IsAddress(address)) {
    config.chief[0] = address;
  } else {
    variables.Fail("SLURM_JOB_NODELIST", "is no list of nodes: " + OneLine(nodes, 64));
  }
  config.own_host = variables.Host("SLURMD_NODENAME");
  config.resume = variables.Number("SLURM_RESTART_COUNT", 0, INT32_MAX).value_or(0) > 0;
  return result;
}

}  // namespace downpour
