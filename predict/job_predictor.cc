#include "predict/job_predictor.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "data/field_word.h"
#include "job/variables.h"
#include "schema/text.h"
#include "tensor/host_backend.h"

namespace downpour {
namespace {

constexpr size_t kMostBlock = 256;                 // rows that are computed at a time,
constexpr size_t kBlockNumbers = size_t{1} << 20;  // or as many as have so many numbers in all layers
constexpr size_t kMostAnswers = size_t{1} << 24;   // numbers of an answer
constexpr float kByteDivisor = 255;                // as training has bytes

int64_t NumbersOf(const std::vector<int64_t>& shape) {
  int64_t numbers = 1;
  for (const int64_t size : shape) numbers *= size;
  return numbers;
}

// Between 0 and the number of outputs: the first largest.
size_t LargestOf(absl::Span<const float> numbers) {
  return static_cast<size_t>(std::max_element(numbers.begin(), numbers.end()) - numbers.begin());
}

void Softmax(absl::Span<const float> outputs, float* to) {
  const float largest = *std::max_element(outputs.begin(), outputs.end());
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    to[i] = std::exp(outputs[i] - largest);
    sum += to[i];
  }
  const auto share = static_cast<float>(1 / sum);
  for (size_t i = 0; i < outputs.size(); ++i) to[i] *= share;
}

}  // namespace

struct JobPredictor::Scratch {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Graph> graph;
  RecordInputs::Scratch records;
  std::vector<float> row;  // of a table
  TableKeys keys;          // that the block at hand reads, where rows are fetched
  TableValues fetched;     // their rows
};

absl::StatusOr<std::unique_ptr<JobPredictor>> JobPredictor::Create(const JobSpec& job, std::string origin,
                                                                   size_t most_rows) {
  const absl::StatusOr<std::vector<VariableSpec>> variables = InferVariables(job.model);
  if (!variables.ok()) return variables.status();
  std::unique_ptr<JobPredictor> predictor(new JobPredictor(job, std::move(origin), most_rows));
  for (const VariableSpec& variable : *variables) predictor->parameter_numbers_ += variable.elements();
  int64_t numbers = 0;
  for (const InputSpec& input : job.model.inputs) numbers += NumbersOf(input.shape);
  for (const std::vector<int64_t>& shape : InferShapes(job.model).outputs) numbers += NumbersOf(shape);
  const auto fitting = kBlockNumbers / static_cast<size_t>(std::max<int64_t>(1, numbers));
  predictor->block_ = std::clamp<size_t>(fitting, 1, kMostBlock);
  auto graph = Graph::CreateForward(job.model, 1, *predictor->backend_);
  if (!graph.ok()) return graph.status();
  predictor->parameters_ = *std::move(graph);
  predictor->outputs_ = predictor->parameters_->output_width();
  const size_t answerable = kMostAnswers / static_cast<size_t>(std::max<int64_t>(1, predictor->outputs_));
  predictor->most_rows_ = std::clamp<size_t>(answerable, 1, most_rows);
  predictor->DescribeOutputs(job);
  return predictor;
}

JobPredictor::JobPredictor(const JobSpec& job, std::string origin, size_t most_rows)
    : model_(job.model),
      data_(job.data),
      name_(job.name),
      origin_(std::move(origin)),
      most_rows_(most_rows),
      readers_(EmbeddingReadersOf(job.model)),
      backend_(MakeHostBackend({})) {
  if (job.data.has_records()) records_.emplace(job);
  DescribeInputs(job);
}

JobPredictor::~JobPredictor() {
  for (std::atomic<Scratch*>& kept : kept_) delete kept.load();
}

void JobPredictor::DescribeInputs(const JobSpec& job) {
  if (records_) {
    signature_.inputs = records_->signature();
    // What else the job names is no slip.
    std::set<std::string> known(data_.fields.begin(), data_.fields.end());
    for (const std::string& field : data_.label.fields()) known.insert(field);
    if (data_.is_weighted()) known.insert(data_.weight);
    for (const ColumnSpec& column : data_.columns) {
      column.from.empty() ? void(known.insert(column.name)) : known.insert(column.from.begin(), column.from.end());
    }
    for (const SignatureInput& input : signature_.inputs) known.erase(input.name);
    signature_.passed_over.assign(known.begin(), known.end());
    return;
  }
  int64_t width = 0;
  for (const InputSpec& input : job.model.inputs) width += NumbersOf(input.shape);
  const std::string name = job.model.inputs.size() == 1 ? job.model.inputs.front().name : "image";
  signature_.inputs = {{.name = name, .width = width, .is_list = true, .is_needed = true}};
}

