// Steps of models with tables: which rows they ask for, and the gradients of those rows, against finite differences of
// a model in double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "runtime/row_frames.h"
#include "tests/parity/deferred_backend.h"
#include "tests/unit/model/reference_model.h"
#include "tests/unit/model/trainer_fixture.h"

namespace downpour {
namespace {

using testing::HasSubstr;
using RowName = std::pair<size_t, uint64_t>;  // table, key
using RowMap = std::map<RowName, std::vector<double>>;

constexpr int64_t kWords = 6;
constexpr size_t kTrainExamples = 21;
constexpr size_t kEvalExamples = 10;

// Of an example, as the file has it.
struct Example {
  float x = 0;
  std::map<std::string, uint64_t> keys;
  int32_t label = 0;
};

std::vector<Example> Draw(size_t count, uint64_t seed) {
  Prng random(seed);
  std::vector<Example> examples(count);
  for (Example& example : examples) {
    example.x = static_cast<float>(random.Below(16)) / 8;
    for (const char* column : {"user", "item", "place"}) example.keys[column] = random.Below(kWords);
    example.label = static_cast<int32_t>(random.Below(2));
  }
  examples[0].keys["user"] = examples[0].keys["item"];  // a key twice in an example
  examples[0].label = 1;
  return examples;
}

std::string CsvOf(const std::vector<Example>& examples) {
  std::string csv = "x,user,item,place,label\n";
  for (const Example& example : examples) {
    absl::StrAppend(&csv, example.x);
    for (const char* column : {"user", "item", "place"}) absl::StrAppend(&csv, ",w", example.keys.at(column));
    absl::StrAppend(&csv, ",", example.label, "\n");
  }
  return csv;
}

LayerSpec Embedding(std::string name, std::string table, std::vector<std::string> columns, bool adds = false) {
  return {std::move(name), {}, EmbeddingSpec{std::move(table), std::move(columns), Pooling::kSum, adds}};
}

// Embeddings before, between and behind dense layers, one of them straight to the output; two tables, one shared.
ModelSpec DeepModel() {
  return {.inputs = {{"x", {1}, {"x"}}},
          .layers = {{"first", {"x"}, DenseSpec{3, Activation::kTanh, true}},
                     Embedding("pair", "words", {"user", "item"}),
                     Embedding("again", "words", {"item"}),
                     {"all", {"first", "pair", "again"}, ConcatSpec{}},
                     {"hidden", {"all"}, DenseSpec{4, Activation::kTanh, true}},
                     {"out", {"hidden"}, DenseSpec{2, Activation::kNone, true}},
                     Embedding("wide", "places", {"user", "place", "item"}, true),
                     {"sum", {"out", "wide"}, AddSpec{}}}};
}

// Without any variable, and with an embedding as the output.
ModelSpec AddedModel() {
  return {.inputs = {},
          .layers = {Embedding("one", "places", {"user", "place"}, true),
                     Embedding("other", "places", {"item"}),
                     {"sum", {"one", "other"}, AddSpec{}}}};
}
ModelSpec SingleModel() {
  return {.inputs = {}, .layers = {Embedding("only", "places", {"user", "item", "place"}, true)}};
}
// Backward goes on behind the first layer with variables.
ModelSpec PlainModel() {
  return {.inputs = {},
          .layers = {Embedding("pair", "words", {"user", "item"}),
                     {"act", {"pair"}, ActivationSpec{Activation::kTanh}},
                     {"out", {"act"}, DenseSpec{2, Activation::kNone, false}}}};
}

struct TablesCase {
  std::string name;
  ModelSpec model;
  bool on_device = false;
  int64_t push_every = 1;
};

std::vector<TablesCase> TablesCases() {
  std::vector<TablesCase> cases;
  for (const auto& [name, model] : std::vector<std::pair<std::string, ModelSpec>>{
           {"Deep", DeepModel()}, {"Added", AddedModel()}, {"Single", SingleModel()}, {"Plain", PlainModel()}}) {
    for (const bool on_device : {false, true}) {
      for (const int64_t push_every : {1, 3}) {
        cases.push_back({absl::StrCat(name, on_device ? "Device" : "Host", push_every), model, on_device, push_every});
      }
    }
  }
  return cases;
}

class TrainerTablesTest : public TrainerTest, public testing::WithParamInterface<TablesCase> {
 protected:
  TrainerTablesTest() {
    folder_.Write("train.csv", CsvOf(train_));
    folder_.Write("eval.csv", CsvOf(eval_));
    job_.seed = 5;
    job_.model = GetParam().model;
    job_.model.tables = {{.name = "words", .width = 3}, {.name = "places", .width = 2}};
    job_.model.table_buckets = 4;
    job_.data.format = kCsvFormat;
    job_.data.train.files = {folder_.path() + "/train.csv"};
    job_.data.eval.files = {folder_.path() + "/eval.csv"};
    job_.data.columns = {{.name = "x", .from = {"x"}}};
    for (const char* column : {"user", "item", "place"}) {
      ColumnSpec spec{.name = column, .from = {column}, .kind = ColumnKind::kVocabulary};
      for (int64_t word = 0; word + 1 < kWords; ++word) spec.vocabulary.push_back(absl::StrCat("w", word));
      job_.data.columns.push_back(spec);
    }
    job_.data.label.column = "label";
    job_.training.batch_size = 4;
    job_.training.lease_batches = 6;
    job_.training.push_every = GetParam().push_every;
    job_.training.metrics = {{MetricKind::kLogLoss}};
    grid_ = GridOf(job_.model).value();
    plan_ = Plan(job_, kTrainExamples);
    reference_ = {job_.model, {}, true, 0};
    Prng random(7);
    for (const VariableSpec& spec : grid_.variables) {
      std::vector<double>& values = reference_.variables.emplace_back(static_cast<size_t>(spec.elements()));
      for (double& value : values) value = static_cast<float>(random.Uniform() - 0.5);
    }
    for (size_t table = 0; table < grid_.row_widths.size(); ++table) {
      for (uint64_t key = 0; key < kWords; ++key) {
        for (uint32_t i = 0; i < grid_.row_widths[table]; ++i) {
          rows_[{table, key}].push_back(static_cast<float>(random.Uniform() - 0.5));
        }
      }
    }
  }
  void SetUp() override { ASSERT_TRUE(Run(Prepare{job_}).status.ok()); }
  Answer Run(const ComputeRequest& request) { return TrainerTest::Run(*trainer_, request); }

