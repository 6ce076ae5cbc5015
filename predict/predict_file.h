// Predictions of a file's rows, one line for each, in their order.
//
//   auto rows = PredictFile(*predictor, {.input = "new.csv"}, [&](std::string_view lines) { ... });
//
// Shapes: the file is as the data that the model was trained on, gzipped or not, but need not have labels. Lines are
//   JSON objects as predict_json.h has them, or CSV behind a line of names: probabilities_0, probabilities_1, ...
// Cost: some hundred rows in memory, and of IDX the whole file.
// Errors: the first row that cannot be read, or does not fit, as FILE:LINE with column and remedy. Then lines of rows
//   before it may have been given.
// Tests: tests/process/test_predict.py.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "predict/predictor.h"

namespace downpour {

struct PredictFileOptions {
  std::string input;          // a path, an address that data may have, or - for stdin
  std::string format = {};    // as data.format; empty: what the model's data are
  bool is_instances = false;  // in its place: each line is one instance, as predict_json.h has them
  bool as_csv = false;        // what is written
};

// How many rows there were. An error of `take` ends the reading.
absl::StatusOr<uint64_t> PredictFile(const Predictor& predictor, const PredictFileOptions& options,
                                     const std::function<absl::Status(std::string_view)>& take);

}  // namespace downpour