void JobPredictor::DescribeOutputs(const JobSpec& job) {
  if (job.model.loss == Loss::kMeanSquaredError && outputs_ == 1) {
    signature_.outputs = {{.name = "prediction"}};
    return;
  }
  const char* const numbers = outputs_ == 1 ? "probability" : job.model.learns_classes() ? "probabilities" : "scores";
  signature_.outputs = {{.name = numbers, .width = outputs_}, {.name = "class", .kind = OutputKind::kInteger}};
  // Where sets have one class, 1 says that it is in there, and is no place among the words.
  if (data_.label.classes.empty() || (outputs_ == 1 && data_.label.is_set())) return;
  signature_.outputs.push_back({.name = "label", .kind = OutputKind::kText});
  for (size_t i = 0; i < static_cast<size_t>(std::max<int64_t>(2, outputs_)); ++i) {
    words_.push_back(i < data_.label.classes.size() ? data_.label.classes[i].front() : absl::StrCat(i));
  }
}

absl::Status JobPredictor::SetParameters(size_t variable, int64_t offset, absl::Span<const float> values) {
  return parameters_->SetParameters(variable, offset, values);
}

uint64_t JobPredictor::bytes_held() const {
  uint64_t bytes = static_cast<uint64_t>(parameter_numbers_) * sizeof(float);
  for (const TableRows& table : tables_) bytes += table.bytes();
  return bytes;
}

// Threads begin at places of their own, so that mostly each finds what it left.
absl::StatusOr<std::unique_ptr<JobPredictor::Scratch>> JobPredictor::TakeScratch() const {
  const size_t begin = std::hash<std::thread::id>()(std::this_thread::get_id());
  for (size_t i = 0; i < kKept; ++i) {
    std::atomic<Scratch*>& kept = kept_[(begin + i) % kKept];
    if (kept.load(std::memory_order_relaxed) == nullptr) continue;
    if (Scratch* const scratch = kept.exchange(nullptr); scratch != nullptr) return std::unique_ptr<Scratch>(scratch);
  }
  auto scratch = std::make_unique<Scratch>();
  scratch->backend = MakeHostBackend({});
  auto graph = Graph::CreateForward(model_, static_cast<int64_t>(block_), *scratch->backend, parameters_);
  if (!graph.ok()) return graph.status();
  scratch->graph = *std::move(graph);
  if (records_) scratch->records = records_->NewScratch(block_);
  size_t widest = 0;
  for (const EmbeddingReader& reader : readers_) widest = std::max(widest, reader.width);
  scratch->row.resize(widest);
  return scratch;
}

void JobPredictor::GiveBack(std::unique_ptr<Scratch> scratch) const {
  const size_t begin = std::hash<std::thread::id>()(std::this_thread::get_id());
  for (size_t i = 0; i < kKept; ++i) {
    Scratch* nothing = nullptr;
    if (!kept_[(begin + i) % kKept].compare_exchange_strong(nothing, scratch.get())) continue;
    scratch.release();
    return;
  }
}

absl::StatusOr<OutputBatch> JobPredictor::Predict(const InputBatch& batch) const {
  if (batch.rows > most_rows_) {
    return absl::OutOfRangeError(
        absl::StrCat(batch.rows, " rows, where a request may have ", most_rows_, ": send them in several requests"));
  }
  const absl::StatusOr<MatchedColumns> from = MatchColumns(signature_, batch);
  if (!from.ok()) return from.status();
  absl::StatusOr<std::unique_ptr<Scratch>> scratch = TakeScratch();
  if (!scratch.ok()) return scratch.status();
  OutputBatch answer = RoomFor(batch.rows);
  absl::Status status;
  for (size_t first = 0; first < batch.rows && status.ok(); first += block_) {
    if (batch.may_go_on) status = batch.may_go_on(first);
    if (status.ok()) status = Compute(*from, first, std::min(block_, batch.rows - first), scratch->get(), &answer);
  }
  GiveBack(*std::move(scratch));
  if (!status.ok()) return status;
  return answer;
}

