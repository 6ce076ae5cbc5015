#include "service/slurm_backend.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "runtime/posix/fd.h"
#include "service/slurm_batch.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::HasSubstr;

class SeenInSlurmTest : public testing::Test {
 protected:
  SeenInSlurmTest() { EXPECT_TRUE(folder_.Make().ok()); }
  RunSeen Seen(const char* state) const {
    const SlurmJob job{
        .id = "7", .state = state == nullptr ? "" : state, .name = "", .reason = "Priority", .folder = ""};
    return SeenInSlurm(state == nullptr ? nullptr : &job, folder_.Look(), folder_);
  }
  void Leave(const std::string& name, const std::string& text) const { std::ofstream(folder_.Own(name)) << text; }
  // What becomes of a job in that state.
  Job After(JobState before, const char* state) const {
    Job job{.name = "a", .state = before};
    Observe(Seen(state), 1, &job);
    return job;
  }
  ScratchFolder scratch_;
  const RunFolder folder_{scratch_.path() + "/job"};
};

TEST_F(SeenInSlurmTest, NothingIsThereBeforeItIsSubmitted) {
  EXPECT_EQ(ActFor({.name = "a", .state = JobState::kPreparing}, Seen(nullptr)), Act::kStart);
}

TEST_F(SeenInSlurmTest, WhatWaitsInItsQueueIsPreparing) {
  const RunSeen seen = Seen("PENDING");
  EXPECT_EQ(seen.message, "waits in the queue of Slurm: job 7, Priority");
  EXPECT_EQ(After(JobState::kPreparing, "PENDING").state, JobState::kPreparing);
  Leave("started", "7");
  EXPECT_EQ(After(JobState::kPreparing, "RUNNING").state, JobState::kRunning);
  EXPECT_THAT(Seen("PENDING").message, HasSubstr("put back into the queue"));
  EXPECT_EQ(After(JobState::kRunning, "PENDING").state, JobState::kRunning);
}

TEST_F(SeenInSlurmTest, AnExitCodeCountsOnceSlurmSaysThatItIsOver) {
  Leave("started", "7");
  Leave("exit", "143");
  EXPECT_EQ(After(JobState::kRunning, "RUNNING").state, JobState::kRunning) << "it may be put back into the queue";
  EXPECT_EQ(After(JobState::kRunning, "FAILED").state, JobState::kFailed);
  EXPECT_EQ(After(JobState::kCancelling, "FAILED").state, JobState::kCancelled);
  Leave("exit", "0");
  EXPECT_EQ(After(JobState::kRunning, "COMPLETED").state, JobState::kSucceeded);
  EXPECT_EQ(After(JobState::kRunning, nullptr).state, JobState::kSucceeded);
}

TEST_F(SeenInSlurmTest, HowSlurmEndsJobs) {
  Leave("started", "7");
  for (const auto& [state, words] : std::map<const char*, const char*>{{"TIMEOUT", "time limit was over"},
                                                                       {"OUT_OF_MEMORY", "more memory"},
                                                                       {"NODE_FAIL", "node failed"},
                                                                       {"PREEMPTED", "took its place"}}) {
    const Job job = After(JobState::kRunning, state);
    EXPECT_EQ(job.state, JobState::kFailed) << state;
    EXPECT_THAT(job.error, HasSubstr(words));
  }
  EXPECT_EQ(After(JobState::kRunning, "CANCELLED").state, JobState::kCancelled);
  EXPECT_THAT(After(JobState::kRunning, nullptr).error, HasSubstr("was killed"));
  Leave("out_of_time", "");
  EXPECT_THAT(After(JobState::kRunning, "FAILED").error, HasSubstr("no checkpoint had come"));
}

