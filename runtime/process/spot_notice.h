// Watches for the notice by which a cloud takes a spot machine away: asks the machine's metadata server once a second.
//
//   SpotNotice notice(SpotNotice::kServer, {}, [&](const std::string& what) {
//     mailbox.Post(StopRequested{SIGTERM, what});
//   });
//
// Order: `notify` is called once at most, from a thread of this one's; after the destructor no more.
// Cost: a request a second, which waits for some seconds at most: a notice of 30 s can spare them. The destructor waits
//   for none of them, but for a connection that is being made: a second.
// Errors: where no cloud's metadata server has answered within Pace::patience this is no cloud's machine, and nobody is
//   asked again. One that falls silent later is asked on.
// Source: GCE: instance/preempted and instance/maintenance-event, with Metadata-Flavor both ways. EC2: IMDSv2 (a token
//   first), spot/instance-action.
// Tests: tests/unit/runtime/process/spot_notice_test.cc, against a server of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "runtime/world_time.h"

namespace downpour {

class MetadataClient;  // one HTTP connection

class SpotNotice {
 public:
  // Where both clouds have it: without a name that would have to be looked up.
  static constexpr char kServer[] = "http://169.254.169.254";

  struct Pace {
    Duration every = std::chrono::seconds(1);
    // From the start to the last look for a cloud: at boot its server may be later than this process.
    Duration patience = std::chrono::minutes(2);
  };

  // INVALID_ARGUMENT for a server that is no http://HOST[:PORT].
  static absl::Status Check(const std::string& server);

  SpotNotice(const std::string& server, Pace pace, std::function<void(const std::string& what)> notify);
  ~SpotNotice();

 private:
  void Watch();
  bool Ending();  // Pace::every later, or as soon as the destructor says so

  const Pace pace_;
  const std::function<void(const std::string&)> notify_;
  const std::unique_ptr<MetadataClient> client_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  bool ended_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace downpour
