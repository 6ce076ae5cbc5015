#include "data/key_items.h"

#include <algorithm>

#include "data/csv.h"

namespace downpour {

KeyWidths KeyWidthsOf(const DataSpec& data) {
  KeyWidths widths;
  for (const ColumnSpec& column : data.columns) {
    if (column.kind != ColumnKind::kKey || column.from.size() > 1) continue;
    size_t& width = widths[column.from.empty() ? column.name : column.from.front()];
    width = std::max(width, static_cast<size_t>(column.numbers));
  }
  if (data.label.is_multiple) {
    size_t& width = widths[data.label.column];
    width = std::max(width, kMostClassesOfExample);
  }
  return widths;
}

void KeyItems::Add(const FieldItem& item) {
  const auto* text = std::get_if<std::string_view>(&item);
  if (items_.size() > most_ || (text != nullptr && IsMissing(*text))) return;
  items_.push_back(item);
}

FieldValue KeyItems::value() const {
  if (items_.empty()) return {};
  if (items_.size() > 1) return FieldItems(items_);
  return std::visit([](const auto& item) { return FieldValue(item); }, items_.front());
}

std::vector<KeyItems> KeyItemsFor(const KeyWidths& widths, absl::Span<const std::string> wanted) {
  std::vector<KeyItems> items;
  for (const std::string& field : wanted) {
    const auto width = widths.find(field);
    items.emplace_back(width == widths.end() ? 0 : width->second);
  }
  return items;
}

}  // namespace downpour