TEST_F(SeenInSlurmTest, ARefusalFailsTheJobUnlessTheControllerWasNotReached) {
  Leave("refused",
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n");
  EXPECT_EQ(ActFor({.name = "a", .state = JobState::kPreparing}, Seen(nullptr)), Act::kStart);
  Leave("refused", "sbatch: error: invalid partition specified: nope\n");
  EXPECT_THAT(After(JobState::kPreparing, nullptr).error, HasSubstr("invalid partition specified: nope"));
}

TEST_F(SeenInSlurmTest, WhatSlurmForgotBeforeItBeganIsNotSubmittedAgain) {
  Leave("submitted", "7");
  const Job job = After(JobState::kPreparing, nullptr);
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_THAT(job.error, HasSubstr("never began"));
}

TEST(SlurmBackendTest, WhatHasBegunSinceTheAnswerWasNotPutBack) {
  ScratchFolder scratch;
  const RunFolder folder{scratch.path() + "/job"};
  ASSERT_TRUE(folder.Make().ok());
  const Job job{.name = "a", .state = JobState::kRunning, .created_ms = 17};
  const std::string waits = absl::StrCat("7|PENDING|", SlurmNameOf(job), "|None|", folder.job_dir(), "\n");
  SlurmBackend backend({}, SlurmQueue([&] { return Said{.out = waits, .code = 0}; }, {}));
  const auto message = [&](bool asks) {
    backend.Queue({job});
    if (asks) backend.Refresh();
    return backend.Look(job, folder).message;
  };
  EXPECT_THAT(message(true), HasSubstr("waits in the queue"));
  std::ofstream(folder.Own("started")) << "7";
  EXPECT_EQ(message(false), "");
  EXPECT_THAT(message(true), HasSubstr("put back into the queue"));
}

// A cluster and a service that may be killed at any moment. Files are real; what the script does with them is told here
// again, step by step.
class SlurmWalk {
 public:
  explicit SlurmWalk(unsigned seed) : random_(seed) {
    (void)folder_.Make();
    stored_.created_ms = 17;
    Restart();
  }

  JobState Run(int steps) {
    for (int i = 0; i < steps && !IsOver(stored_.state); ++i) {
      if (Draw(60) == 0) CancelStored();
      MoveTheWorld();
      Serve();
      if (IsOver(stored_.state)) ran_on_ = Runs();
    }
    for (int i = 0; i < 200; ++i) MoveTheWorld();  // what Slurm takes up late
    return stored_.state;
  }
  int starts() const { return starts_; }
  bool ran_on() const { return ran_on_; }

 private:
  enum class Place { kPending, kRunning, kOver, kForgotten };
  struct Submission {
    int id;
    Place place;
    std::string state;
  };

  unsigned Draw(unsigned n) { return random_() % n; }
  bool Killed() { return Draw(8) == 0; }
  void Restart() {
    backend_ = std::make_unique<SlurmBackend>(BackendSettings{}, SlurmQueue([this] { return Squeue(); }, {}));
  }
  void Leave(const char* name, const std::string& text) const { std::ofstream(folder_.Own(name)) << text; }
  bool Has(const char* name) const { return std::filesystem::exists(folder_.Own(name)); }
  bool Runs() const {
    return std::any_of(submissions_.begin(), submissions_.end(),
                       [](const Submission& s) { return s.place == Place::kRunning; });
  }

  Said Squeue() const {
    if (!answers_) return {.out = "Unable to contact slurm controller (connect failure)", .code = 1};
    std::string lines;
    for (const Submission& s : submissions_) {
      if (s.place == Place::kForgotten) continue;
      absl::StrAppend(&lines, s.id, "|", s.state, "|", SlurmNameOf(stored_), "|None|", folder_.job_dir(), "\n");
    }
    return {.out = lines, .code = 0};
  }

  void Put(Place place, const char* state, Submission* s) const { s->place = place, s->state = state; }

  // sbatch, which holds the lock meanwhile: it may be killed at any point, and be told that nobody answered of a
  // submission that the controller takes up all the same.
  void Submit() {
    if (Draw(2) == 0) return;
    std::filesystem::remove(folder_.Own("refused"));
    if (Draw(4) == 0) {
      if (Draw(2) == 0) ++late_;
      if (!Killed()) Leave("refused", "sbatch: error: Socket timed out on send/recv operation");
    } else {
      submissions_.push_back({++ids_, Place::kPending, "PENDING"});
      if (!Killed()) Leave("submitted", absl::StrCat(ids_));
    }
    lock_.reset();
  }

  void Begin(Submission* s) {
    Put(Place::kRunning, "RUNNING", s);
    std::ifstream mark(folder_.Own("started"));
    int id = 0;
    if (mark >> id; id != 0 && id != s->id) return Put(Place::kOver, "FAILED", s);
    if (id == 0) Leave("started", absl::StrCat(s->id));
    if (Has("stop")) return End(s, 143);
    if (id == 0) ++starts_;
    std::filesystem::remove(folder_.Own("exit"));
  }

  void End(Submission* s, int code) const {
    Leave("exit", absl::StrCat(code));
    Put(Place::kOver, code == 0 ? "COMPLETED" : "FAILED", s);
  }

  void MoveTheWorld() {
    answers_ = Draw(5) != 0;
    if (lock_) Submit();
    if (late_ > 0 && Draw(20) == 0) {
      --late_;
      submissions_.push_back({++ids_, Place::kPending, "PENDING"});
    }
    for (Submission& s : submissions_) {
      if (s.place == Place::kPending && Draw(4) == 0) {
        Begin(&s);
      } else if (s.place == Place::kRunning && Draw(20) == 0) {
        Put(Place::kPending, "PENDING", &s);  // its node failed
      } else if (s.place == Place::kRunning && Draw(Has("stop") ? 3 : 12) == 0) {
        End(&s, Has("stop") ? 143 : static_cast<int>(Draw(2)));
      } else if (s.place == Place::kOver && Draw(6) == 0) {
        s.place = Place::kForgotten;
      }
    }
  }

  void CancelStored() {
    Job job = stored_;
    if (Cancel(1, &job).ok() && !Killed()) stored_ = job;
  }

  void Serve() {
    Job job = stored_;
    if (job.state == JobState::kQueued) {
      Admit(2, &job);
      if (Killed()) return Restart();
      stored_ = job;
    }
    backend_->Refresh();
    backend_->Queue({stored_});
    if (Draw(3) == 0) MoveTheWorld();  // the answer is older than what lies in the folder
    const RunSeen seen = backend_->Look(job, folder_);
    if (Observe(seen, 3, &job)) {
      if (Killed()) return Restart();
      stored_ = job;
    }
    const Act act = ActFor(job, seen);
    if (Killed()) return Restart();
    if (act == Act::kStart) {
      lock_ = std::make_unique<UniqueFd>(open(folder_.Own("lock").c_str(), O_RDWR | O_CREAT, 0600));
      flock(lock_->get(), LOCK_EX);
    }
    if (act == Act::kStop && answers_) {
      Leave("stop", "");
      for (Submission& s : submissions_) {
        if (s.place == Place::kPending) Put(Place::kOver, "CANCELLED", &s);
      }
    }
  }

  std::mt19937 random_;
  ScratchFolder scratch_;
  const RunFolder folder_{scratch_.path() + "/job"};
  std::unique_ptr<SlurmBackend> backend_;
  Job stored_{.name = "a"};
  std::vector<Submission> submissions_;
  std::unique_ptr<UniqueFd> lock_;
  bool answers_ = true, ran_on_ = false;
  int ids_ = 0, late_ = 0, starts_ = 0;
};

TEST(SlurmWalkTest, NoJobIsLostOrStartedTwiceWheneverAnythingIsKilled) {
  std::map<std::string, int> ends;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    SlurmWalk walk(seed);
    const JobState end = walk.Run(2000);
    ASSERT_TRUE(IsOver(end)) << "seed " << seed << ": " << NameOf(end);
    ASSERT_LE(walk.starts(), 1) << "seed " << seed;
    ASSERT_FALSE(walk.ran_on()) << "seed " << seed << ": " << NameOf(end) << " with a run that lives";
    if (end != JobState::kCancelled) {
      ASSERT_EQ(walk.starts(), 1) << "seed " << seed << ": " << NameOf(end);
    }
    ++ends[NameOf(end)];
  }
  EXPECT_EQ(ends.size(), 3u) << "each end was reached";
}

}  // namespace
}  // namespace downpour
