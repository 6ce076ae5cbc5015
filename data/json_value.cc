#include "data/json_value.h"

#include <cmath>
#include <string_view>

namespace downpour {

namespace dom = simdjson::dom;

double JsonNumber(const dom::element& element, bool* is_good) {
  double number = NAN;
  bool truth = false;
  if (element.is_null()) return NAN;
  if (element.get(truth) == simdjson::SUCCESS) return truth ? 1 : 0;
  if (element.get(number) != simdjson::SUCCESS) *is_good = false;
  return number;
}

namespace {

// Whether one of an array can be a key. Nulls are none, and left out.
bool AddItem(const dom::element& element, KeyItems* items) {
  switch (element.type()) {
    case dom::element_type::NULL_VALUE:
      if (items->is_copied()) items->Add(std::monostate());
      return true;
    case dom::element_type::STRING:
      items->Add(std::string_view(element.get_string().value_unsafe()));
      return true;
    case dom::element_type::INT64:
      items->Add(element.get_int64().value_unsafe());
      return true;
    case dom::element_type::UINT64:
      items->Add(element.get_uint64().value_unsafe());
      return true;
    case dom::element_type::DOUBLE:
      if (items->is_copied()) items->Add(element.get_double().value_unsafe());
      return items->is_copied();
    case dom::element_type::BOOL:
      if (items->is_copied()) items->Add(element.get_bool().value_unsafe());
      return items->is_copied();
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<FieldValue> JsonFieldValue(const dom::element& element, std::vector<double>* list, KeyItems* items) {
  switch (element.type()) {
    case dom::element_type::NULL_VALUE:
      return std::monostate();
    case dom::element_type::STRING:
      return std::string_view(element.get_string().value_unsafe());
    case dom::element_type::BOOL:
      return element.get_bool().value_unsafe();
    case dom::element_type::INT64:
      return element.get_int64().value_unsafe();
    case dom::element_type::UINT64:
      return element.get_uint64().value_unsafe();
    case dom::element_type::DOUBLE:
      return element.get_double().value_unsafe();
    case dom::element_type::OBJECT:
      return absl::InvalidArgumentError("is an object: name a field in it, as outer.inner");
    case dom::element_type::ARRAY:
      break;
  }
  const dom::array array = element.get_array().value_unsafe();
  if (array.size() == 0) return std::monostate();
  bool is_good = true;
  if (items->has_keys()) {
    items->Clear();
    for (const dom::element one : array) is_good = is_good && AddItem(one, items);
    if (!is_good) return absl::InvalidArgumentError("is an array of other things than whole numbers and texts");
    return items->list();
  }
  list->clear();
  for (const dom::element one : array) list->push_back(JsonNumber(one, &is_good));
  if (!is_good) return absl::InvalidArgumentError("is an array of other things than numbers");
  if (list->size() > 1) return FieldList(*list);
  return std::isnan(list->front()) ? FieldValue() : FieldValue(list->front());
}

}  // namespace downpour
