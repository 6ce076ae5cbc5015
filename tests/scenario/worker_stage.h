// A worker that has joined and indexed its data, the test being its chief, its ps and its device. The job is
// tiny_job.h's.
//
//   place number=1 0@1.1/ps-0 1@1.1/ps-1      pass 500ms
//   grant 0                                   committed 0 [not]
//   answer ps-0 lease=0 0@1.1 consumed=1       evaluate round=1 first=0 batches=2
//        [acked=1] [staleness=0]              evaluated first=0 round=1       (EvalDoneReply)
//        epilogue attempt=1              record 0 [bytes=16] [holds=1] [round=2]   (EpilogueGrant, RestoreSlice)
//        computed [failed=WHY]                                           (of the rest of the program)
//   refuse ps-0 lease=0 0@1.1 because=other-epoch|not-here|wrong-shape
//   values ps-0 request=1 0@1.1v3 [refused]   unknown | welcome incarnation=6
//   reconnected ps-0                          (what was on its way to it and back is lost)
//   computed [missing=1] [part=0] [error=WHY | raised=WHY] [late=1]   (of the request before)      end | stop
//   computed examples=9 | place examples=9 ... | welcome epochs=3 earlier=2   (two have 6)
//   computed needs-code=1                     code 0 [bytes=N] [spoilt=1] [of=SHA256]  (a block of python=1's)
//   stats
// Whatever is said may be said in another run than the one that the worker is in: run=2, of welcome too.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/scenario/script.h"
#include "worker/worker_role.h"

namespace downpour {

class WorkerStage : public Stage {
 public:
  WorkerStage();
  std::vector<std::string> Do(const Command& command) override;

 private:
  std::vector<std::string> Give(Input input);
  std::vector<std::string> FromChief(Message message);
  std::vector<std::string> FromPs(const Command& command);
  std::vector<std::string> Computed(const Command& command);
  std::vector<std::string> Pass(Duration duration);
  Placement PlacementOf(const Command& command);
  std::string Stats() const;
  std::string NameOf(PeerId peer) const;
  PeerId NewestLinkTo(const std::string& server) const;
  Incarnation IncarnationOf(const std::string& server);

  WorkerRole role_;
  Time now_{};
  std::map<PeerId, std::string> dialled_;
  std::map<std::string, Incarnation> servers_;  // in the order of their appearance from 10
  std::optional<Compute> computing_;
  std::optional<Compute> before_;  // what the device was at when it was given that
  uint64_t join_ = 0;              // the number of its newest one
  std::optional<uint64_t> run_;    // in which the command at hand is said, if not in its own
};

}  // namespace downpour
