// History: how the job went, point by point, in metrics.jsonl and in an event file of TensorBoard (docs/MONITORING.md).
//
//   history.Observe();   // after each input
//
// Order: steps never go back within a run, as far as the file tells after a restart. An evaluation that this chief saw
//   finish is there once. Nothing is written before the file was read.
// Cost: points are at least kLeastPause apart, and the pause doubles with each kDoubling bytes that metrics.jsonl has.
//   So a file of n times kDoubling takes 2^n times as long to write as one of kDoubling. Epochs are thinned by their
//   number. Evaluations are not: the job file says how many there are.
// Errors: none that the job notices (history_file.h).
// Tests: tests/unit/chief/history_test.cc, tests/keras/test_history.py.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "chief/folder/history_file.h"
#include "chief/folder/journal.h"
#include "chief/folder/storage.h"
#include "chief/known/epoch_table.h"
#include "chief/known/evaluation.h"
#include "chief/known/job_life.h"
#include "chief/known/lease_ledger.h"
#include "chief/known/membership.h"
#include "chief/known/progress.h"

namespace downpour {

inline constexpr char kHistoryFile[] = "metrics.jsonl";

class History {
 public:
  static constexpr Duration kLeastPause = 1s;
  static constexpr uint64_t kDoubling = uint64_t{2} << 20;
  static constexpr uint64_t kEpochsInFull = 1000;  // beyond, each epoch's line is so many times as far as the next one

  struct Parts {
    StepContext& context;
    const JobSpec& job;
    Storage& storage;
    const JobLife& life;
    const Journal& journal;
    const Membership& members;
    const LeaseLedger& ledger;
    const Evaluation& evaluation;
    const Progress& progress;
  };
  explicit History(const Parts& chief)
      : chief_(chief), lines_(chief.context, chief.storage, "\n"), events_(chief.context, chief.storage, "") {}

  void Observe();

  // For fit() to return, of a job with a program of the user's own.
  const EpochTable& epochs() const { return epochs_; }

 private:
  void Read(uint64_t from);
  bool HasProgram() const { return !chief_.job.python.module.empty(); }  // nobody else asks for its epochs
  void RecallEpochs(const std::string& text);
  void Begin();
  void Measure();  // from here on
  void NoteEvaluation();
  void WriteEvaluations();
  void NoteEpoch();
  void AddPoint();
  double LearningRate() const;
  void AddTasks();
  nlohmann::json Line(const char* kind, int64_t unix_ms) const;
  void Write(const nlohmann::json& line);
  Duration Pause() const;

  const Parts chief_;
  HistoryFile lines_;
  HistoryFile events_;

  bool is_reading_ = false;
  bool is_ready_ = false;  // the file was read
  bool is_measuring_ = false;
  bool is_over_ = false;
  uint64_t bytes_ = 0;  // of metrics.jsonl
  std::string tail_;    // of the file as it was found
  std::string rest_;    // of the line that is cut by what was read of it so far
  EpochTable epochs_;

  uint64_t step_ = 0;  // the furthest of this run
  Time next_{};
  Progress::LossTotals loss_, epoch_loss_;  // as of the last point, and of the last epoch's
  uint64_t epoch_ = 0;                      // the last that was written, or that was there at the beginning
  uint64_t evaluation_ = 0;                 // its round, of the last one that was noted
  std::vector<std::pair<Evaluation::Result, int64_t>>
      evaluations_;      // not yet written: more than one may end before the file is read
  Staleness staleness_;  // as of the last point
};

}  // namespace downpour
