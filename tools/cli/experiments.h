// All jobs whose folders lie under one folder, side by side: what was set, what came out, how long it took.
//
//   const Experiments found = FindExperiments("runs");
//   for (const Experiment& one : found.experiments) ... one.values.at("accuracy") ...
//
// Columns, in their order: folder, job, state; each setting in which two of the jobs differ, by its key in the job
//   file (of Python code python.args, its words; python.code, the beginning of its checksum; and model.parameters, how
//   many its model has); then what an ended job's summary tells (accuracy, loss, each of its metrics; best, the best
//   checkpoint's value; epochs, examplesPerSecond, seconds) and the time at which it began (UTC). A value that is not
//   known is absent.
// Order: by folder. Links are not followed, folders of jobs are not searched, nor any deeper than kDeepest.
// Errors: what cannot be read is a sentence in `troubles`, and the rest is there all the same.
// Cost: one journal and one summary are read for each job, no checkpoint.
// Tests: tests/unit/tools/cli/verb_experiments_test.cc.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace downpour {

inline constexpr int kDeepest = 6;  // folders below the one that is searched

using ExperimentValue = std::variant<std::string, double>;

struct Experiment {
  std::map<std::string, ExperimentValue> values;  // by column
};

struct Experiments {
  std::vector<std::string> columns;
  std::vector<std::string> settings;  // those of the columns that are settings
  std::vector<Experiment> experiments;
  std::vector<std::string> troubles;
};

Experiments FindExperiments(const std::string& folder);

// Numbers before words, words as in a dictionary, what is not known last, also if `reverse`. Equal ones keep their
// order.
void SortExperiments(const std::string& column, bool reverse, std::vector<Experiment>* experiments);

}  // namespace downpour
