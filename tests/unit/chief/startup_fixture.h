// What a chief finds out about a job folder in memory before it leads.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "chief/startup.h"
#include "job/slice_grid.h"
#include "tests/unit/chief/parts_fixture.h"

namespace downpour {

class StartupTest : public PartsFixture {
 protected:
  Startup::Outcome Run(bool resume = false, const std::vector<std::string>& overrides = {}, Round give_up = {}) {
    ChiefOptions options{
        .job = SmallJob(overrides), .job_dir = {}, .host = "h0", .pid = 9, .nonce = ++nonce, .timing = {}};
    options.resume = resume;
    options.give_up = give_up;
    store = std::make_unique<CheckpointStore>(storage);
    journal = std::make_unique<Journal>(context, storage, Timing{});
    Startup startup(storage, *store, *journal, options);
    Startup::Outcome outcome{.exit_code = -1, .why = {}};
    startup.Run({/*unix_ms=*/5000, "h0:1"}, [&](const Startup::Outcome& end) { outcome = end; });
    Settle();
    return outcome;
  }
  // As a chief leaves it that said so to its members.
  void EndJob(const std::string& state = "FAILED") {
    journal->record().ended = state;
    journal->Save([](const absl::Status&) {});
    Settle();
  }
  void PutCheckpoint(Round round, uint64_t train_examples = 12, const std::vector<std::string>& overrides = {}) {
    const JobSpec job = SmallJob(overrides);
    PutCheckpointOf(round, job, GridOf(job.model)->size(), train_examples);
  }
  void PutCheckpointOf(Round round, const JobSpec& job, size_t slices, uint64_t train_examples = 12,
                       uint64_t record_bytes = 1024) {
    Manifest manifest;
    manifest.round = round;
    manifest.job = CanonicalJob(job);
    manifest.train_examples = train_examples;
    manifest.files = {{"ps-0.shard", slices * record_bytes}};
    for (uint32_t i = 0; i < slices; ++i) {
      manifest.records.push_back({SliceId{i}, 0, i * record_bytes, record_bytes, 0});
    }
    disk.Put(ShardPath(round, "ps-0.shard"), std::string(slices * record_bytes, '.'));
    disk.Put(ManifestPath(round), EncodeManifest(manifest));
  }
  std::unique_ptr<CheckpointStore> store;
  std::unique_ptr<Journal> journal;
  uint64_t nonce = 70;
};

}  // namespace downpour
