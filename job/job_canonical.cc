#include <nlohmann/json.hpp>
#include <set>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "job/job_file.h"
#include "job/job_names.h"

namespace downpour {
namespace {

using Json = nlohmann::json;  // its objects are sorted by key

Json OfInputs(const std::vector<InputSpec>& inputs) {
  Json list = Json::array();
  for (const InputSpec& input : inputs) {
    const bool of_columns = !input.columns.empty();  // which give the shape
    list.push_back({{"name", input.name},
                    of_columns ? Json::object_t::value_type("columns", input.columns)
                               : Json::object_t::value_type("shape", input.shape)});
  }
  return list;
}

// The settings of each kind of layer. A kind that is missing here does not compile.
Json OfSettings(const DenseSpec& dense) {
  return {{"units", dense.units}, {"activation", NameIn(kActivations, dense.activation)}, {"bias", dense.bias}};
}
Json OfSettings(const ActivationSpec& activation) {
  return {{"function", NameIn(kActivationFunctions, activation.function)}};
}
Json OfSettings(const DropoutSpec& dropout) { return {{"rate", dropout.rate}}; }
Json OfSettings(const AddSpec&) { return Json::object(); }
Json OfSettings(const MultiplySpec&) { return Json::object(); }
Json OfSettings(const DotSpec&) { return Json::object(); }
Json OfSettings(const ConcatSpec&) { return Json::object(); }
Json OfSettings(const EmbeddingSpec& embedding) {
  return {{"table", embedding.table},
          {"columns", embedding.columns},
          {"pooling", NameIn(kPoolings, embedding.pooling)},
          {"join", NameIn(kEmbeddingJoins, embedding.adds)}};
}

Json OfLayer(const LayerSpec& layer) {
  Json json = {{"name", layer.name}};
  if (!layer.from.empty()) json["from"] = layer.from;
  std::visit([&json](const auto& op) { json[KeyOf(op)] = OfSettings(op); }, layer.op);
  return json;
}

Json OfSchedule(const ScheduleSpec& schedule) {
  Json json = {{"name", NameIn(kSchedules, schedule.kind)}, {"warmupSteps", schedule.warmup_steps}};
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
    case ScheduleKind::kInverseSquareRoot:
      break;
    case ScheduleKind::kStep:
      json["stepEvery"] = schedule.step_every;
      json["decay"] = schedule.decay;
      break;
    case ScheduleKind::kCosine:
      json["finalShare"] = schedule.final_share;
      json["totalSteps"] = schedule.total_steps;
      break;
  }
  return json;
}

// `common`: the numbers that it has whatever its kind is.
Json OfRule(const OptimizerSpec& optimizer, const std::vector<OptimizerNumber>& common) {
  Json json = {{"name", NameIn(kOptimizers, optimizer.kind)}, {"schedule", OfSchedule(optimizer.schedule)}};
  for (const OptimizerNumber& number : common) json[number.key] = optimizer.*number.at;
  for (const OptimizerNumber& number : NumbersOf(optimizer.kind)) json[number.key] = optimizer.*number.at;
  return json;
}

Json OfOptimizer(const OptimizerSpec& optimizer) {
  Json json = OfRule(optimizer, CommonNumbers());
  for (const OptimizerOverride& its : optimizer.overrides) {
    Json entry = {{"variables", its.variables}};
    if (its.learning_rate) entry["learningRate"] = *its.learning_rate;
    if (its.weight_decay) entry["weightDecay"] = *its.weight_decay;
    json["overrides"].push_back(entry);
  }
  return json;
}

Json OfOuter(const OptimizerSpec& outer) {
  Json json = {{"name", NameIn(kOuterOptimizers, outer.kind)}, {"learningRate", outer.learning_rate}};
  for (const OptimizerNumber& number : NumbersOf(outer.kind)) json[number.key] = outer.*number.at;
  return json;
}

// Of the settings of one consistency those of the others are absent: the parser would refuse them.
Json OfTraining(const TrainingSpec& training) {
  Json json = {{"consistency", NameIn(kConsistencies, training.consistency)},
               {"batchSize", training.batch_size},
               {"epochs", training.epochs},
               {"leaseBatches", training.lease_batches},
               {"pullAhead", training.pull_ahead},
               {"evaluateEveryEpochs", training.evaluate_every_epochs},
               {"maxSkippedPushes", training.max_skipped_pushes},
               {"precision", NameIn(kPrecisions, training.precision)},
               {"wire", NameIn(kWireFormats, training.wire)},
               {"staleness", {{"method", NameIn(kStalenessMethods, training.staleness_method)}}},
               {"optimizer", OfOptimizer(training.optimizer)}};
  for (const EarlierEpochs& earlier : training.earlier) {
    json["earlier"].push_back(
        {{"epochs", earlier.epochs}, {"examples", earlier.examples}, {"fingerprint", earlier.fingerprint}});
  }
  if (training.local_steps > 0) {
    json["localSteps"] = training.local_steps;
    json["outer"] = OfOuter(training.outer);
  } else {
    json["pushEvery"] = training.push_every;
  }
  if (const auto& stop = training.stop_early) {
    json["stopEarly"] = {{"metric", stop->metric}, {"patience", stop->patience}, {"minDelta", stop->min_delta}};
  }
  for (const MetricSpec& metric : training.metrics) json["metrics"].push_back(NameOf(metric));
  if (training.consistency != Consistency::kAsync) json["groupSize"] = training.group_size;
  if (training.consistency == Consistency::kSsp) json["sspBound"] = training.ssp_bound;
  if (training.consistency == Consistency::kSync) json["backupWorkers"] = training.backup_workers;
  if (training.max_staleness) json["maxStaleness"] = *training.max_staleness;
  return json;
}

Json OfOwnMetric(const MetricSpec& metric) {
  Json json = {{"name", metric.name}, {"kind", NameIn(kOwnMetrics, metric.kind)}};
  if (metric.better != Better::kUnknown) json["better"] = NameIn(kBetter, metric.better);
  return json;
}

Json OfCluster(const ClusterSpec& cluster) {
  Json json = {{"scaleTier", cluster.scale_tier}};
  if (cluster.scale_tier == kCustomTier) {
    json["workerCount"] = cluster.worker_count;
    json["parameterServerCount"] = cluster.parameter_server_count;
  }
  return json;
}

Json OfColumn(const ColumnSpec& column) {
  Json json = {{"name", column.name}, {"from", column.from}};
  if (column.fill) json["default"] = *column.fill;
  switch (column.kind) {
    case ColumnKind::kNumber:
      if (column.numbers > 1) json["width"] = column.numbers;
      if (column.least) json["clip"] = {*column.least, *column.most};
      if (column.log) json["log"] = true;
      if (column.mean != 0 || column.deviation != 1)
        json["scale"] = {{"mean", column.mean}, {"deviation", column.deviation}};
      break;
    case ColumnKind::kBuckets:
      json["buckets"] = column.boundaries;
      break;
    case ColumnKind::kVocabulary:
      json["vocabulary"] = column.vocabulary;
      break;
    case ColumnKind::kHash:
      json["hash"] = column.hash;
      break;
    case ColumnKind::kKey:
      json["key"] = NameIn(kKeyTypes, column.key_is_text);
      if (column.numbers > 1) json["width"] = column.numbers;
      break;
  }
  return json;
}

void AddRecords(const DataSpec& data, Json* json) {
  Json columns = Json::array();
  for (const ColumnSpec& column : data.columns) columns.push_back(OfColumn(column));
  (*json)["columns"] = std::move(columns);
  if (data.label.of_outputs.empty()) {
    (*json)["label"] = {{"column", data.label.column}};
  } else {
    (*json)["label"] = {{"columns", data.label.of_outputs}};
  }
  if (data.label.is_multiple) (*json)["label"]["multiple"] = true;
  if (data.label.separator) (*json)["label"]["separator"] = std::string(1, *data.label.separator);
  if (!data.label.classes.empty()) (*json)["label"]["classes"] = data.label.classes;
  if (data.label.mean != 0 || data.label.deviation != 1) {
    (*json)["label"]["scale"] = {{"mean", data.label.mean}, {"deviation", data.label.deviation}};
  }
  if (data.is_weighted()) (*json)["weight"] = data.weight;
  if (data.decimal != '.') (*json)["decimal"] = std::string(1, data.decimal);
  (*json)["skip"] = data.skip;
  if (data.separator) (*json)["separator"] = std::string(1, *data.separator);
  if (data.header) (*json)["header"] = *data.header;
  if (!data.fields.empty()) (*json)["fields"] = data.fields;
}

Json OfData(const DataSpec& data) {
  Json json = {{"format", data.format}};
  const bool is_usual = data.order == (data.has_records() ? DataOrder::kBlocks : DataOrder::kExamples);
  if (!is_usual) json["order"] = NameIn(kDataOrders, data.order);
  if (data.order == DataOrder::kBlocks) json["blockExamples"] = data.block_examples;
  if (data.format == kPythonFormat) {
    json["trainExamples"] = data.train_examples;
    json["evalExamples"] = data.eval_examples;
    return json;
  }
  if (data.has_records()) AddRecords(data, &json);
  const auto files_of = [&](const SetFiles& set) {
    return data.has_records() ? Json{{"files", set.files}} : Json{{"images", set.images}, {"labels", set.labels}};
  };
  json["train"] = files_of(data.train);
  if (!data.eval.empty()) json["eval"] = files_of(data.eval);
  return json;
}

Json OfTable(const ModelTable& table) {
  Json json = {{"name", table.name},
               {"width", table.width},
               {"optimizer", OfRule(table.optimizer, RowNumbers())},
               {"initializer", table.initial == 0 ? Json(kZeros) : Json{{"uniform", table.initial}}},
               {"admitAfter", table.admit_after},
               {"evictAfter", table.evict_after},
               {"maxRows", table.max_rows},
               {"precision", NameIn(kTablePrecisions, table.halves)}};
  if (table.row_wise) json["optimizer"]["rowWise"] = true;
  return json;
}

void AddTables(const ModelSpec& model, Json* json) {
  for (const ModelTable& table : model.tables) (*json)["tables"].push_back(OfTable(table));
  if (model.has_tables()) (*json)["tableBuckets"] = model.table_buckets;
}

Json OfModel(const ModelSpec& model) {
  if (model.is_own()) {
    Json variables = Json::array();
    for (const OwnVariableSpec& variable : model.variables) {
      variables.push_back({{"name", variable.name}, {"shape", variable.shape}, {"trainable", variable.trainable}});
    }
    Json json = {{"variables", variables}, {"classes", model.classes}, {"initializeFrom", model.initialize_from}};
    AddTables(model, &json);
    return json;
  }
  Json layers = Json::array();
  for (const LayerSpec& layer : model.layers) layers.push_back(OfLayer(layer));
  Json json = {{"inputs", OfInputs(model.inputs)}, {"layers", layers}, {"loss", NameIn(kLosses, model.loss)}};
  AddTables(model, &json);
  if (!model.initialize_from.empty()) json["initializeFrom"] = model.initialize_from;
  return json;
}

// In the largest unit that gives a whole number.
std::string OfDuration(std::chrono::nanoseconds duration) {
  const int64_t n = duration.count();
  if (n % 1'000'000'000 == 0) return std::to_string(n / 1'000'000'000) + "s";
  if (n % 1'000'000 == 0) return std::to_string(n / 1'000'000) + "ms";
  return std::to_string(n) + "ns";
}

}  // namespace

