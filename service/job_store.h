// JobStore: the service's jobs on disk, in SQLite.
//
//   absl::StatusOr<std::unique_ptr<JobStore>> store = JobStore::Open(root + "/jobs.sqlite");
//   if (absl::IsAlreadyExists((*store)->Insert(job))) ...
//
// Order: what a call did is on the disk when it returns. Jobs are listed in the order of their submission.
// Cost: one sync for each change; a list of 1,000 jobs takes milliseconds.
// Errors: ALREADY_EXISTS, NOT_FOUND with the job's name; INTERNAL with SQLite's words.
// Threads: one at a time.
// Tests: tests/unit/service/job_store_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/job.h"

struct sqlite3;

namespace downpour {

class JobStore {
 public:
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(const std::string& path);
  ~JobStore();
  JobStore(const JobStore&) = delete;
  JobStore& operator=(const JobStore&) = delete;

  absl::Status Insert(const Job& job);
  absl::Status Update(const Job& job);
  absl::Status Remove(const std::string& name);  // with its trials
  absl::StatusOr<Job> Find(const std::string& name);
  absl::StatusOr<std::vector<Job>> All();  // without trials
  absl::StatusOr<std::vector<Job>> Unfinished();
  absl::StatusOr<std::vector<Job>> Trials(const std::string& job);

 private:
  explicit JobStore(sqlite3* database) : database_(database) {}
  absl::StatusOr<std::vector<Job>> Select(const std::string& where, const std::string& name);

  sqlite3* database_;
};

}  // namespace downpour
