// Rows as JSON, for models that take any (InstancePredictor), and from and to batches of columns.
//
//   absl::StatusOr<std::string> answer = AnswerInstances(*own, most_rows, root["instances"], /*by_columns=*/false);
//
// Shapes: a list of instances is answered by {"predictions": [...]}. By columns {"age": [39, 50], ...} stands for the
//   instances {"age": 39}, {"age": 50}, and a list for its items. The answer is {"outputs": {NAME: [...], ...}} where
//   all predictions are objects of the same names, else {"outputs": [...]}.
//   A batch of one column that is called "", input, inputs or instances has the instances themselves; else each is an
//   object of all columns. Predictions of numbers, or lists of as many numbers each, become the column "predictions",
//   and those of objects a column for each name.
// Errors: INVALID_ARGUMENT for a request that is no such; OUT_OF_RANGE for too many rows, and for more than
//   kMostInstanceBytes; FAILED_PRECONDITION for predictions that are no columns; INTERNAL where they are not as many as
//   the instances; those of the predictor.
// Tests: tests/unit/predict/instance_json_test.cc.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "predict/predictor.h"

namespace downpour {

// Of all instances of a request, as they go to the user's code.
inline constexpr size_t kMostInstanceBytes = size_t{15} << 20;

absl::StatusOr<std::string> AnswerInstances(const InstancePredictor& predictor, size_t most_rows,
                                            const simdjson::dom::element& rows, bool by_columns);

// As PredictInstances, of which it checks how many there are.
absl::StatusOr<nlohmann::json> AskInstances(const InstancePredictor& predictor, std::string_view instances,
                                            size_t count);

absl::StatusOr<std::string> InstancesOf(const InputBatch& batch);
absl::StatusOr<OutputBatch> BatchOf(nlohmann::json predictions);

}  // namespace downpour
