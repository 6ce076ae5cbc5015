#include "data/key_items.h"

#include <algorithm>

#include "data/csv.h"

namespace downpour {

KeyWidths KeyWidthsOf(const DataSpec& data) {
  KeyWidths widths;
  for (const ColumnSpec& column : data.columns) {
    if (column.kind != ColumnKind::kKey || column.from.size() > 1) continue;
    KeyWidth& width = widths[column.from.empty() ? column.name : column.from.front()];
    width.most = std::max(width.most, static_cast<size_t>(column.numbers));
    width.is_copied = width.keeps_all_words = column.numbers == kWholeLists;
  }
  if (data.label.is_multiple) {
    KeyWidth& width = widths[data.label.column];
    width.most = std::max(width.most, kMostClassesOfExample);
    width.keeps_all_words = true;
  }
  return widths;
}

void KeyItems::Add(const FieldItem& item) {
  const auto* text = std::get_if<std::string_view>(&item);
  const bool is_nothing = text != nullptr && IsMissing(*text) && !width_.keeps_all_words;
  if (items_.size() > width_.most || is_nothing) return;
  items_.push_back(item);
}

FieldValue KeyItems::value() const {
  if (items_.empty()) return {};
  if (items_.size() > 1) return FieldItems(items_);
  return std::visit([](const auto& item) { return FieldValue(item); }, items_.front());
}

FieldItem ItemOf(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return *text;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  if (const auto* integer = std::get_if<uint64_t>(&value)) return *integer;
  if (const auto* truth = std::get_if<bool>(&value)) return *truth;
  return std::monostate();
}

std::vector<KeyItems> KeyItemsFor(const KeyWidths& widths, absl::Span<const std::string> wanted) {
  std::vector<KeyItems> items;
  for (const std::string& field : wanted) {
    const auto width = widths.find(field);
    items.emplace_back(width == widths.end() ? KeyWidth() : width->second);
  }
  return items;
}

}  // namespace downpour
