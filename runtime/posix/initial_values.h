// The file of model.initializeFrom: held against the job, and staged in the job folder before a chief begins a run.
//
//   auto file = InitialValuesFile::Open(job);               // check, run and doctor look at it so,
//   status = file->CheckValues();                           // and at all its values
//   absl::Status status = StageInitialValues(job, folder);  // the chief's main, which has the folder's lock
//
// Shapes: JOB_DIR/initial/ looks like a checkpoint's folder: records of slices that no push has touched, of version 0,
//   and a MANIFEST, written last. What counts from then on is the copy: the file may change or go.
// Order: a variable that the file lacks begins as without it, if it has an initializer.
// Cost: a pass over the file's values to check them and one to stage them, and a file with the optimizer's slots beside
//   them; memory for one slice.
// Errors: INVALID_ARGUMENT naming file, tensor and byte: no safetensors file, a shape or a kind of number that does not
//   fit, a value that is not finite, nothing of the model in it. NOT_FOUND and UNAVAILABLE of the disk.
// Tests: tests/unit/runtime/posix/initial_values_test.cc, tests/process/test_fine_tuning.py.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "job/job.h"
#include "job/slice_grid.h"
#include "runtime/posix/fd.h"
#include "schema/safetensors.h"

namespace downpour {

class InitialValuesFile {
 public:
  // Reads the header alone.
  static absl::StatusOr<InitialValuesFile> Open(const JobSpec& job);

  const std::vector<std::string>& unused() const { return unused_; }    // tensors that no variable is named like
  const std::vector<std::string>& missing() const { return missing_; }  // variables that no tensor is named like
  bool Has(const std::string& variable) const { return tensors_.contains(variable); }
  // Elements `first` and on of that variable, which it has.
  absl::Status Read(const std::string& variable, int64_t first, absl::Span<float> values) const;
  // Whether all values can be read and are finite, which reads them all.
  absl::Status CheckValues() const;
  // 3 variables from model.safetensors; and what of file and model has no counterpart.
  std::string Note() const;

 private:
  absl::Status Fit(const std::vector<VariableSpec>& variables, std::vector<TensorEntry> tensors);

  std::string path_;
  UniqueFd file_;
  uint64_t data_ = 0;                           // where the tensors' bytes begin
  std::map<std::string, TensorEntry> tensors_;  // by the variable's name
  std::vector<std::string> unused_;
  std::vector<std::string> missing_;
};

// Of a job that has model.initializeFrom: what was staged before is replaced. Returns the note.
absl::StatusOr<std::string> StageInitialValues(const JobSpec& job, const std::string& job_dir);

}  // namespace downpour
