#include "model/examples.h"

#include <glog/logging.h>

#include <optional>
#include <utility>
#include <variant>

#include "data/sample_ids.h"

namespace downpour {
namespace {

double VarianceOf(absl::Span<const float> numbers) {
  double mean = 0, squares = 0, count = 0;  // Welford 1962
  for (const float number : numbers) {
    const double beside = number - mean;
    mean += beside / ++count;
    squares += beside * (number - mean);
  }
  return count < 2 ? 0 : squares / count;
}

}  // namespace

BatchInputs ExampleBatch::inputs() const {
  if (!expanded.empty()) return absl::MakeConstSpan(expanded);
  if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&columns[0])) return absl::MakeConstSpan(*bytes);
  return absl::MakeConstSpan(std::get<std::vector<float>>(columns[0]));
}

ExampleKind Examples::kind() const {
  const bool is_bytes = is_one_alone_ && data_->columns()[columns_[0]].type == ColumnType::kBytes;
  return {
      .inputs = is_bytes ? InputType::kBytes : InputType::kFp32, .is_weighted = is_weighted_, .has_sets = has_sets_};
}

absl::StatusOr<Examples> Examples::Open(const DataSpec& data, const SetFiles& files, const ModelSpec& model) {
  auto opened = OpenDataset(data, files);
  if (!opened.ok()) return opened.status();
  Examples examples;
  examples.data_ = *std::move(opened);
  absl::Status status = examples.FindColumns(data, model);
  if (status.ok()) status = examples.LookAtLabels(data);
  if (!status.ok()) return status;
  return examples;
}

absl::Status Examples::FindColumns(const DataSpec& data, const ModelSpec& model) {
  const std::optional<size_t> label = FindColumn(*data_, kLabelColumn);
  CHECK(label) << "a format without a label";
  if (!data.has_records()) {
    CHECK_EQ(data_->columns().size(), size_t{2}) << "a format with several inputs";
    columns_ = {1 - *label, *label};
    label_ = 1;
    is_one_alone_ = true;
    width_ = inputs_width_ = data_->columns()[columns_[0]].width;
    return absl::OkStatus();
  }
  layout_ = InputLayout(model, data_->columns());
  columns_ = layout_.columns();
  inputs_width_ = layout_.inputs_width();
  width_ = layout_.width();
  label_ = columns_.size();
  columns_.push_back(*label);
  const std::optional<size_t> weight = FindColumn(*data_, kWeightColumn);
  is_weighted_ = weight.has_value();
  has_sets_ = data.label.is_set();
  if (weight) columns_.push_back(*weight);
  return absl::OkStatus();
}

absl::Status Examples::LookAtLabels(const DataSpec& data) {
  const size_t label = columns_[label_];
  if (!data.has_records()) {
    auto counts = CountLabels(*data_, label);
    if (counts.ok()) label_counts_ = *std::move(counts);
    return counts.status();
  }
  if (has_sets_) return absl::OkStatus();
  const std::vector<uint64_t> ids = SampleIds(size(), kMostCounted);
  ColumnValues values;
  if (absl::Status read = data_->ReadBatch(ids, {&label, 1}, {&values, 1}); !read.ok()) return read;
  if (const auto* numbers = std::get_if<std::vector<float>>(&values)) {
    variance_ = VarianceOf(*numbers);
    return absl::OkStatus();
  }
  for (const int64_t one : std::get<std::vector<int64_t>>(values)) {
    const auto place = static_cast<size_t>(one);
    if (place >= label_counts_.size()) label_counts_.resize(place + 1);
    ++label_counts_[place];
  }
  return absl::OkStatus();
}

Guess Examples::GuessOf(const ModelSpec& model, int64_t outputs) const {
  if (is_weighted_ || has_sets_) return {};  // a guess is of the frequency of classes, each example's one
  return variance_ > 0 ? Guess{.loss = variance_} : downpour::GuessOf(label_counts_, model.loss, outputs);
}

absl::Status Examples::Read(absl::Span<const uint64_t> ids, ExampleBatch* batch) const {
  batch->columns.resize(columns_.size());
  absl::Status status = data_->ReadBatch(ids, columns_, absl::MakeSpan(batch->columns));
  if (!status.ok()) return status;
  batch->numbers.clear();
  if (is_weighted_) batch->weights = std::get<std::vector<float>>(batch->columns.back());
  const ColumnValues& labels = batch->columns[label_];
  if (const auto* numbers = std::get_if<std::vector<float>>(&labels)) {
    batch->numbers = *numbers;
    batch->classes.assign(ids.size(), 0);
  } else {
    const auto& classes = std::get<std::vector<int64_t>>(labels);
    batch->classes.assign(classes.begin(), classes.end());
  }
  if (!is_one_alone_) {
    batch->expanded.resize(ids.size() * static_cast<size_t>(width_));
    layout_.Expand(batch->columns, ids.size(), batch->expanded.data());
  }
  return absl::OkStatus();
}

}  // namespace downpour
