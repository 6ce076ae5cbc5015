// Filter: the filters of Google's list methods, over JSON objects.
//
//   absl::StatusOr<Filter> filter = Filter::Parse("state=RUNNING AND (labels.team:a OR NOT jobId=x)");
//   if (filter->Holds(job)) ...
//
// Shapes: FIELD OP VALUE, with AND (also by standing side by side), OR, NOT and parentheses. OP is =, !=, <, <=, >, >=
//   or : (which holds where the field's text contains the value). Fields are dotted paths, values words or "quoted".
//   An empty filter holds always. Times (RFC 3339) are compared as times, whatever their fractions.
// Errors: INVALID_ARGUMENT with the place.
// Source: google.aip.dev/160; cloud.google.com/logging/docs/view/logging-query-language.
// Tests: tests/unit/service/filter_test.cc.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace downpour {

class Filter {
 public:
  static absl::StatusOr<Filter> Parse(const std::string& text);
  bool Holds(const nlohmann::json& object) const;
  // The first error that `check` has for one of its comparisons, in their order.
  using Check = std::function<absl::Status(const std::string& field, const std::string& op, const std::string& value)>;
  absl::Status CheckEach(const Check& check) const;

  struct Node;

 private:
  explicit Filter(std::shared_ptr<const Node> root) : root_(std::move(root)) {}
  std::shared_ptr<const Node> root_;  // none: holds always
};

}  // namespace downpour
