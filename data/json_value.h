// A value of JSON as a field: of JSON lines that are trained on, and of instances that a model is asked about.
//
//   absl::StatusOr<FieldValue> value = JsonFieldValue(element, &list, &items);
//
// Shapes: docs/DATA.md, "JSON lines".
// Errors: INVALID_ARGUMENT with what is wrong, to stand behind the field's name.
// Tests: tests/unit/data/jsonl_records_test.cc.
#pragma once

#include <simdjson.h>

#include <vector>

#include "absl/status/statusor.h"
#include "data/key_items.h"
#include "data/record_format.h"

namespace downpour {

// `items` takes an array, if its field has keys; else `list` does. They, and the parser of the element, keep what the
// value points to.
absl::StatusOr<FieldValue> JsonFieldValue(const simdjson::dom::element& element, std::vector<double>* list,
                                          KeyItems* items);

// One of an array of numbers; NaN for null, which is a missing one. Sets `is_good` to false for what is no number.
double JsonNumber(const simdjson::dom::element& element, bool* is_good);

}  // namespace downpour
