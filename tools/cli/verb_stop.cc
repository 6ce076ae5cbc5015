#include <poll.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cluster/follow_job.h"
#include "cluster/job_command.h"
#include "cluster/job_folder.h"
#include "cluster/status_source.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

// One last round has 20 s, the goodbyes 3 s; a disk that is slow may take the rest.
constexpr auto kEndsWithin = std::chrono::seconds(60);
constexpr auto kLookEvery = std::chrono::milliseconds(200);
constexpr auto kRunEndsWithin = std::chrono::seconds(2);  // what takes longer is told
constexpr int kRunLookMs = 50;

int ReportEnd(const Answer& end, Streams streams) {
  streams.out << EndLine(end) << "\n";
  return EndingOf(end).state == "FAILED" ? kExitFailed : kExitDone;
}

// Tells the job's chief to stop it. A stop is in no journal, so each chief that comes after is told too.
class Stopper {
 public:
  Stopper(StatusAsker& asker, Streams streams) : asker_(asker), streams_(streams) {}

  absl::Status Tell() {
    absl::StatusOr<CommandOutcome> told = CommandJob(asker_, ControlKind::kStop);
    if (!told.ok()) return told.status();
    if (told->was_over) {
      const bool by_us = term_ != 0 || told->was_said;
      if (!by_us) streams_.err << "downpour stop: the job was over already" << std::endl;
      end_ = std::move(told->before);
      return absl::OkStatus();
    }
    streams_.err << "downpour stop: " << told->words << std::endl;
    term_ = told->term;
    until_ = std::chrono::steady_clock::now() + kEndsWithin;
    return absl::OkStatus();
  }

  // Follows the job to its end.
  absl::StatusOr<Answer> AwaitEnd() {
    const auto look = [this](const Answer& answer) { return Look(answer); };
    if (end_) return *end_;
    absl::StatusOr<Answer> end = FollowToEnd(asker_, {.verb = "stop", .err = streams_.err}, look);
    if (end_) return *end_;
    return end;
  }

 private:
  absl::Status Look(const Answer& answer) {
    if (IsOver(answer)) return absl::OkStatus();
    const uint64_t term = answer.status->chief.term.value_or(0);  // 0: it still reads its folder
    if (term != 0 && term != term_) {
      streams_.err << "downpour stop: another chief leads the job now, and is told too" << std::endl;
      const absl::Status told = Tell();
      if (end_) return absl::CancelledError("the job has ended");
      if (!absl::IsUnavailable(told)) return told;  // else it may have died as well
    }
    if (std::chrono::steady_clock::now() < until_) return absl::OkStatus();
    return absl::DeadlineExceededError(
        "the job has not ended yet, though its chief was told to end it; see its status");
  }

  StatusAsker& asker_;
  Streams streams_;
  uint32_t term_ = 0;          // of the chief that was told last
  std::optional<Answer> end_;  // that was found while a chief was told
  std::chrono::steady_clock::time_point until_;
};

// A `downpour run` of this folder ends a moment after its chief: who resumes the job at once is to find it free.
void AwaitRun(const std::string& job_dir, Streams streams) {
  const auto began = std::chrono::steady_clock::now();
  for (bool told = false; !job_dir.empty() && HasRun(job_dir); poll(nullptr, 0, kRunLookMs)) {
    const auto waited = std::chrono::steady_clock::now() - began;
    if (waited >= kEndsWithin) {
      streams.err << "downpour stop: `downpour run` has not ended yet; the job can be resumed once it has" << std::endl;
      return;
    }
    if (told || waited < kRunEndsWithin) continue;
    streams.err << "downpour stop: the job has ended; waiting for `downpour run`, which still holds " << job_dir
                << std::endl;
    told = true;
  }
}

int Stop(const StatusSource& source, Streams streams) {
  auto asker = std::make_unique<StatusAsker>(source, kLookEvery);
  Stopper stopper(*asker, streams);
  if (const absl::Status told = stopper.Tell(); !told.ok()) {
    return Complain(streams, "stop", std::string(told.message()), ExitCodeOf(told));
  }
  const absl::StatusOr<Answer> end = stopper.AwaitEnd();
  asker.reset();  // the chief waits for whom it has told of the end, and the run for its chief
  if (end.ok()) {
    AwaitRun(source.job_dir, streams);
    return ReportEnd(*end, streams);
  }
  const int exit_code = ExitCodeOf(end.status());
  const char* unknown = exit_code == kExitUnreachable ? "how the job ended, or whether it did, is not known: " : "";
  return Complain(streams, "stop", unknown + std::string(end.status().message()), exit_code);
}

std::function<int()> SetUpStop(CLI::App& app, Streams streams) {
  auto source = std::make_shared<StatusSource>();
  AddSourceOptions(app, source.get());
  app.footer(
      "The job ends as CANCELLED, as if its chief got SIGTERM: every task leaves in good order. What to type to\n"
      "go on from the last checkpoint is printed. If the chief dies before that, the one that comes after it is\n"
      "told too.\n" +
      app.get_footer());
  return [source, streams] { return Stop(*source, streams); };
}

}  // namespace

const Verb kStopVerb = {"stop",
                        "End a running job after one last checkpoint, and say how to go on",
                        "  downpour stop --job-dir runs/first\n"
                        "  downpour stop --chief h0:7000 --keys keys\n",
                        "0 the job has ended and has not failed, 1 it failed or goes on, 69 the chief cannot be "
                        "reached, or went before it said how the job ended",
                        SetUpStop,
                        "cancel"};

}  // namespace downpour