absl::Status JobPredictor::Compute(const MatchedColumns& from, size_t first, size_t rows, Scratch* scratch,
                                   OutputBatch* answer) const {
  if (absl::Status status = Load(from, first, rows, scratch); !status.ok()) return status;
  const absl::StatusOr<ConstMatrix> output = scratch->graph->ComputeForward(static_cast<int64_t>(rows));
  if (!output.ok()) return output.status();
  return Answer(*output, first, answer);
}

absl::Status JobPredictor::Load(const MatchedColumns& from, size_t first, size_t rows, Scratch* scratch) const {
  if (!records_) return LoadImages(*from.front(), first, rows, scratch);
  if (absl::Status status = records_->Read(from, first, rows, &scratch->records); !status.ok()) return status;
  records_->layout().Expand(scratch->records.columns, rows, scratch->graph->inputs().data);
  const absl::Status fetched = row_source_ == nullptr ? absl::OkStatus() : FetchRows(rows, scratch);
  if (fetched.ok()) PoolRows(rows, scratch);
  return fetched;
}

absl::Status JobPredictor::LoadImages(const InputColumn& column, size_t first, size_t rows, Scratch* scratch) const {
  const Matrix to = scratch->graph->inputs();
  const auto width = static_cast<size_t>(to.cols);
  const auto fail = [&](size_t row, const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat("row ", row, ": column '", signature_.inputs.front().name, "' ", what...));
  };
  const auto load = [&](size_t row, const auto& numbers) -> absl::Status {
    float* const place = to.row(static_cast<int64_t>(row - first));
    if (numbers.size() != width) {
      return fail(row, "has ", Counted(numbers.size(), "number"), ", where the model takes ", width);
    }
    bool are_good = true;  // one answer for all, so that the compiler computes many at a time
    for (size_t i = 0; i < width; ++i) {
      const auto number = static_cast<float>(numbers[i]);
      are_good &= (number >= 0) & (number <= kByteDivisor);
      place[i] = number / kByteDivisor;
    }
    for (size_t i = 0; i < width && !are_good; ++i) {
      if (numbers[i] >= 0 && numbers[i] <= kByteDivisor) continue;
      return fail(row, "has ", numbers[i], " at place ", i, ": numbers are 0 to 255, as images have them");
    }
    return absl::OkStatus();
  };
  for (size_t row = first; row < first + rows; ++row) {
    const absl::Status status = std::visit(
        [&](const auto& values) -> absl::Status {
          using Value = std::remove_cv_t<typename std::decay_t<decltype(values)>::value_type>;
          if constexpr (std::is_arithmetic_v<Value>) {
            const auto of_row = static_cast<size_t>(column.width);
            return load(row, values.subspan(row * of_row, of_row));
          } else if constexpr (std::is_same_v<Value, FieldValue>) {
            if (const auto* list = std::get_if<FieldList>(&values[row])) return load(row, *list);
            if (const auto* one = std::get_if<double>(&values[row])) return load(row, absl::MakeConstSpan(one, 1));
            if (const auto* one = std::get_if<int64_t>(&values[row])) return load(row, absl::MakeConstSpan(one, 1));
          }
          return fail(row, "is no list of ", width, " numbers");
        },
        column.values);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status JobPredictor::FetchRows(size_t rows, Scratch* scratch) const {
  scratch->keys.assign(model_.tables.size(), {});
  for (const EmbeddingReader& reader : readers_) {
    std::vector<uint64_t>& keys = scratch->keys[reader.table];
    const size_t column = records_->layout().input_columns() + reader.column;
    const auto& all = std::get<std::vector<int64_t>>(scratch->records.columns[column]);
    for (size_t i = 0; i < rows * records_->KeysOf(reader.column); ++i) {
      if (all[i] != kNoKey) keys.push_back(static_cast<uint64_t>(all[i]));
    }
  }
  for (std::vector<uint64_t>& keys : scratch->keys) {
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  }
  absl::StatusOr<TableValues> values = row_source_->Fetch(scratch->keys);
  if (!values.ok()) return values.status();
  scratch->fetched = *std::move(values);
  return absl::OkStatus();
}

void JobPredictor::PoolRows(size_t rows, Scratch* scratch) const {
  const Matrix to = scratch->graph->inputs();
  const InputLayout& layout = records_->layout();
  for (size_t row = 0; row < rows && !readers_.empty(); ++row) {
    float* const place = to.row(static_cast<int64_t>(row));
    std::fill(place + layout.inputs_width(), place + layout.width(), 0.0f);
  }
  for (const EmbeddingReader& reader : readers_) {
    const TableRows* const table = row_source_ == nullptr ? &tables_[reader.table] : nullptr;
    const auto row_of = [&](uint64_t key) {
      if (table != nullptr) return table->Find(key, scratch->row.data());
      const std::vector<uint64_t>& keys = scratch->keys[reader.table];
      const auto place = static_cast<size_t>(std::lower_bound(keys.begin(), keys.end(), key) - keys.begin());
      return static_cast<const float*>(scratch->fetched[reader.table].data() + place * reader.width);
    };
    const auto& all = std::get<std::vector<int64_t>>(scratch->records.columns[layout.input_columns() + reader.column]);
    const size_t of_row = records_->KeysOf(reader.column);
    for (size_t i = 0; i < rows * of_row && table != nullptr; ++i) table->Prefetch(static_cast<uint64_t>(all[i]));
    for (size_t row = 0; row < rows; ++row) {
      const auto keys = absl::MakeConstSpan(all).subspan(row * of_row, of_row);
      const auto none = static_cast<size_t>(std::count(keys.begin(), keys.end(), kNoKey));
      const float scale = PoolingScale(reader.pooling, of_row - none);
      float* const sum = to.row(static_cast<int64_t>(row)) + layout.inputs_width() + reader.first;
      for (const int64_t key : keys) {
        if (key == kNoKey) continue;
        AddScaled(scale, row_of(static_cast<uint64_t>(key)), reader.width, sum);
      }
    }
  }
}

OutputBatch JobPredictor::RoomFor(size_t rows) const {
  OutputBatch answer{rows, {}};
  for (const SignatureOutput& output : signature_.outputs) {
    OutputColumn& column = answer.columns.emplace_back(OutputColumn{output.name, output.width, {}});
    const size_t values = rows * static_cast<size_t>(output.width);
    if (output.kind == OutputKind::kNumber) column.values = std::vector<float>(values);
    if (output.kind == OutputKind::kInteger) column.values = std::vector<int64_t>(values);
    if (output.kind == OutputKind::kText) column.values = std::vector<std::string_view>(values);
  }
  return answer;
}

absl::Status JobPredictor::Answer(ConstMatrix output, size_t first, OutputBatch* answer) const {
  const auto width = static_cast<size_t>(outputs_);
  auto& numbers = std::get<std::vector<float>>(answer->columns[0].values);
  for (int64_t r = 0; r < output.rows; ++r) {
    const absl::Span<const float> from(output.row(r), width);
    const size_t row = first + static_cast<size_t>(r);
    float* const to = numbers.data() + row * width;
    if (!std::all_of(from.begin(), from.end(), [](float number) { return std::isfinite(number); })) {
      return absl::InternalError(absl::StrCat("row ", row, ": the model's output is not finite: its numbers are too ",
                                              "large for it, or its training diverged"));
    }
    if (answer->columns.size() == 1) {
      to[0] = static_cast<float>(from[0] * data_.label.deviation + data_.label.mean);
      if (!std::isfinite(to[0])) {
        return absl::InternalError(absl::StrCat("row ", row, ": the prediction is beyond what a float32 holds"));
      }
      continue;
    }
    const bool is_single = width == 1;  // a sigmoid tells class 1 from class 0
    const size_t largest = is_single ? from[0] > 0 : LargestOf(from);
    std::get<std::vector<int64_t>>(answer->columns[1].values)[row] = static_cast<int64_t>(largest);
    if (!words_.empty()) std::get<std::vector<std::string_view>>(answer->columns[2].values)[row] = words_[largest];
    if (model_.loss == Loss::kSoftmaxCrossEntropy) {
      Softmax(from, to);
    } else if (model_.loss == Loss::kSigmoidCrossEntropy) {
      std::transform(from.begin(), from.end(), to, [](float x) { return 1 / (1 + std::exp(-x)); });
    } else {
      std::copy(from.begin(), from.end(), to);
    }
  }
  return absl::OkStatus();
}

}  // namespace downpour