  SliceValues Dense() const {
    SliceValues values;
    for (const Slice& slice : grid_.slices) {
      if (grid_.IsBucket(slice.id)) continue;
      Payload payload = Payload::Allocate(static_cast<size_t>(slice.bytes()));
      for (size_t i = 0; i < payload.mutable_floats().size(); ++i) {
        payload.mutable_floats()[i] = static_cast<float>(reference_.variables[slice.variable][i]);
      }
      values.emplace_back(slice.id, std::move(payload));
    }
    return values;
  }
  template <typename Use>
  static void ForEach(const RowKeys& keys, const Use& use) {
    size_t at = 0;
    for (size_t table = 0; table < keys.counts.size(); ++table) {
      for (uint32_t i = 0; i < keys.counts[table]; ++i) use(RowName(table, keys.keys[at++]));
    }
  }
  SliceValues RowsFor(const SliceValues& frames) const {
    SliceValues values;
    for (const auto& [id, frame] : frames) {
      EXPECT_TRUE(grid_.IsBucket(id));
      const RowKeys keys = UnpackKeys(frame, grid_.row_widths).value();
      Payload payload = Payload::Allocate(RowBytes(keys, grid_.row_widths));
      float* to = payload.mutable_floats().data();
      ForEach(keys, [&](const RowName& name) {
        for (const double number : rows_.at(name)) *to++ = static_cast<float>(number);
      });
      values.emplace_back(id, std::move(payload));
    }
    return values;
  }
  // All that a step or an evaluation needs.
  SliceValues Updates(const FindKeys& find) {
    const Answer answer = Run(find);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    SliceValues updates = RowsFor(std::get<KeysFound>(answer.last).keys);
    for (auto& update : Dense()) updates.push_back(std::move(update));
    return updates;
  }
  Answer Train(LeaseId lease, Step step) {
    return Run(TrainStep{lease, step, Updates({std::pair{lease, step}}), std::pair{lease, step + 1}});
  }
  RowMap RowGradientsOf(const Answer& answer) const {
    RowMap gradients;
    for (const auto& [id, payload] : BySlice(answer)) {
      if (!grid_.IsBucket(id)) continue;
      const RowGradients got = UnpackGradients(payload, grid_.row_widths).value();
      size_t at = 0;
      ForEach(got.rows, [&](const RowName& name) {
        for (size_t i = 0; i < grid_.row_widths[name.first]; ++i) gradients[name].push_back(got.numbers[at++]);
      });
    }
    return gradients;
  }

