#include "job/job_training_input.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "job/job_names.h"
#include "job/job_parse.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr const char* kSection = "trainingInput";
constexpr size_t kMostPackages = 100;  // as AI Platform has it

struct Meaningless {
  const char* key;
  const char* why;
};
constexpr const char* kHosts = "tasks run on the hosts they are started on";
constexpr const char* kProgram = "the program is downpour itself";
constexpr const char* kService = "it configures Google's service";
constexpr Meaningless kMeaningless[] = {
    {"masterType", kHosts},
    {"workerType", kHosts},
    {"parameterServerType", kHosts},
    {"evaluatorType", kHosts},
    {"masterConfig", kHosts},
    {"workerConfig", kHosts},
    {"parameterServerConfig", kHosts},
    {"evaluatorConfig", kHosts},
    {"evaluatorCount", "the workers evaluate"},
    {"runtimeVersion", kProgram},
    {"pythonVersion", kProgram},
    {"region", kService},
    {"network", kService},
    {"serviceAccount", kService},
    {"encryptionConfig", kService},
    {"enableWebAccess", kService},
    {"useChiefInTfConfig", "both names are understood"},
    {"hyperparameters", "one job is trained, with no search"},
    {"nasJobSpec", "one job is trained, with no search"},
};
constexpr Meaningless kMeaninglessScheduling[] = {{"maxWaitTime", kService},
                                                  {"priority", kService},
                                                  {"strategy", kService},
                                                  {"resilientToWorkerRestart", "workers may always be started again"}};

// Tiers of AI Platform that are a size of ours with other machines.
constexpr Meaningless kMachinesOfTier[] = {{"BASIC_GPU", "runs as BASIC, whose workers take the devices they find"},
                                           {"BASIC_TPU", "runs as BASIC, without a TPU"}};

class Reader {
 public:
  Reader(const std::string& file, JobErrors& errors, bool has_module)
      : file_(file), errors_(errors), has_module_(has_module) {}

  TrainingInput Read(const YamlNode& root) {
    if (const YamlNode* labels = root.Find("labels")) WarnOfNothing(*labels, "labels", kService);
    const YamlNode* node = root.Find(kSection);
    if (node == nullptr) {
      errors_.Add(root, kSection, "is missing");
      return std::move(input_);
    }
    MapReader reader(*node, kSection, errors_);
    ReadSize(reader);
    ReadScheduling(reader);
    ReadCode(reader);
    input_.code.has_job_dir = Text(reader, "jobDir", &input_.job_dir);
    if (absl::StrContains(input_.job_dir, "://")) {
      WarnOfNothing(*node->Find("jobDir"), "trainingInput.jobDir", "only folders can be job folders", "use --job-dir");
      input_.job_dir.clear();
    }
    if (const YamlNode* args = reader.Find("args")) ReadArguments(*args);
    for (const auto& [key, why] : kMeaningless) WarnIfThere(reader, key, why);
    reader.Finish();
    std::stable_sort(input_.warnings.begin(), input_.warnings.end(), [](const JobError& a, const JobError& b) {
      return std::pair(a.line, a.column) < std::pair(b.line, b.column);
    });
    return std::move(input_);
  }

 private:
  void Warn(const YamlNode& at, const std::string& key, const std::string& what, const std::string& remedy = "") {
    input_.warnings.push_back({file_, at.line, at.column, key, what, remedy});
  }
  void WarnOfNothing(const YamlNode& at, const std::string& key, const std::string& why,
                     const std::string& remedy = "") {
    Warn(at, key, "has no meaning here: " + why, remedy);
  }
  void WarnIfThere(MapReader& reader, const std::string& key, const std::string& why) {
    if (const YamlNode* value = reader.Find(key)) WarnOfNothing(*value, reader.PathOf(key), why);
  }

  void Set(const YamlNode& at, std::string entry) {
    input_.cluster_and_scheduling.push_back({std::move(entry), at.line});
  }