std::string CanonicalJob(const JobSpec& job) {
  Json json = {
      {"name", job.name},
      {"seed", job.seed},
      {"cluster", OfCluster(job.cluster)},
      {"model", OfModel(job.model)},
      {"training", OfTraining(job.training)},
      {"data", OfData(job.data)},
      {"checkpoint",
       {{"every", job.checkpoint.every ? OfDuration(*job.checkpoint.every) : kAuto},
        {"keep", job.checkpoint.keep},
        {"best", job.checkpoint.best},
        {"via", NameIn(kCheckpointVias, job.checkpoint.via)}}},
      {"scheduling", {{"maxRunningTime", OfDuration(job.scheduling.max_running_time)}}},
      {"timing",
       {{"serverWait", OfDuration(job.timing.server_wait)}, {"chiefWait", OfDuration(job.timing.chief_wait)}}}};
  const PythonSpec& python = job.python;
  if (!python.module.empty()) {
    json["python"] = {
        {"module", python.module}, {"sha256", python.sha256}, {"bytes", python.bytes}, {"args", python.args}};
    for (const MetricSpec& metric : python.metrics) json["python"]["metrics"].push_back(OfOwnMetric(metric));
  }
  return json.dump();
}

std::vector<std::string> JobChanges(const JobSpec& before, const JobSpec& now) {
  const Json old_values = Json::parse(CanonicalJob(before)).flatten(),
             new_values = Json::parse(CanonicalJob(now)).flatten();
  std::set<std::string> places;
  for (const Json* values : {&old_values, &new_values}) {
    for (const auto& [place, value] : values->items()) places.insert(place);
  }
  const auto show = [](const Json& values, const std::string& place) {
    const auto found = values.find(place);
    return found == values.end() ? std::string("none") : found->dump();
  };
  std::vector<std::string> changes;
  for (const std::string& place : places) {
    const std::string from = show(old_values, place), to = show(new_values, place);
    if (from == to) continue;
    changes.push_back(absl::StrCat(absl::StrReplaceAll(place.substr(1), {{"/", "."}}), " ", from, " -> ", to));
  }
  return changes;
}

}  // namespace downpour
