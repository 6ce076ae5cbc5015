#include "model/input_layout.h"

#include <glog/logging.h>

#include <algorithm>
#include <string>
#include <variant>

#include "model/embedding_readers.h"

namespace downpour {

InputLayout::InputLayout(const ModelSpec& model, absl::Span<const Column> columns) {
  const auto find = [&](const std::string& name) {
    const auto found =
        std::find_if(columns.begin(), columns.end(), [&](const Column& one) { return one.name == name; });
    CHECK(found != columns.end()) << name;
    columns_.push_back(static_cast<size_t>(found - columns.begin()));
    return *found;
  };
  for (const InputSpec& input : model.inputs) {
    for (const std::string& name : input.columns) {
      const Column column = find(name);
      places_.push_back({inputs_width_, column.type == ColumnType::kInt64 ? column.categories : column.width});
      inputs_width_ += places_.back().width;
    }
  }
  for (const std::string& name : KeyColumnsOf(model)) CHECK(find(name).type == ColumnType::kInt64) << name;
  width_ = inputs_width_ + EmbeddingWidthOf(model);
}

void InputLayout::Expand(absl::Span<const ColumnValues> values, size_t examples, float* to) const {
  const auto width = static_cast<size_t>(width_);
  for (size_t i = 0; i < examples; ++i) std::fill_n(to + i * width, inputs_width_, 0.0f);
  for (size_t column = 0; column < places_.size(); ++column) {
    float* at = to + places_[column].first;
    if (const auto* categories = std::get_if<std::vector<int64_t>>(&values[column])) {
      for (size_t i = 0; i < examples; ++i) at[i * width + static_cast<size_t>((*categories)[i])] = 1;
      continue;
    }
    const auto& numbers = std::get<std::vector<float>>(values[column]);
    const auto of_column = static_cast<size_t>(places_[column].width);
    for (size_t i = 0; i < examples; ++i) {
      std::copy_n(numbers.data() + i * of_column, of_column, at + i * width);
    }
  }
}

}  // namespace downpour