  // 64-bit numbers are text in AI Platform's JSON.
  std::optional<int64_t> Count(MapReader& reader, const std::string& key) {
    const YamlNode* value = reader.Find(key);
    if (value == nullptr) return std::nullopt;
    YamlNode plain = *value;
    plain.quoted = false;
    int64_t count = 0;
    if (!ReadInteger(plain, reader.PathOf(key), errors_, 0, kMostTasks - 1, &count)) return std::nullopt;
    return count;
  }

  void ReadSize(MapReader& reader) {
    const std::vector<std::string> tiers = KnownTiers();
    const int chosen = reader.Choose("scaleTier", tiers);
    const std::optional<int64_t> workers = Count(reader, "workerCount");
    const std::optional<int64_t> servers = Count(reader, "parameterServerCount");
    const YamlNode* said = reader.node().Find("scaleTier");
    if (said != nullptr && chosen < 0) return;
    const TierHere tier = WhatTierIsHere(said == nullptr ? kCustomTier : tiers[chosen]);
    if (tier.name == kCustomTier) {
      if (said != nullptr || workers || servers) SetCounts(reader, workers.value_or(0), servers.value_or(0));
      return;
    }
    for (const char* key : {"workerCount", "parameterServerCount"}) {
      const YamlNode* count = reader.node().Find(key);
      if (count != nullptr) reader.Fail(*count, key, absl::StrCat("means something only with scaleTier ", kCustomTier));
    }
    if (!tier.why.empty()) Warn(*said, reader.PathOf("scaleTier"), tier.why);
    Set(*said, absl::StrCat("cluster={scaleTier: ", tier.name, "}"));
  }

  void SetCounts(MapReader& reader, int64_t workers, int64_t servers) {
    const auto place = [&](const char* key) -> const YamlNode& {
      const YamlNode* said = reader.node().Find(key);
      return said != nullptr ? *said : reader.node();
    };
    if (servers == 0) {
      Warn(place("parameterServerCount"), reader.PathOf("parameterServerCount"),
           "0 is taken for 1, since parameter servers hold the model");
      servers = 1;
    }
    Set(place("scaleTier"), absl::StrCat("cluster={scaleTier: ", kCustomTier, "}"));
    Set(place("workerCount"), absl::StrCat("cluster.workerCount=", workers + 1));
    Set(place("parameterServerCount"), absl::StrCat("cluster.parameterServerCount=", servers));
  }

  void ReadScheduling(MapReader& reader) {
    std::chrono::nanoseconds limit{};
    const YamlNode* limited = nullptr;
    if (const YamlNode* node = reader.Find("scheduling")) {
      MapReader scheduling(*node, reader.PathOf("scheduling"), errors_);
      if (scheduling.Duration("maxRunningTime", &limit)) limited = node->Find("maxRunningTime");
      for (const auto& [key, why] : kMeaninglessScheduling) WarnIfThere(scheduling, key, why);
      scheduling.Finish();
    }
    if (const YamlNode* old = reader.Find("maxRunningTime")) {
      Warn(*old, reader.PathOf("maxRunningTime"),
           limited != nullptr ? "is ignored beside scheduling.maxRunningTime"
                              : "is obeyed; its place is scheduling.maxRunningTime");
      if (limited == nullptr && reader.Duration("maxRunningTime", &limit)) limited = old;
    }
    if (limited != nullptr) Set(*limited, absl::StrCat("scheduling={maxRunningTime: ", limit.count(), "ns}"));
  }

  // As it was written, a bare number or boolean too, as the service takes it.
  bool Text(const YamlNode& value, const std::string& place, std::string* out) {
    YamlNode text = value;
    text.quoted = true;
    return ReadText(text, place, errors_, out);
  }
  bool Text(MapReader& reader, const std::string& key, std::string* out) {
    const YamlNode* value = reader.Find(key);
    return value != nullptr && Text(*value, reader.PathOf(key), out);
  }

