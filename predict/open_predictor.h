// OpenPredictor: a predictor of what training or export left in files.
//
//   auto predictor = OpenPredictor("runs/first", {});                       // a job's folder: its newest checkpoint
//   auto best = OpenPredictor("runs/first", {.checkpoint = "best"});
//   auto one = OpenPredictor("runs/first/checkpoints/1-4", {});             // one checkpoint
//   auto exported = OpenPredictor("model.safetensors", {});                 // as downpour export writes it
//
// Order: the newest checkpoint that is whole. It may be that of a job that is running.
// Cost: every byte is read and checked, with tables twice; the rows of a table take 1.1 times their values, the slots
//   of optimizers are not kept.
// Errors: NOT_FOUND where nothing is there; DATA_LOSS for damage, with file and bytes; INVALID_ARGUMENT for files that
//   are no model; UNIMPLEMENTED with the remedy for exported models of Python code, and for those with tables.
// Tests: tests/unit/predict/open_predictor_test.cc; tests/process/test_predict.py.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "predict/predictor.h"
#include "predict/python_serving.h"

namespace downpour {

struct PredictorOptions {
  std::string checkpoint = {};  // of a job's folder: TERM-N or best; empty: the newest
  size_t most_rows = 65536;     // of one batch
  PythonServing python = {};    // how the user's code is run, if it is that
};

// `notes`, if any, gets a sentence for each newer checkpoint that was passed over.
absl::StatusOr<std::shared_ptr<const Predictor>> OpenPredictor(const std::string& origin,
                                                               const PredictorOptions& options,
                                                               std::vector<std::string>* notes = nullptr);

}  // namespace downpour
