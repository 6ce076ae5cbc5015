// What a chief does before it answers anybody: finds out whether this job folder is its to use, and takes a new term.
//
//   1. reads term.a and term.b, and every checkpoint's manifest;
//   2. refuses a folder that holds checkpoints unless told to resume, and then one in which none is whole, or whose
//      checkpoints are of another plan;
//   3. writes term.a, then term.b, each with the term after the highest found: whoever gets a message of this term can
//      be sure that no later chief will use it again (protocol rule A11, schema/PROTOCOL.md);
//   4. writes chief.json, by which tools find this process.
//
// Errors: Outcome::exit_code is not 0; nothing in the folder was changed but, perhaps, its term.
// Tests: tests/unit/chief/startup_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "chief/checkpoint_store.h"
#include "chief/storage.h"
#include "schema/job.h"

namespace downpour {

// One line, "term 7 crc32c 89abcdef".
std::string EncodeTerm(uint32_t term);
absl::StatusOr<uint32_t> DecodeTerm(const std::string& text);

class Startup {
 public:
  struct Chief {  // for chief.json
    std::string endpoint;
    std::string host;
    uint32_t pid = 0;
  };
  struct Outcome {
    int exit_code = 0;
    std::string why;
    uint32_t term = 0;
    std::vector<Manifest> sources{};  // valid checkpoints of this plan, newest first
  };

  Startup(Storage& storage, CheckpointStore& checkpoints, const JobSpec& job, bool resume)
      : storage_(storage), checkpoints_(checkpoints), job_(job), resume_(resume) {}

  void Run(Chief chief, std::function<void(const Outcome&)> then);

 private:
  void ReadTerms();
  void ReadTerm(const std::string& file, std::function<void()> then);
  void Judge();
  bool AcceptPlan();
  void TakeTerm();
  void Refuse(int exit_code, std::string why);

  Storage& storage_;
  CheckpointStore& checkpoints_;
  const JobSpec& job_;
  const bool resume_;
  Chief chief_;
  std::function<void(const Outcome&)> then_;
  Outcome outcome_;
  uint32_t highest_ = 0;
  int valid_files_ = 0;
  std::string damage_;  // of the term files; empty if there is none
};

}  // namespace downpour
