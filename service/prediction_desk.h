// PredictionDesk: how every protocol's request comes to a version: which one, when it has its turn, how long it took.
//
//   PredictionDesk desk(models, /*most=*/30s);
//   const absl::Status asked = desk.Ask({.model = "m", .peer = request.remote_addr}, [&](const ServedVersion& served,
//       const Predictor& predictor) { return ...; });
//
// Order: the version is taken once, so that an answer is of one version. As many requests compute at a time as the
//   machine has cores, and at least two. The others wait for their turn, and each is taken as soon as one is done.
//   Models of Python code have turns of their own (predict/python_pool.h), so that one that hangs holds up no other.
//   A request that computes is looked at between blocks of its rows (prediction_bounds.h), so that none holds a core
//   for longer than it may take, for nobody, or beyond the end of the service.
//   A live version whose rows are not to be had is asked again for kPatience, by what answers in its name by then. In
//   the pauses others have the turn.
// Errors: UNAVAILABLE for one that waited kPatience for its turn, and once End was called; those of ModelService::Take,
//   of WhyEnd and of what is asked.
// Threads: any.
// Tests: tests/process/test_predictions.py.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "service/model_service.h"
#include "service/request_log.h"

namespace downpour {

// The old service took 1.5 MB. A row of 784 numbers has about 5 KB as JSON and 3 KB as a binary tensor.
inline constexpr size_t kMostPredictionBytes = size_t{4} << 20;

struct PredictionRequest {
  std::string model;
  std::string version = {};  // empty: the default one
  std::string peer = {};
  std::function<bool()> has_gone = {};  // whoever asks; empty: nobody knows
};

class PredictionDesk {
 public:
  static constexpr auto kPatience = std::chrono::seconds(10);
  static constexpr auto kPause = std::chrono::milliseconds(100);

  // `most`: that a request may compute.
  PredictionDesk(ModelService& models, std::chrono::milliseconds most);
  // Nobody is answered from now on: those who wait at once, those who compute behind the block at hand.
  void End();

  // `predictor` counts the rows that it is asked. It is that of `served`.
  using Question = std::function<absl::Status(const ServedVersion& served, const Predictor& predictor)>;
  absl::Status Ask(const PredictionRequest& request, const Question& question);

  ModelService& models() { return models_; }

 private:
  class CountingPredictor;
  absl::Status AskOnce(const PredictionRequest& request, const Question& question, const ServedVersion& served,
                       CountingPredictor* predictor);
  absl::Status TakeTurn();
  void EndTurn();

  ModelService& models_;
  const std::chrono::milliseconds most_;
  RequestLog log_;
  std::mutex mutex_;
  std::condition_variable free_;
  int turns_;  // that are free
  std::atomic<bool> ends_ = false;
};

}  // namespace downpour
