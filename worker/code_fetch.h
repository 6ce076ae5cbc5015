// CodeFetch: a worker's way to the user's Python code that its device lacks, piece by piece from the chief.
//
//   fetch.Begin(job.python);
//   if (fetch.wants()) fetch.Advance(now, session, effects);   // asks for a block, and again where none comes
//   if (fetch.Receive(block).ok() && fetch.complete()) ...fetch.Take()...
//
// Shapes: at most kMostCodeBytes, in blocks of kCodeBlockBytes, one under way at a time.
// Order: what Take gives has the job's SHA-256. What has not is forgotten, and asked for again.
// Errors: INVALID_ARGUMENT for a block that nobody asked for, or of the wrong size; DATA_LOSS where all of them are
//   other code together. A block that comes twice is no error.
// Tests: tests/scenario/worker_fetches_code.txt, tests/sim.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "job/job.h"
#include "runtime/member_session.h"
#include "schema/message_work.h"

namespace downpour {

class CodeFetch {
 public:
  void Begin(const PythonSpec& code);
  void Forget() { *this = CodeFetch(); }

  bool wants() const { return have_ < bytes_; }
  bool complete() const { return bytes_ > 0 && have_ == bytes_; }
  std::vector<Payload> Take();

  void Advance(Time now, MemberSession& session, Effects& effects);
  absl::Status Receive(const CodeBlock& block);

 private:
  std::string sha256_;
  uint64_t bytes_ = 0;  // of the whole; 0: nothing is asked for
  uint64_t have_ = 0;   // bytes of blocks_
  std::vector<Payload> blocks_;
  Time next_request_;
};

}  // namespace downpour
