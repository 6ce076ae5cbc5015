// A chief on a disk in memory, with parameter servers that answer by themselves and workers moved by hand.
//
//   ChiefHarness cluster(SmallJob());
//   cluster.Start();
//   cluster.RunToRunning();
//   cluster.Finish(worker, lease);          // on all slices, then LeaseDone
//   cluster.Wait(10s);                      // ticks; the living beat
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "chief/chief_role.h"
#include "job/slice_grid.h"
#include "runtime/prng.h"
#include "schema/checkpoint_format.h"
#include "tests/unit/chief/memory_disk.h"
#include "tests/unit/chief/parts_fixture.h"

namespace downpour {

// Speaks to the chief without having joined.
inline constexpr PeerId kStranger{uint64_t{1} << 40};

struct FakeMember {
  PeerId control{};
  PeerId bulk{};
  Join join;
  Incarnation id = Incarnation::kNone;
  bool alive = true;  // beats
  uint64_t placement = 0;
  uint64_t work_requests = 0;
  TaskStats stats;
  std::string leaving;  // as its heartbeats say
  // ps only: what it holds; as a server answers when it may.
  std::map<SliceId, SliceState> slices;
  bool answers_assign = true;
  bool answers_snapshots = true;
};

class ChiefHarness {
 public:
  static constexpr uint64_t kTrainExamples = 12;  // 3 leases of 2 batches of 2 per epoch
  static constexpr uint64_t kEvalExamples = 10;
  static constexpr uint64_t kTrainFingerprint = 76, kEvalFingerprint = 5;
  static constexpr uint64_t kFingerprint = MixAll(kTrainFingerprint, kEvalFingerprint);
  static constexpr uint64_t kDescriptors = 200;  // open files: enough for 68 workers
  static constexpr uint64_t kRun = 7;            // of every job that begins here

  // Later chiefs of one test share the disk.
  explicit ChiefHarness(JobSpec job, bool resume = false,
                        std::shared_ptr<MemoryDisk> on = std::make_shared<MemoryDisk>(), Round give_up = {},
                        Duration ran_before = {});

  void Start();
  void Feed(Input input);
  void Say(PeerId from, Message message, uint64_t run = kRun) { Feed(Received{from, std::move(message), run}); }
  void Wait(Duration duration);
  void Stop(int signal) { Feed(StopRequested{signal}); }

  FakeMember& JoinPs(int index);
  FakeMember& JoinWorker(int index);
  void Beat(FakeMember& member, std::vector<std::string> lines = {});
  void ReportData(FakeMember& worker, uint64_t fingerprint = kFingerprint);
  // Both ps and both workers joined, data reported.
  void RunToRunning();

  std::vector<LeaseId> Ask(FakeMember& worker, uint32_t wanted, std::vector<LeaseId> holding = {});
  // The lease's last step is in every slice.
  void Apply(LeaseId lease);
  LeaseDone Evidence(const FakeMember& worker, LeaseId lease) const;
  void Finish(FakeMember& worker, LeaseId lease);
  void FinishAll(FakeMember& worker);
  // Answers every evaluation grant that the worker got and has not answered.
  void Evaluate(FakeMember& worker);

  // What was sent to that peer, newest last, since Forget.
  template <typename T>
  std::vector<T> Sent(PeerId to) const {
    return SentOf<T>(effects, to);
  }
  template <typename T>
  std::vector<T> Sent(const FakeMember& to) const {
    return Sent<T>(to.control);
  }
  void LetDiskGoOn();
  int HangingOn(const std::string& path) const;
  void Forget() { effects.clear(); }
  nlohmann::json Status() const { return nlohmann::json::parse(role->StatusJson(now)); }
  nlohmann::json TaskStatus(const std::string& name) const;
  std::optional<Exit> exit() const;
  SliceGrid grid() const;

  Time now{};
  int64_t unix_ms = 1700000000000;  // at Start; before 2026 the clock says nothing of terms
  std::shared_ptr<MemoryDisk> disk;
  std::unique_ptr<ChiefRole> role;
  std::vector<Effect> effects;  // all but storage
  double evaluated_loss = 0.5;  // of each example
  double trained_loss = 0.5;    // likewise, of leases
  Guesses guesses;              // as workers say
  bool disk_hangs = false;      // operations wait until LetDiskGoOn
  FakeMember ps[2];
  FakeMember worker[2];

 private:
  void Carry(std::vector<Effect> out);
  void Answer(PeerId to, const Message& message);
  SliceReport::Item GoOn(FakeMember& server, const Assign::Item& item);
  void AnswerPs(FakeMember& server, const Message& message);
  FakeMember* FindByPeer(PeerId peer);

  const JobSpec job_;
  Time next_beat_{};
  std::vector<Received> answers_;
  std::vector<Effect> hanging_;
};

}  // namespace downpour
