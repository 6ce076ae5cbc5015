// A job file for a CSV file, to begin with: each column as its values suggest, and a network of two layers.
//
//   absl::StatusOr<std::string> text = JobOn(stats, dialect, {.train = "adult.data", .label = "income"});
//
// Numbers are scaled by their mean and deviation. Words become a vocabulary where there are few, else hashes. A
// label of few values is a class; of many, which are numbers, the number itself.
//
// Errors: INVALID_ARGUMENT for a label that no column has, with the near names, or from which nothing can be learned.
// Tests: tests/unit/tools/cli/data_job_test.cc: what is written is a job; tests/process/test_records.py: it learns.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "data/csv.h"
#include "tools/cli/data_stats.h"

namespace downpour {

struct JobChoices {
  std::string train;
  std::string eval = {};  // empty: none
  std::string label;
};

absl::StatusOr<std::string> JobOn(const TableStats& stats, const CsvDialect& dialect, const JobChoices& choices);

}  // namespace downpour
