// Appends trace records (trace_record.h) to a file, one line each.
//
// Order: Append gathers, Flush writes what was gathered with one write: a process that is killed loses at most the
//   batch at hand. The driver flushes before it sends, so that no peer knows more than the trace.
// Threads: one.
// Errors: Open says why a file cannot be had; a failed write is logged, once, and tracing ends.
// Tests: tests/unit/runtime/posix/trace_file_test.cc.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "runtime/posix/fd.h"
#include "runtime/trace_record.h"

namespace downpour {

class TraceFile {
 public:
  static absl::StatusOr<TraceFile> Open(const std::string& path);
  void Append(const TraceRecord& record);
  void Flush();

 private:
  explicit TraceFile(UniqueFd file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  UniqueFd file_;
  std::string path_;
  std::string lines_;
};

}  // namespace downpour
