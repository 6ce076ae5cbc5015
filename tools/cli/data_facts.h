// What the headers of a job's data files, their labels, a sample of records and the file of model.initializeFrom say,
// against the job, as far as they can be read on this machine.
//
// Cost: reads the files of labels and of model.initializeFrom, and of the images what their headers say (of gzipped
//   ones everything). Files of records are read once where they have no index (docs/DATA.md).
// Tests: tests/unit/tools/cli/verb_check_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job/job_file.h"

namespace downpour {

inline constexpr char kInitializeFrom[] = "model.initializeFrom";  // of a folder that has a job nobody reads it again

struct DataFacts {
  std::optional<uint64_t> train_examples;
  std::optional<uint64_t> eval_examples;
  std::string initial_values;       // what begins with the file's values; empty: the job names none
  std::vector<JobError> errors;     // of files that are here, but not whole, or do not fit each other or the model
  std::vector<JobError> warnings;   // of what can be trained, and is hardly meant
  std::vector<std::string> absent;  // files that are not here: no error, since only the workers need them
  std::vector<JobError> absences;   // likewise, as errors: where the workers are to run here
};

// An error or a warning of a key, placed where `read` says that it comes from.
JobError PlacedAt(const JobFileResult& read, const std::string& key, std::string what, std::string remedy);

// `read`: of a job with errors what they are about is left alone; its origins place what is found.
DataFacts LookAtData(const JobFileResult& read);

// The counts of examples alone, as the headers of the images promise them.
// Cost: the first bytes of at most two files.
DataFacts CountExamples(const JobSpec& job);

}  // namespace downpour