  void ReadCode(MapReader& reader) {
    if (Text(reader, "pythonModule", &input_.code.module)) has_module_ = true;
    const YamlNode* uris = reader.Find("packageUris");
    if (uris == nullptr || (uris->Is(YamlNode::Kind::kSequence) && uris->items.empty())) return;
    const std::string path = reader.PathOf("packageUris");
    for (const YamlNode& item : ItemsOf(uris, path, kMostPackages, errors_)) {
      std::string uri;
      if (Text(item, absl::StrCat(path, ".", input_.code.packages.size()), &uri)) {
        input_.code.packages.push_back({uri, item.line});
      }
    }
  }

  void ReadArguments(const YamlNode& node) {
    const std::string path = absl::StrCat(kSection, ".args");
    if (!node.Is(YamlNode::Kind::kSequence)) {
      return errors_.Add(node, path, absl::StrCat("must be a list of words, but is ", Describe(node)));
    }
    bool value_follows = false;
    for (size_t i = 0; i < node.items.size(); ++i) {
      const YamlNode& item = node.items[i];
      const std::string place = absl::StrCat(path, ".", i);
      if (!item.Is(YamlNode::Kind::kScalar)) {
        errors_.Add(item, place, absl::StrCat("must be a word, but is ", Describe(item)));
      } else if (has_module_) {
        input_.code.args.push_back(item.text);
      } else if (std::exchange(value_follows, false)) {
        input_.arguments.push_back({item.text, item.line});
      } else if (item.text == "--set") {
        value_follows = true;
      } else if (absl::StartsWith(item.text, "--set=")) {
        input_.arguments.push_back({item.text.substr(6), item.line});
      } else {
        WarnOfNothing(item, place, absl::StrCat(CleanText(item.text, 64), " is no --set KEY=VALUE"));
      }
    }
    if (value_follows) errors_.Add(node, path, "end with --set, which needs KEY=VALUE after it");
  }

  const std::string& file_;
  JobErrors& errors_;
  bool has_module_;
  TrainingInput input_;
};

void PutAt(YamlNode& node, const YamlNode& place) {
  node.overridden = false;
  node.line = place.line;
  node.column = place.column;
  for (YamlEntry& entry : node.entries) {
    entry.line = place.line;
    entry.column = place.column;
    PutAt(entry.value, place);
  }
}

}  // namespace

std::vector<std::string> KnownTiers() {
  std::vector<std::string> tiers;
  for (const ScaleTier& tier : kScaleTiers) tiers.push_back(tier.name);
  tiers.push_back(kCustomTier);
  for (const auto& [tier, why] : kMachinesOfTier) tiers.push_back(tier);
  return tiers;
}

TierHere WhatTierIsHere(const std::string& tier) {
  for (const auto& [name, why] : kMachinesOfTier) {
    if (tier == name) return {kScaleTiers[0].name, absl::StrCat(name, " ", why)};
  }
  return {tier, ""};
}

TrainingInput ReadTrainingInput(const YamlNode& root, const std::string& file, JobErrors& errors, bool has_module) {
  return Reader(file, errors, has_module).Read(root);
}

TrainingInput ReplaceTrainingInput(YamlNode& root, const std::string& file, JobErrors& errors) {
  TrainingInput input = ReadTrainingInput(root, file, errors);
  const YamlNode place = *root.Find(kSection);
  for (YamlEntry& entry : root.entries) {
    if (entry.key == "jobId" && root.Find("name") == nullptr) entry.key = "name";
  }
  std::erase_if(root.entries, [](const YamlEntry& entry) {
    return entry.key == kSection || entry.key == "labels" || entry.key == "jobId";
  });
  for (const std::string key : {"cluster", "scheduling"}) {
    if (const YamlNode* twice = root.Find(key))
      errors.Add(*twice, key, "is said by trainingInput", "leave one of them out");
  }
  for (const PlacedEntry& placed : input.cluster_and_scheduling) ApplyOverrides({placed.entry}, root, errors);
  for (YamlEntry& entry : root.entries) {
    if (entry.value.overridden) PutAt(entry.value, place);
  }
  return input;
}

}  // namespace downpour
