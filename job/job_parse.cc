#include "job/job_parse.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "job/variables.h"

namespace downpour {
namespace {

const YamlNode& EmptyMap() {
  static const YamlNode* const empty = [] {
    auto* node = new YamlNode;
    node->kind = YamlNode::Kind::kMap;
    return node;
  }();
  return *empty;
}

// The map under a key, or an empty one, so that defaults come from one place.
const YamlNode& Section(MapReader& parent, const std::string& key) {
  const YamlNode* node = parent.Find(key);
  return node == nullptr ? EmptyMap() : *node;
}

void ReadCluster(const YamlNode& node, JobErrors& errors, ClusterSpec* cluster) {
  MapReader reader(node, "cluster", errors);
  std::vector<std::string> tiers;
  for (const ScaleTier& tier : kScaleTiers) tiers.push_back(tier.name);
  tiers.push_back(kCustomTier);
  const int chosen = reader.Choose("scaleTier", tiers);
  if (chosen >= 0) cluster->scale_tier = tiers[chosen];
  reader.Integer("workerCount", 1, kMostTasks, &cluster->worker_count);
  reader.Integer("parameterServerCount", 1, kMostTasks, &cluster->parameter_server_count);
  reader.Finish();
  if (cluster->scale_tier == kCustomTier) return;

  for (const std::string key : {"workerCount", "parameterServerCount"}) {
    const YamlNode* count = node.Find(key);
    if (count != nullptr)
      reader.Fail(*count, key, absl::StrCat("is fixed by scaleTier ", cluster->scale_tier),
                  "leave it out or take scaleTier CUSTOM");
  }
  cluster->worker_count = kScaleTiers[chosen].workers;
  cluster->parameter_server_count = kScaleTiers[chosen].parameter_servers;
}

void ReadStaleness(const YamlNode& node, JobErrors& errors, TrainingSpec* training) {
  MapReader reader(node, "training.staleness", errors);
  reader.Choice("method", kStalenessMethods, &training->staleness_method);
  const bool is_local = training->local_steps > 0;
  const OptimizerKind kind = (is_local ? training->outer : training->optimizer).kind;
  const std::string actual =
      absl::StrCat("but training.", is_local ? "outer" : "optimizer", ".name is ", NameIn(kOptimizers, kind));
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    reader.Fail(*node.Find("method"), "method", what, remedy);
  };
  const bool may_remember = RemembersGradients(kind) || (kind == OptimizerKind::kSgd && !is_local);
  if (training->staleness_method == StalenessMethod::kSlowMomentum && !may_remember) {
    refuse(absl::StrCat("slowMomentum needs an optimizer that can remember gradients, ", actual),
           is_local ? "use auto, rate or none, or an outer momentum or nesterov"
                    : "use auto, rate or none, or the optimizer sgd, momentum, nesterov, adam or adamw");
  }
  if (training->staleness_method != StalenessMethod::kSteepRate) return reader.Finish();
  if (is_local) {
    refuse("with local steps it is rate that counts less where the loss is steep", "use auto or rate");
  } else if (RemembersGradients(kind)) {
    refuse(absl::StrCat("steepRate needs the optimizer sgd, rmsprop, adagrad or ftrl, ", actual),
           "use auto, rate or none");
  }
  reader.Finish();
}

// How many pushes one group has follows from the cluster, unless it is given: it belongs to the plan.
// False: what it is to be is not known, so that nothing is wrong with what has a meaning only with one of them.
bool ReadConsistency(MapReader& reader, const YamlNode& node, int64_t workers, TrainingSpec* training) {
  const bool is_known =
      reader.Choice("consistency", kConsistencies, &training->consistency) || node.Find("consistency") == nullptr;
  const Consistency consistency = training->consistency;
  const auto only_with = [&](const char* key, bool is_so, const char* needed) {
    const std::string actual = absl::StrCat("that is ", NameIn(kConsistencies, consistency));
    if (is_known && !is_so) reader.FailOnlyWith(key, absl::StrCat("consistency: ", needed), actual);
  };
  only_with("sspBound", consistency == Consistency::kSsp, "ssp");
  only_with("backupWorkers", consistency == Consistency::kSync, "sync");
  only_with("groupSize", consistency != Consistency::kAsync, "ssp or sync");
  reader.Integer("sspBound", 1, 1'000'000, &training->ssp_bound);
  if (reader.Integer("backupWorkers", 0, kMostTasks, &training->backup_workers) &&
      training->backup_workers >= workers) {
    reader.Fail(*node.Find("backupWorkers"), "backupWorkers",
                absl::StrCat("must be fewer than the job's workers, of which there are ", workers));
  }
  training->group_size = std::max<int64_t>(1, workers - training->backup_workers);
  reader.Integer("groupSize", 1, kMostTasks, &training->group_size);
  int64_t most = 0;
  if (reader.Integer("maxStaleness", 0, kMostCount, &most)) training->max_staleness = most;
  if (consistency == Consistency::kAsync) training->group_size = 1;
  reader.Flag("pullAhead", &training->pull_ahead);
  if (consistency != Consistency::kSync) return is_known;
  if (const YamlNode* value = node.Find("maxStaleness")) {
    reader.Fail(*value, "maxStaleness", "with consistency: sync no gradient is stale", "leave it out");
  }
  if (training->pull_ahead) {
    reader.Fail(*node.Find("pullAhead"), "pullAhead",
                "what is pulled ahead is stale, and with consistency: sync nothing is",
                "leave it out, or use ssp or async");
  }
  return is_known;
}

// How many batches one step has. Returns the key that says so, if any does.
const char* ReadStep(MapReader& reader, const YamlNode& node, bool consistency_is_known, TrainingSpec* training) {
  const bool is_pushed = reader.Integer("pushEvery", 1, int64_t{1} << 20, &training->push_every);
  reader.Integer("localSteps", 0, int64_t{1} << 20, &training->local_steps);
  if (training->local_steps == 0) return is_pushed ? "pushEvery" : nullptr;
  if (const YamlNode* value = node.Find("pushEvery")) {
    reader.Fail(*value, "pushEvery",
                absl::StrCat("with localSteps a push is for ", training->local_steps, " batches already"),
                "leave one of the two out: pushEvery sums gradients up, localSteps takes steps with them");
    training->push_every = 1;
  }
  if (consistency_is_known && training->consistency == Consistency::kSync) {
    reader.Fail(*node.Find("localSteps"), "localSteps",
                "with consistency: sync each gradient is of the same parameters, and local steps move away from them",
                "use async or ssp, or pushEvery in its place");
  }
  return "localSteps";
}

// With ssp and sync leases of one step each, so that whoever is free takes the next one of a group.
void ReadLease(MapReader& reader, const YamlNode& node, bool consistency_is_known, TrainingSpec* training) {
  const char* step = ReadStep(reader, node, consistency_is_known, training);
  const bool in_groups = training->consistency != Consistency::kAsync;
  if (in_groups) training->lease_batches = training->step_batches();
  const bool leases = reader.Integer("leaseBatches", 1, int64_t{1} << 20, &training->lease_batches);
  if (in_groups && leases && training->lease_batches != training->step_batches()) {
    reader.Fail(*node.Find("leaseBatches"), "leaseBatches",
                absl::StrCat("is ", step == nullptr ? "pushEvery" : step, ", ", training->step_batches(),
                             ", with consistency: ", NameIn(kConsistencies, training->consistency)),
                "leave it out");
  } else if (step != nullptr && consistency_is_known && training->step_batches() > training->lease_batches) {
    reader.Fail(*node.Find(step), step,
                absl::StrCat("a push holds batches of one lease, which has ", training->lease_batches),
                "take that at most, or raise leaseBatches");
  }
}

void ReadOuterOf(MapReader& reader, JobErrors& errors, TrainingSpec* training) {
  const YamlNode* outer = reader.Find("outer");
  if (outer == nullptr) return;
  ReadOuter(*outer, errors, &training->outer);
  if (training->local_steps > 0) return;
  reader.FailOnlyWith("outer", "localSteps", "there are none");
  training->outer = TrainingSpec().outer;
}

void ReadEarlier(MapReader& training, JobErrors& errors, std::vector<EarlierEpochs>* all) {
  const std::string list = training.PathOf("earlier");
  for (const YamlNode& item : MaybeItemsOf(training.Find("earlier"), list, kMostEarlier, errors)) {
    EarlierEpochs earlier;
    int64_t examples = 0;
    const int64_t before = all->empty() ? 0 : all->back().epochs;
    MapReader reader(item, absl::StrCat(list, ".", all->size()), errors);
    if (reader.Require("epochs") != nullptr) reader.Integer("epochs", before + 1, kMostEpochs, &earlier.epochs);
    if (reader.Require("examples") != nullptr) reader.Integer("examples", 1, kMostCount, &examples);
    if (reader.Require("fingerprint") != nullptr) reader.Seed("fingerprint", &earlier.fingerprint);
    reader.Finish();
    earlier.examples = static_cast<uint64_t>(examples);
    all->push_back(earlier);
  }
}

// `job`: its cluster and its model.
void ReadTraining(const YamlNode& node, const JobSpec& job, JobErrors& errors, TrainingSpec* training) {
  MapReader reader(node, "training", errors);
  const bool consistency_is_known = ReadConsistency(reader, node, job.cluster.worker_count, training);
  reader.FailElsewhere("replicas", absl::StrCat("is no key any more: ", kOneCopy), "leave it out");
  reader.Integer("batchSize", 1, int64_t{1} << 20, &training->batch_size);
  reader.Integer("epochs", 1, kMostEpochs, &training->epochs);
  ReadEarlier(reader, errors, &training->earlier);
  ReadLease(reader, node, consistency_is_known, training);
  reader.Integer("evaluateEveryEpochs", 0, 1'000'000, &training->evaluate_every_epochs);
  reader.Find("stopEarly");  // read when all that it rests on is
  reader.Integer("maxSkippedPushes", 0, kMostCount, &training->max_skipped_pushes);
  reader.Choice("precision", kPrecisions, &training->precision);
  reader.Choice("wire", kWireFormats, &training->wire);
  ReadOptimizer(Section(reader, "optimizer"), job.model, errors, &training->optimizer);
  ReadOuterOf(reader, errors, training);
  ReadStaleness(Section(reader, "staleness"), errors, training);
  ReadMetrics(reader.Find("metrics"), reader.PathOf("metrics"), job, errors, &training->metrics);
  reader.Finish();
}

void ReadCheckpoint(const YamlNode& node, const JobSpec& job, JobErrors& errors, CheckpointSpec* checkpoint) {
  MapReader reader(node, "checkpoint", errors);
  reader.DurationOrAuto("every", &checkpoint->every);
  reader.Integer("keep", 1, 1'000, &checkpoint->keep);
  reader.Choice("via", kCheckpointVias, &checkpoint->via);
  if (job.training.stop_early) checkpoint->best = job.training.stop_early->metric;
  std::vector<std::string> names = ComparableMetrics(job);
  names.push_back(kNoBest);
  if (const int chosen = reader.Choose("best", names); chosen >= 0) checkpoint->best = names[chosen];
  reader.Finish();
}

void ReadScheduling(const YamlNode& node, JobErrors& errors, SchedulingSpec* scheduling) {
  MapReader reader(node, "scheduling", errors);
  reader.Duration("maxRunningTime", &scheduling->max_running_time);
  reader.Finish();
}

void ReadTiming(const YamlNode& node, JobErrors& errors, TimingSpec* timing) {
  MapReader reader(node, "timing", errors);
  reader.Duration("serverWait", &timing->server_wait);
  reader.Duration("chiefWait", &timing->chief_wait);
  reader.Finish();
}

}  // namespace

void ReadJob(const YamlNode& root, JobErrors& errors, JobSpec* job) {
  MapReader reader(root, "", errors);
  if (reader.Require("name") != nullptr) reader.Name("name", &job->name);
  reader.Seed("seed", &job->seed);
  ReadCluster(Section(reader, "cluster"), errors, &job->cluster);
  if (const YamlNode* python = reader.Find("python")) ReadPython(*python, errors, &job->python);
  const YamlNode* model = reader.Require("model");
  if (const YamlNode* data = reader.Require("data")) ReadData(*data, errors, &job->data);
  if (model != nullptr) ReadModel(*model, "model", job->data, errors, &job->model);
  if (job->data.has_records() && job->data.label.is_there() && !job->model.is_own()) {
    CheckLabel(*root.Find("data")->Find("label"), job->model, errors, &job->data.label);
  }
  ReadTraining(Section(reader, "training"), *job, errors, &job->training);
  const YamlNode* training = root.Find("training");
  const YamlNode* stop = training == nullptr ? nullptr : training->Find("stopEarly");
  if (stop != nullptr) ReadStopEarly(*stop, *job, errors, &job->training.stop_early);
  ReadCheckpoint(Section(reader, "checkpoint"), *job, errors, &job->checkpoint);
  ReadScheduling(Section(reader, "scheduling"), errors, &job->scheduling);
  ReadTiming(Section(reader, "timing"), errors, &job->timing);
  reader.Finish();
  CheckOwnModel(root, *job, errors);
  CheckTables(root, *job, errors);
  if (job->model.inputs.size() > 1 && !job->data.has_records()) {
    errors.Add(*model->Find("inputs"), "model.inputs", "has several inputs, but data of format idx feed one");
  }
}

}  // namespace downpour
