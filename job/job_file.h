// Job files: YAML (of which JSON is a part) to JobSpec and back.
//
//   JobFileResult result = ParseJob(text, "mnist.yaml", {"training.epochs=3"});
//   if (!result.ok()) for (const JobError& e : result.errors) std::cerr << ToString(e) << "\n";
//
// Errors: every error of the file at once, each with its place, what is allowed and the nearest right name. Unknown and
//   doubled keys, wrong types, impossible values and models whose shapes do not fit are errors.
// Bounds: texts over 1 MiB, more than 64 levels or more than 1,000 layers are refused before they cost anything.
// Tests: tests/unit/job/job_file_test.cc.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "job/job.h"
#include "job/job_error.h"
#include "job/word_files.h"

namespace downpour {

inline constexpr size_t kMaxJobTextBytes = size_t{1} << 20;

struct JobFileResult {
  JobSpec job;                                 // meaningful only if ok()
  std::vector<JobError> errors;                // in the order of the file, those of overrides last; at most 100
  std::vector<JobError> warnings;              // what is understood and has no meaning here
  std::map<std::string, std::string> origins;  // of dotted keys that are not left to their defaults: FILE:LINE or --set
  std::string job_dir;                         // if the file says it, as AI Platform's do
  bool ok() const { return errors.empty(); }
};

// `overrides` are dotted.key=value pairs whose values are read as YAML; they beat the file. A number names a place in a
// list (model.layers.0.dense.units=64); an empty value takes the key away. A file may hold AI Platform's trainingInput
// (job_training_input.h) in place of cluster and scheduling. Files of words are read by `read` (word_files.h).
JobFileResult ParseJob(const std::string& text, const std::string& file, const std::vector<std::string>& overrides = {},
                       const ReadNamedFile& read = {});

// Of a job whose model and data Python code will say, once it is run. Its errors are those that nothing that the code
// says can mend.
JobFileResult ParseJobOfCode(const std::string& text, const std::string& file,
                             const std::vector<std::string>& overrides = {}, const ReadNamedFile& read = {});

// Makes relative data paths absolute: those of the file against its folder, those of overrides against the folder
// where the command runs. Both folders are absolute. Addresses (s3://...) stay as they are. Whoever reads a job file
// does this before the job travels.
// Errors: those of `result`, for a path that cannot travel: one that is not UTF-8, or longer than 4,096 bytes.
void ResolveDataPaths(const std::string& job_folder, const std::string& working_folder, JobFileResult* result);

// What a job file says under `data`, alone: for who reads examples and has no job. There may be no label, and no eval.
// Errors: by their keys, such as data.columns.0.name, without a place in the text.
struct DataSectionResult {
  DataSpec data;                 // meaningful only without errors; paths are as they were given
  std::vector<JobError> errors;  // at most 100
};
DataSectionResult ParseDataSection(const std::string& text, const ReadNamedFile& read = {});

// The job with all defaults filled in, as JSON with sorted keys: what travels in Welcome and stands in a manifest.
// ParseJob(CanonicalJob(j)) gives j again, and equal jobs give equal texts.
std::string CanonicalJob(const JobSpec& job);

// Each setting that differs, by its key: "training.optimizer.learningRate 0.1 -> 0.05". What stands in one job alone is
// `none` in the other.
std::vector<std::string> JobChanges(const JobSpec& before, const JobSpec& now);

// For receivers of a canonical text: the first error as a Status (INVALID_ARGUMENT).
absl::StatusOr<JobSpec> ParseCanonicalJob(const std::string& text);

}  // namespace downpour