  double ReferenceLoss(const std::vector<Example>& examples) const {
    ReferenceModel::Rows inputs;
    std::vector<int32_t> labels;
    for (const Example& example : examples) {
      std::vector<double>& numbers = inputs.emplace_back();
      if (!job_.model.inputs.empty()) numbers.push_back(example.x);
      for (const LayerSpec& layer : job_.model.layers) {
        const auto* embedding = std::get_if<EmbeddingSpec>(&layer.op);
        if (embedding == nullptr) continue;
        const size_t table = embedding->table == "words" ? 0 : 1;
        const size_t first = numbers.size();
        for (const std::string& column : embedding->columns) {
          const std::vector<double>& row = rows_.at({table, example.keys.at(column)});
          if (!embedding->adds || numbers.size() == first) {
            numbers.insert(numbers.end(), row.begin(), row.end());
          } else {
            for (size_t i = 0; i < row.size(); ++i) numbers[first + i] += row[i];
          }
        }
      }
      labels.push_back(example.label);
    }
    return reference_.Loss(inputs, labels);
  }
  // Of the examples' mean loss, by central differences.
  double Slope(double* number, const std::vector<Example>& examples) {
    const double kept = *number, move = 1e-5;
    *number = kept + move;
    const double above = ReferenceLoss(examples);
    *number = kept - move;
    const double below = ReferenceLoss(examples);
    *number = kept;
    return (above - below) / (2 * move) / static_cast<double>(examples.size());
  }
  std::vector<Example> ExamplesOf(LeaseId lease, Step step) const {
    std::vector<uint64_t> ids;
    plan_.Examples(lease, step, &ids);
    std::vector<Example> examples;
    for (const uint64_t id : ids) examples.push_back(train_[id]);
    return examples;
  }
  std::set<RowName> NamesOf(const std::vector<Example>& examples) const {
    std::set<RowName> names;
    for (const LayerSpec& layer : job_.model.layers) {
      const auto* embedding = std::get_if<EmbeddingSpec>(&layer.op);
      if (embedding == nullptr) continue;
      for (const Example& example : examples) {
        for (const std::string& column : embedding->columns) {
          names.insert({embedding->table == "words" ? 0 : 1, example.keys.at(column)});
        }
      }
    }
    return names;
  }
  void ExpectTrained(const Answer& answer, const std::vector<Example>& examples) {
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    const Gradients& last = answer.gradients.back();
    EXPECT_TRUE(last.last);
    EXPECT_EQ(last.examples, examples.size());
    EXPECT_NEAR(last.loss_sum, ReferenceLoss(examples), 1e-5);
    const RowMap gradients = RowGradientsOf(answer);
    std::set<RowName> names;
    for (const auto& [name, numbers] : gradients) {
      names.insert(name);
      for (size_t i = 0; i < numbers.size(); ++i) {
        EXPECT_NEAR(numbers[i], Slope(&rows_.at(name)[i], examples), 4e-6) << name.first << " " << name.second;
      }
    }
    EXPECT_EQ(names, NamesOf(examples));
    for (const auto& [id, payload] : BySlice(answer)) {
      if (grid_.IsBucket(id)) continue;
      for (size_t i = 0; i < payload.floats().size(); ++i) {
        std::vector<double>& variable = reference_.variables[grid_.at(id).variable];
        EXPECT_NEAR(payload.floats()[i], Slope(&variable[i], examples), 4e-6);
      }
    }
  }

