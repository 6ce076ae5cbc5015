#include "predict/row_store.h"

#include <string_view>
#include <variant>

namespace downpour {

void RowStore::Clear() {
  rows_ = 0;
  for (std::vector<FieldValue>& column : columns_) column.clear();
  numbers_.Clear();
  texts_.Clear();
  items_.Clear();
}

void RowStore::AddRow() {
  ++rows_;
  for (std::vector<FieldValue>& column : columns_) column.emplace_back();
}

FieldValue RowStore::Kept(const FieldValue& value) {
  const auto text = [this](std::string_view one) {
    const absl::Span<const char> kept = texts_.Keep(absl::MakeConstSpan(one.data(), one.size()));
    return std::string_view(kept.data(), kept.size());
  };
  if (const auto* one = std::get_if<std::string_view>(&value)) return text(*one);
  if (const auto* list = std::get_if<FieldList>(&value)) return numbers_.Keep(*list);
  if (const auto* list = std::get_if<FieldItems>(&value)) {
    const absl::Span<FieldItem> kept = items_.Allocate(list->size());
    for (size_t i = 0; i < kept.size(); ++i) {
      const auto* one = std::get_if<std::string_view>(&(*list)[i]);
      kept[i] = one != nullptr ? FieldItem(text(*one)) : (*list)[i];
    }
    return FieldItems(kept);
  }
  return value;
}

InputBatch RowStore::batch() const {
  InputBatch batch{rows_, {}};
  for (size_t i = 0; i < columns_.size(); ++i) {
    batch.columns.push_back({signature_->inputs[i].name, 1, absl::MakeConstSpan(columns_[i])});
  }
  return batch;
}

InputBatch RowStore::row(size_t number) const {
  InputBatch batch{1, {}};
  for (size_t i = 0; i < columns_.size(); ++i) {
    batch.columns.push_back({signature_->inputs[i].name, 1, absl::MakeConstSpan(columns_[i]).subspan(number, 1)});
  }
  return batch;
}

}  // namespace downpour
