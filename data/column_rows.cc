#include <cmath>

#include "absl/strings/str_cat.h"
#include "data/field_column.h"

namespace downpour {
namespace {

FieldValue ScalarAt(const FieldColumn& column, size_t value) {
  if (!column.is_there.empty() && !column.is_there[value]) return {};
  switch (column.type) {
    case FieldColumn::Type::kDouble:
      return column.doubles[value];
    case FieldColumn::Type::kInt64:
      return column.integers[value];
    case FieldColumn::Type::kUint64:
      if (column.integers[value] >= 0) return column.integers[value];
      return static_cast<uint64_t>(column.integers[value]);
    case FieldColumn::Type::kBool:
      return column.integers[value] != 0;
    case FieldColumn::Type::kText:
      return column.TextAt(value);
  }
  return {};
}

double NumberAt(const FieldColumn& column, size_t value) {
  if (!column.is_there.empty() && !column.is_there[value]) return NAN;
  if (column.type == FieldColumn::Type::kDouble) return column.doubles[value];
  if (column.type != FieldColumn::Type::kUint64) return static_cast<double>(column.integers[value]);
  return static_cast<double>(static_cast<uint64_t>(column.integers[value]));
}

// One of a list of keys; of a double that is no whole number nothing becomes.
bool AddItem(const FieldColumn& column, size_t value, KeyItems* items) {
  const FieldValue one = ScalarAt(column, value);
  if (items->is_copied()) {
    items->Add(ItemOf(one));
    return true;
  }
  if (one.index() == 0) return true;
  if (const auto* text = std::get_if<std::string_view>(&one)) items->Add(*text);
  if (const auto* integer = std::get_if<int64_t>(&one)) items->Add(*integer);
  if (const auto* integer = std::get_if<uint64_t>(&one)) items->Add(*integer);
  return one.index() != FieldValue(0.0).index() && one.index() != FieldValue(true).index();
}

}  // namespace

absl::StatusOr<FieldValue> ColumnRows::At(size_t field, const FieldColumn& column, size_t row) {
  if (!column.is_list) return ScalarAt(column, row);
  const uint64_t begin = row == 0 ? 0 : column.ends[row - 1], end = column.ends[row];
  if (begin == end) return FieldValue();
  if (KeyItems& items = items_[field]; items.has_keys()) {
    items.Clear();
    for (uint64_t i = begin; i < end; ++i) {
      if (!AddItem(column, i, &items))
        return absl::InvalidArgumentError("a list of other things than whole numbers and texts");
    }
    return items.list();
  }
  if (end - begin == 1) return ScalarAt(column, begin);
  if (column.type == FieldColumn::Type::kText) {
    return absl::InvalidArgumentError(absl::StrCat(end - begin, " texts, and a column takes one"));
  }
  std::vector<double>& list = lists_[field];
  list.clear();
  for (uint64_t i = begin; i < end; ++i) list.push_back(NumberAt(column, i));
  return FieldList(list);
}

}  // namespace downpour
