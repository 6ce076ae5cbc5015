#include "cluster/status_source.h"

#include <poll.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/job_folder.h"
#include "runtime/exit_code.h"
#include "runtime/posix/keys.h"
#include "runtime/posix/process.h"
#include "schema/text.h"

namespace downpour {
namespace {

// A `downpour run` starts its chief again, which then says again where it listens.
constexpr auto kBackWithin = std::chrono::seconds(5);
constexpr int kLookEveryMs = 100;

// A chief that has gone left a summary, unless it was killed: then there is none, or one of an earlier chief.
absl::StatusOr<Answer> ReadSummary(const std::string& job_dir) {
  const absl::StatusOr<ChiefLocation> location = ReadChiefLocation(job_dir);
  if (!location.ok()) return location.status();
  absl::StatusOr<FoundSummary> found = ReadSummaryOf(job_dir, location->term);
  if (!found.ok()) return found.status();
  // A chief's answer has been through the codec, which takes nothing that drives a terminal.
  return Answer{CleanText(found->json, found->json.size()), std::nullopt, std::move(found->summary)};
}

// What another process or a file says is no matter of the command line.
absl::Status NotOfTheCommandLine(const std::string& where, const absl::Status& status) {
  return absl::DataLossError(absl::StrCat(where, ": ", std::string(status.message())));
}

// Of a chief that does not answer, where to look for it.
absl::Status WithProcess(const absl::Status& status, const std::string& job_dir, const ChiefLocation& location) {
  if (!absl::IsUnavailable(status) || location.pid == 0 || location.host.empty()) return status;
  return absl::UnavailableError(absl::StrCat(std::string(status.message()), ". ", job_dir, "/chief.json names process ",
                                             location.pid, " on ", location.host));
}

// A job whose run holds the folder, and of which no chief has listened yet.
std::string HowItStarts(const std::string& job_dir) {
  const std::string said = SaidInJobFolder(job_dir);
  const std::string at = said.empty() ? ", and its chief has not said yet where it listens: ask again in a moment"
                                      : absl::StrCat(": ", said);
  return absl::StrCat("the job of ", job_dir, " is being started", at);
}

// Whether this is the chief of the folder: the one that chief.json names, or one that is about to name itself there.
bool Leads(const StatusReport& status, const ChiefLocation& location, const std::string& job_dir) {
  if (!status.chief.pid || *status.chief.pid == static_cast<uint64_t>(location.pid)) return true;
  std::error_code ignored;
  return status.chief.host == HostName() &&
         std::filesystem::equivalent(std::filesystem::path(status.chief.job_dir), job_dir, ignored);
}

}  // namespace

void AddSourceOptions(CLI::App& app, StatusSource* source) {
  CLI::Option* chief = app.add_option("--chief", source->chief, "Where the chief listens")->type_name("HOST:PORT");
  app.add_option("--job-dir", source->job_dir, "The job folder, which knows where its chief listens")->excludes(chief);
  app.add_option("--keys", source->keys,
                 "The folder of the cluster's keys (default: $DOWNPOUR_KEYS, else keys in the job folder)")
      ->type_name("DIR");
  app.callback([&app, source] {
    if (source->chief.empty() && source->job_dir.empty()) {
      throw CLI::RequiredError("--chief HOST:PORT or --job-dir DIR");
    }
  });
}

StatusAsker::~StatusAsker() {
  if (knows_end_ && chief_) chief_->TakeLeave();
}

void StatusAsker::Pause() {
  if (chief_) return chief_->WaitForNews(again_in_);
  poll(nullptr, 0, static_cast<int>(again_in_ / 1ms));
}

absl::StatusOr<Answer> StatusAsker::Ask() {
  const auto until = std::chrono::steady_clock::now() + kBackWithin;
  while (true) {
    absl::StatusOr<Answer> answer = AskOnce();
    const bool may_come = absl::IsUnavailable(answer.status()) && !job_dir_.empty() && HasRun(job_dir_);
    if (!may_come || std::chrono::steady_clock::now() >= until) return answer;
    poll(nullptr, 0, kLookEveryMs);
  }
}

absl::StatusOr<ControlReply> StatusAsker::Tell(const Control& command) {
  if (!chief_) return absl::UnavailableError("no chief has answered yet");
  absl::StatusOr<ControlReply> reply = chief_->Tell(command, kStatusTimeout);
  if (!reply.ok()) chief_.reset();
  return reply;
}

absl::StatusOr<Answer> StatusAsker::AskOnce() {
  absl::StatusOr<Answer> answer = AskChief();
  if (answer.ok() && answer->status->chief.host == HostName()) job_dir_ = answer->status->chief.job_dir;
  if (answer.ok() || job_dir_.empty()) return answer;
  chief_.reset();
  absl::StatusOr<Answer> summary = ReadSummary(job_dir_);
  if (summary.ok() && heard_ && IsAnotherRun(heard_->run, summary->summary->run)) {
    return absl::NotFoundError(
        absl::StrCat("the summary in ", job_dir_, " is of another run now, of the job ", summary->summary->job));
  }
  if (summary.ok() || !absl::IsUnavailable(answer.status())) return summary.ok() ? summary : answer;
  const absl::StatusOr<ChiefLocation> chief = ReadChiefLocation(job_dir_);
  if (!chief.ok() || !HasGone(*chief, job_dir_)) return answer;
  return absl::UnavailableError(HowItWasLeft(job_dir_, *chief));
}

absl::StatusOr<Answer> StatusAsker::AskChief() {
  std::string endpoint = source_.chief;
  std::optional<ChiefLocation> location;
  if (endpoint.empty()) {
    const absl::StatusOr<ChiefLocation> found = ReadChiefLocation(source_.job_dir);
    if (absl::IsNotFound(found.status())) {
      return absl::UnavailableError(HasRun(source_.job_dir) ? HowItStarts(source_.job_dir)
                                                            : std::string(found.status().message()));
    }
    if (absl::IsUnauthenticated(found.status())) return found.status();
    if (!found.ok()) return NotOfTheCommandLine(source_.job_dir, found.status());
    location = *found;
    endpoint = location->endpoint;
  }
  if (!chief_ || chief_->endpoint() != endpoint) {
    absl::StatusOr<ChiefClient> client =
        ChiefClient::DialWithKeysIn(KeysFolder(source_.keys, source_.job_dir), endpoint);
    if (!client.ok()) {
      return source_.chief.empty() ? NotOfTheCommandLine(source_.job_dir, client.status()) : client.status();
    }
    chief_.emplace(*std::move(client));
    chief_->AskAgainIn(again_in_);
  }
  chief_->UseSecret(location ? location->secret : "");  // another one with each chief, maybe at the same address
  absl::StatusOr<std::string> json = chief_->AskStatus(kStatusTimeout);
  if (location && absl::IsUnauthenticated(json.status())) {
    return absl::UnavailableError(absl::StrCat("the chief of ", source_.job_dir, " has gone: at ", endpoint,
                                               " there is another chief, of this job or another one. If this job's ",
                                               "is being started, ask again in a moment"));
  }
  if (!json.ok()) return location ? WithProcess(json.status(), source_.job_dir, *location) : json.status();
  absl::StatusOr<StatusReport> status = ParseStatus(*json);
  if (!status.ok()) return NotOfTheCommandLine("the chief at " + endpoint, status.status());
  // The port may serve another job by now.
  if (location && !Leads(*status, *location, source_.job_dir)) {
    return absl::UnavailableError(absl::StrCat("the chief of ", source_.job_dir, " has gone: at ", endpoint,
                                               " there is the chief of another job, ", status->job));
  }
  if (const absl::Status same = CheckRun(*status, endpoint); !same.ok()) return same;
  knows_end_ = HasEnded(*status) && again_in_ > Duration::zero();
  const bool is_elsewhere = location == std::nullopt && status->chief.host != HostName();
  return Answer{*std::move(json), *std::move(status), std::nullopt, is_elsewhere};
}

// Whoever asks for one job must not be told of another, nor end it: a port, or a folder, may serve another run by now.
// A chief that still reads its folder does not know its run, but has its job's name.
absl::Status StatusAsker::CheckRun(const StatusReport& status, const std::string& endpoint) {
  if (!heard_) heard_ = Heard{status.job, status.run};
  const bool either_unknown = heard_->run.empty() || status.run.empty();
  if (either_unknown ? heard_->job != status.job : IsAnotherRun(heard_->run, status.run)) {
    return absl::NotFoundError(absl::StrCat("the chief of ", heard_->job, " has gone: at ", endpoint,
                                            " there is the chief of another run now, of the job ", status.job));
  }
  if (heard_->run.empty()) heard_->run = status.run;
  return absl::OkStatus();
}

int ExitCodeOfEnd(const std::string& state, const MaybeCount& chiefs) {
  if (state == "SUCCEEDED") return kExitDone;
  return chiefs == kExitOutOfTime ? kExitOutOfTime : kExitFailed;
}

int ExitCodeOf(const absl::Status& status) {
  if (absl::IsUnavailable(status) || absl::IsNotFound(status) || absl::IsUnauthenticated(status)) {
    return kExitUnreachable;
  }
  return absl::IsInvalidArgument(status) ? kExitBadCommandLine : kExitFailed;
}

}  // namespace downpour
