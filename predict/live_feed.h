// LiveFeed: a job that is being trained as a predictor, whose values follow the servers'.
//
//   auto feed = LiveFeed::Open("runs/first", {}, {.on_first = [](auto predictor) {...}, .on_end = [](auto why) {...}});
//   ...
//   feed->Stop();       // or its predictor goes with its last reader
//
// Order: on_first is called once, as soon as all values have been read, or cannot be. on_end is called once after a
//   good on_first, when no newer values will come; the predictor goes on answering by the last ones. Not after Stop.
//   Its reason is UNAVAILABLE where the job may train on, and another feed of the same run may be opened.
// Cost: a thread, a connection to the chief and one to each ps. What it reads is bounded by reader/reader_role.h.
// Errors: of Open: NOT_FOUND where the folder names no chief; those of LoadKeys (runtime/posix/keys.h). Of on_first:
//   NOT_FOUND where the job is over or its chief leads another run; UNAVAILABLE where no values came within `patience`;
//   CANCELLED after Stop; those of LiveValues.
// Threads: any. The calls come from a thread of its own, which may not destroy this.
// Tests: tests/process/test_live.py.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "predict/predictor.h"
#include "runtime/world_time.h"

namespace downpour {

struct LiveOptions {
  Duration refresh = std::chrono::milliseconds(200);  // from one reading of all values to the next, at least
  Duration patience = std::chrono::seconds(30);       // for the first ones
  size_t most_rows = 65536;                           // of one batch
  std::string keys = {};                              // their folder, before KeysFolder (runtime/posix/keys.h)
  uint64_t run = 0;                                   // of which training; 0: of the first that shows values
};

struct LiveEnd {
  absl::Status why;
  uint64_t run = 0;  // of which training its values were
};

struct LiveEvents {
  std::function<void(absl::StatusOr<std::shared_ptr<const Predictor>>)> on_first;
  std::function<void(const LiveEnd& end)> on_end;
};

// Whether the last chief of a folder has said that its job is over.
bool HasLiveJobEnded(const std::string& job_dir);
// Whether the job of a folder trains no more: HasLiveJobEnded, or it was killed and nothing of it is at work. So it is
// for a while, too, where the machine was started again.
bool IsLiveJobOver(const std::string& job_dir);

class LiveFeed {
 public:
  static absl::StatusOr<std::unique_ptr<LiveFeed>> Open(const std::string& job_dir, const LiveOptions& options,
                                                        LiveEvents events);
  ~LiveFeed();  // waits for its thread
  void Stop();
  bool has_ended() const;  // its thread calls nobody any more

 private:
  class Follower;
  struct Shared;
  LiveFeed() = default;

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace downpour
