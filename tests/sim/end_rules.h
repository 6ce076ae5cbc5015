// What a chief rests its words on: the end of the job, and the first placement of slices; protocol, conversations 8, 10
// and 11.
//
// Findings: an end with success by a checkpoint round, or by an evaluation, of before leases were opened again; by
//   parts of an evaluation that used different parameters, or whose loss is not finite. An end, or a placement, that
//   the journal on disk does not know of. The rest of the program begun by such a round or evaluation, or on values
//   that are not those of one checkpoint of every lease, or not ended by its newest attempt where the job ends with
//   success. A chief that leads a job again of which summary.json says that it has succeeded. An evaluation that is
//   due, and not given to workers that ask for work. An end with fewer epochs than the file has, though it asks for
//   none or fewer evaluations are in than patience needs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/rules.h"
#include "tests/sim/world.h"

namespace downpour {

class EndRules final : public Rules {
 public:
  EndRules(World* world, const Oracle* oracle) : Rules(world), oracle_(oracle) {}
  void Before(const Process& process, const Input& input) override;
  void OnEffect(const Process& process, const Effect& effect) override;
  void After(const Process& process) override;

 private:
  void CheckEnd(const Process& chief, const JobEnd& end);
  void CheckTrained(const Process& chief, const std::string& what);
  void CheckEvaluated(const Process& chief, const std::string& what);
  void NoteValues(const Process& chief);
  void CheckValues(const Process& worker, const EpilogueStep& step);
  void CheckStopsEarly(const Process& chief);
  void CheckPlacing(const Process& chief);
  bool FindsSuccess(const Process& chief) const;
  void OnReceived(const Process& chief, const Received& received);
  void LookForEpochs(const Process& chief);
  bool CoverAll(const std::set<std::pair<uint64_t, uint64_t>>& parts) const;
  bool AllCommitted(const Process& chief) const;

  const Oracle* oracle_;

  // Of all chiefs.
  std::set<std::pair<Life, uint64_t>> evaluated_;            // rounds that were complete
  std::optional<std::pair<uint32_t, std::string>> success_;  // of the last one that led: its term and its job's text
  bool ever_diverged_ = false;                               // some evaluation
  std::vector<std::map<SliceId, uint32_t>> trained_;         // checksums of values, in checkpoints of every lease
  bool knows_the_last_ = false;  // the last parameters were evaluated, by a finite loss, and no lease was open since

  // Of one life of a chief.
  Life life_{};
  IntervalSet committed_;
  uint64_t reopened_ = 0;            // the Step in which leases were last opened again
  std::map<Round, uint64_t> begun_;  // the Step that first asked for its records
  Round durable_;                    // the newest
  uint64_t evaluation_ = 0;          // the newest round of one
  std::map<uint64_t, std::set<std::pair<uint64_t, uint64_t>>> parts_;  // of it, since all is committed, by their digest
  std::map<uint64_t, std::set<std::pair<uint64_t, uint64_t>>> parts_ever_;  // likewise, whatever was committed
  std::set<uint64_t> diverged_;            // digests of values whose loss is not finite
  bool evaluates_ = false;                 // some of its parts are granted, and not all are in
  std::optional<uint64_t> seen_epochs_;    // committed, when an evaluation was last due
  std::optional<int> asked_since_;         // for work, since one is due and none was granted
  std::map<Incarnation, uint64_t> asked_;  // the number of the newest request
  uint64_t attempt_ = 0;                   // the newest at the rest of the program
  Incarnation program_at_{};               // whose that is
  bool program_ended_ = false;             // that one
  bool placed_ = false;
  bool finds_success_ = false;  // of its own job, in its folder's summary.json
  std::optional<Time> ended_;
};

}  // namespace downpour