  const std::vector<Example> train_ = Draw(kTrainExamples, 1), eval_ = Draw(kEvalExamples, 2);
  JobSpec job_;
  SliceGrid grid_;
  Plan plan_;
  ReferenceModel reference_;
  RowMap rows_;
  const std::unique_ptr<Trainer> trainer_ =
      std::make_unique<Trainer>(GetParam().on_device ? std::make_unique<DeferredBackend>() : MakeHostBackend({}));
};
INSTANTIATE_TEST_SUITE_P(Models, TrainerTablesTest, testing::ValuesIn(TablesCases()),
                         [](const auto& param) { return param.param.name; });

TEST_P(TrainerTablesTest, GradientsAreThoseOfFiniteDifferences) {
  const LeaseId first{0};
  for (Step step = 1; step <= plan_.StepsOf(first); ++step) {
    SCOPED_TRACE(step);
    ExpectTrained(Train(first, step), ExamplesOf(first, step));
  }
  ExpectTrained(Train(first, 1), ExamplesOf(first, 1));  // again
}

TEST_P(TrainerTablesTest, EvaluationsHaveTheirRows) {
  for (const auto& [batch, batches] : {std::pair{0, 3}, {2, 1}, {0, 2}}) {
    SCOPED_TRACE(batch);
    const FindKeys find{std::nullopt, static_cast<uint64_t>(batch), static_cast<uint64_t>(batches)};
    const Answer answer = Run(EvalStep{find.first_batch, find.batches, Updates(find)});
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    const auto begin = eval_.begin() + 4 * batch;
    const std::vector<Example> examples(begin, batch + batches == 3 ? eval_.end() : begin + 4 * batches);
    const Evaluated evaluated = std::get<Evaluated>(answer.last);
    EXPECT_EQ(evaluated.examples, examples.size());
    EXPECT_NEAR(evaluated.loss_sum, ReferenceLoss(examples), 1e-5);
    EXPECT_NEAR(evaluated.metric_sums[0], evaluated.loss_sum, 1e-4) << "the loss is the metric";
  }
  EXPECT_EQ(Run(FindKeys{std::nullopt, 2, 2}).status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(Run(EvalStep{0, 0, Dense()}).status.ok()) << "without a batch there are no keys";
}

TEST_P(TrainerTablesTest, AStepNeedsTheRowsOfItsOwnKeys) {
  const LeaseId lease{0};
  const auto code = [&](const ComputeRequest& request) { return Run(request).status.code(); };
  EXPECT_EQ(code(TrainStep{lease, 1, Dense()}), absl::StatusCode::kFailedPrecondition) << "no keys were found";
  EXPECT_EQ(code(FindKeys{std::pair{lease, plan_.StepsOf(lease) + 1}}), absl::StatusCode::kInvalidArgument);
  const SliceValues updates = Updates({std::pair{lease, Step{1}}});
  EXPECT_EQ(code(TrainStep{lease, 2, updates}), absl::StatusCode::kFailedPrecondition) << "those of another step";
  EXPECT_EQ(code(EvalStep{0, 1, updates}), absl::StatusCode::kFailedPrecondition) << "likewise";
  EXPECT_EQ(code(TrainStep{lease, 1, Dense()}), absl::StatusCode::kFailedPrecondition) << "no rows came";
  SliceValues wrong = updates;
  wrong[0].second = Payload::Zeros(4);
  EXPECT_EQ(code(TrainStep{lease, 1, wrong}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(FindKeys{std::nullopt, 4, 1}), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code(TrainStep{lease, 1, updates}), absl::StatusCode::kFailedPrecondition) << "what was found is forgotten";
  ExpectTrained(Train(lease, 1), ExamplesOf(lease, 1));
  ExpectTrained(Run(TrainStep{lease, 1, updates}), ExamplesOf(lease, 1));
}

TEST_P(TrainerTablesTest, RowsAreNotAheadOfTheirStep) {
  SliceValues rows = RowsFor(std::get<KeysFound>(Run(FindKeys{std::pair{LeaseId{0}, Step{1}}}).last).keys);
  for (auto& [id, payload] : rows) payload = Payload::Zeros(0);  // as long as a slice without elements
  trainer_->PrefetchParameters(rows);
  ExpectTrained(Train(LeaseId{0}, 1), ExamplesOf(LeaseId{0}, 1));
}

// All rows are zero, so that an example's gradient is half of what its label says, divided by the three of the batch.
TEST_F(TrainerTest, KeysOfRecordsArePooled) {
  folder_.Write("train.jsonl",
                "{\"tags\": [5, -7], \"y\": 1}\n{\"y\": 0}\n{\"tags\": [5, 5, 18446744073709551615], \"y\": 0}\n");
  const JobFileResult read = ParseJob(
      absl::StrCat("name: j\nmodel:\n  tables: [{name: t, width: 2}]\n"
                   "  layers: [{embedding: {table: t, column: tags, pooling: mean}}]\n"
                   "data: {format: jsonl, train: ",
                   folder_.path(), "/train.jsonl, columns: [{name: tags, key: integer, width: 3}], label: y}\n",
                   "training: {batchSize: 3}\n"),
      "j.yaml");
  for (const JobError& error : read.errors) ADD_FAILURE() << ToString(error);
  const SliceGrid grid = GridOf(read.job.model).value();
  ASSERT_TRUE(Run(Prepare{read.job}).status.ok());
  TrainStep step{LeaseId{0}, 1, {}};
  const Answer found = Run(FindKeys{std::pair{step.lease, step.step}});
  for (const auto& [id, keys] : std::get<KeysFound>(found.last).keys) {
    step.updates.emplace_back(id, Payload::Zeros(AnswerBytes(keys, grid.row_widths)));
  }
  const Answer answer = Run(step);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  std::map<uint64_t, std::vector<float>> rows;
  for (const auto& [id, payload] : BySlice(answer)) {
    const RowGradients got = UnpackGradients(payload, grid.row_widths).value();
    for (size_t i = 0; i < got.rows.keys.size(); ++i) {
      rows[got.rows.keys[i]] = {got.numbers[2 * i], got.numbers[2 * i + 1]};
    }
  }
  ASSERT_EQ(rows.size(), 3u);
  const float of_example = 0.5f / 3;
  const auto expect = [&](int64_t key, float share) {
    const std::vector<float>& row = rows.at(static_cast<uint64_t>(key));
    EXPECT_FLOAT_EQ(row[0], share * of_example) << key;
    EXPECT_FLOAT_EQ(row[1], -share * of_example) << key;
  };
  expect(-7, 1.0f / 2);
  expect(5, 1.0f / 2 - 2.0f / 3);
  expect(-1, -1.0f / 3);
}

}  // namespace
}  // namespace downpour
