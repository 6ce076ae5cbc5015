#include "service/job_service.h"

#include <fcntl.h>
#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/posix/lock.h"
#include "runtime/posix/package.h"
#include "runtime/posix/process.h"
#include "runtime/posix/whole_file.h"
#include "schema/text.h"
#include "service/log_times.h"
#include "service/resumed.h"
#include "service/submission.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Those that a trainingInput names, whatever else is wrong with it.
std::vector<std::string> PackagesIn(const json& input) {
  std::vector<std::string> packages;
  const auto uris = input.is_object() ? input.find("packageUris") : input.end();
  if (!input.is_object() || uris == input.end() || !uris->is_array()) return packages;
  for (const json& uri : *uris) {
    if (uri.is_string()) packages.push_back(uri.get<std::string>());
  }
  return packages;
}

std::string PackagesPlace() { return absl::StrCat("gs://", kPackagesBucket, "/"); }

// The job's name under which `downpour jobs submit` puts a package; empty of one that lies elsewhere.
std::string UploadedFor(const std::string& uri) {
  const std::string place = PackagesPlace();
  if (!uri.starts_with(place)) return "";
  const size_t end = uri.find('/', place.size());
  return end == std::string::npos ? "" : uri.substr(place.size(), end - place.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobService>> JobService::Open(ServiceSettings settings) {
  std::error_code error;
  settings.root = fs::absolute(settings.root).lexically_normal();
  fs::create_directories(fs::path(settings.root) / "jobs", error);
  fs::permissions(settings.root, fs::perms::owner_all, error);  // code, data and logs of this user's
  const std::string path = settings.root + "/lock";
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write in ", settings.root));
  if (const int refusal = settings.waits_for_root ? KeepLock(lock.get()) : TakeLock(lock.get()); refusal != 0) {
    if (refusal != EWOULDBLOCK) return absl::ErrnoToStatus(refusal, absl::StrCat("cannot lock ", path));
    return absl::AlreadyExistsError(absl::StrCat("a service is at work in ", settings.root));
  }
  absl::StatusOr<std::unique_ptr<JobStore>> store = JobStore::Open(settings.root + "/jobs.sqlite");
  if (!store.ok()) return store.status();
  absl::StatusOr<std::vector<std::string>> found = TakeUpLostJobs(settings.root, store->get());
  if (!found.ok()) return found.status();
  const absl::StatusOr<std::vector<Job>> unfinished = (*store)->Unfinished();
  if (!unfinished.ok()) return unfinished.status();
  const absl::Status known = settings.recalls_backend
                                 ? RecallBackend(settings.root, &settings.backend)
                                 : RememberBackend(settings.root, settings.backend, !unfinished->empty());
  if (!known.ok()) return known;
  std::unique_ptr<JobService> service(new JobService(std::move(settings), std::move(lock), *std::move(store)));
  service->found_ = *std::move(found);
  return service;
}

RunFolder JobService::FolderOf(const std::string& name) const { return RunFolder(JobFolderOf(settings_.root, name)); }

absl::StatusOr<Job> JobService::Submit(std::string_view body) {
  absl::StatusOr<Job> job = Accept(body);
  // Elsewhere the same request may succeed later, and needs its packages then.
  const bool is_for_good = absl::IsInvalidArgument(job.status()) || absl::IsAlreadyExists(job.status());
  const json said = is_for_good ? ParseJson(body).value_or(json()) : json();
  const json name = said.is_object() ? said.value("jobId", json()) : json();
  if (name.is_string() && !name.get_ref<const std::string&>().empty()) {
    std::vector<std::string> own = PackagesIn(said.value("trainingInput", json()));
    std::erase_if(own, [&](const std::string& uri) { return UploadedFor(uri) != name; });
    const std::lock_guard hold(mutex_);
    (void)RemoveUnusedPackages(own, "");  // why the job is refused is told, not this
  }
  return job;
}

absl::StatusOr<Job> JobService::Accept(std::string_view body) {
  absl::StatusOr<Job> job = ReadJob(body);
  if (!job.ok()) return job.status();
  const json input = json::parse(job->training_input);
  if (IsPrediction(*job)) {
    if (settings_.backend.kind != BackendKind::kLocal) {
      return absl::InvalidArgumentError(
          "predictionInput: this service runs its jobs elsewhere, and batch predictions "
          "run on its own machine alone: ask a service without --backend");
    }
    if (const absl::StatusOr<BatchPlan> plan = PlanOf(*job); !plan.ok()) return plan.status();
  }
  const std::lock_guard hold(mutex_);  // so that no job's end takes a package away that was just found
  std::string missing;
  for (const std::string& uri : PackagesIn(input)) {
    const absl::StatusOr<std::string> path = objects_.PathOf(uri);
    if (!path.ok()) return path.status();
    if (std::error_code ignored; !fs::is_regular_file(*path, ignored)) missing = uri;
  }
  if (const std::string uri = input.value("jobDir", ""); !uri.empty()) {
    if (const auto path = objects_.PathOf(uri); !path.ok()) return path.status();
  }
  if (!missing.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("trainingInput.packageUris: there is no package ", missing, " in the service's store: upload it ",
                     "first, and submit again. gcloud and `downpour jobs submit` do both"));
  }
  job->id = NewSubmissionId();
  job->created_ms = UnixMs();
  const std::string job_dir = FolderOf(job->name).job_dir();
  if (std::error_code ignored; !store_->Find(job->name).ok() && fs::exists(job_dir, ignored)) {
    return absl::AlreadyExistsError(absl::StrCat("the folder ", job_dir, " is of a job that this service does not ",
                                                 "know: move it away, or choose another name"));
  }
  if (const absl::Status status = store_->Insert(*job); !status.ok()) return status;
  // So that a store that is lost has the job again, also of one that waits.
  if (const absl::Status claimed = ClaimFolder(*job, FolderOf(job->name)); !claimed.ok()) {
    const absl::Status removed = store_->Remove(job->name);
    return removed.ok() ? claimed : removed;
  }
  return job;
}

// With what is not stored of it.
void JobService::Complete(Job* job) const {
  const auto found = messages_.find(job->name);
  if (found != messages_.end() && !IsOver(job->state)) job->state_message = found->second;
  ShowWhatItsFolderDoes(FolderOf(job->name), job);
}

absl::StatusOr<Job> JobService::Find(const std::string& name) {
  const std::lock_guard hold(mutex_);
  absl::StatusOr<Job> job = store_->Find(name);
  if (job.ok()) Complete(&*job);
  return job;
}

absl::StatusOr<std::vector<Job>> JobService::All() {
  const std::lock_guard hold(mutex_);
  absl::StatusOr<std::vector<Job>> jobs = store_->All();
  if (!jobs.ok()) return jobs.status();
  for (Job& job : *jobs) Complete(&job);
  return jobs;
}

absl::StatusOr<std::vector<Job>> JobService::Trials(const std::string& tuning) {
  const std::lock_guard hold(mutex_);
  return store_->Trials(tuning);
}

absl::Status JobService::Cancel(const std::string& name) {
  const std::lock_guard hold(mutex_);
  absl::StatusOr<Job> job = store_->Find(name);
  if (!job.ok()) return job.status();
  if (const RunFolder folder = FolderOf(name); IsResumed(*job, folder)) {
    return absl::FailedPreconditionError(absl::StrCat("the job ", name, ": ", HowToEndIt(folder)));
  }
  if (const absl::Status status = downpour::Cancel(UnixMs(), &*job); !status.ok()) return status;
  return Keep(*job);
}

absl::StatusOr<Job> JobService::SetLabels(const std::string& name, const Labels& labels, const std::string& etag) {
  const std::lock_guard hold(mutex_);
  absl::StatusOr<Job> job = store_->Find(name);
  if (!job.ok()) return job.status();
  if (!etag.empty() && ResourceOf(*job)["etag"] != etag) {
    return absl::AbortedError(absl::StrCat("the job ", name, " has changed since it was read: read it again"));
  }
  job->labels = labels;
  ++job->revision;
  if (const absl::Status status = store_->Update(*job); !status.ok()) return status;
  return job;
}

absl::Status JobService::Delete(const std::string& name) {
  const std::lock_guard hold(mutex_);
  const absl::StatusOr<Job> job = store_->Find(name);
  if (!job.ok()) return job.status();
  if (!IsOver(job->state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job ", name, " is ", NameOf(job->state), ": cancel it first"));
  }
  if (const RunFolder folder = FolderOf(name); IsResumed(*job, folder)) {
    return absl::FailedPreconditionError(absl::StrCat("the job ", name, ": ", HowToEndIt(folder)));
  }
  // The folder first: were the name free with a mark in its folder, a job of that name could never start.
  std::error_code error;
  if (IsFolderOf(*job, FolderOf(name))) fs::remove_all(FolderOf(name).job_dir(), error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot remove the job's folder: ", error.message()));
  const absl::Status removed = RemoveUnusedPackages(PackagesIn(json::parse(job->training_input)), name);
  return removed.ok() ? store_->Remove(name) : removed;
}

absl::Status JobService::RemoveUnusedPackages(const std::vector<std::string>& uris, const std::string& goes) {
  std::map<std::string, std::string> unused;  // URIs by their paths
  for (const std::string& uri : uris) {
    const absl::StatusOr<std::string> path = objects_.PathOf(uri);
    if (path.ok() && uri.starts_with(PackagesPlace())) unused[*path] = uri;
  }
  if (unused.empty()) return absl::OkStatus();
  const absl::StatusOr<std::vector<Job>> jobs = store_->All();
  if (!jobs.ok()) return jobs.status();
  for (const Job& job : *jobs) {
    if (job.name == goes) continue;
    for (const std::string& uri : PackagesIn(json::parse(job.training_input))) {
      unused.erase(objects_.PathOf(uri).value_or(""));
    }
  }
  for (const auto& [path, uri] : unused) {
    if (const absl::Status removed = objects_.Remove(uri); !removed.ok()) return removed;
  }
  return absl::OkStatus();
}

absl::Status JobService::Work() {
  backend_->Refresh();
  absl::Status first = AdmitThoseWhoseTurnItIs();  // what goes wrong with one job does not hold up others
  absl::StatusOr<std::vector<Job>> jobs;
  {
    const std::lock_guard hold(mutex_);
    jobs = store_->Unfinished();
  }
  if (!jobs.ok()) return jobs.status();
  for (const Job& job : *jobs) {
    if (job.state == JobState::kQueued) continue;
    first.Update(IsTuning(job) ? tuner_.Work(job.name) : WorkOn(job.name));
  }
  return first;
}

absl::Status JobService::AdmitThoseWhoseTurnItIs() {
  std::unique_lock hold(mutex_);
  absl::StatusOr<std::vector<Job>> jobs = store_->Unfinished();
  if (!jobs.ok()) return jobs.status();
  hold.unlock();
  Turns turns = backend_->Queue(*jobs);
  hold.lock();
  std::map<std::string, std::string> messages;
  for (const Job& job : *jobs) {
    const bool has_run = job.state != JobState::kQueued && !IsTuning(job);
    if (has_run && messages_.contains(job.name)) messages[job.name] = messages_[job.name];
  }
  messages.merge(WaitsOfSearches(*jobs, turns.waits));
  messages.merge(turns.waits);
  for (const auto& [name, trouble] : tuner_.troubles()) {
    std::string& message = messages[name];
    message = message.empty() ? trouble : absl::StrCat(trouble, "; ", message);
  }
  messages_ = std::move(messages);
  // Nothing of one that was cancelled meanwhile, also where another one has its name by now.
  const auto still_queued = [&](const std::string& name) {
    const auto judged = std::ranges::find(*jobs, name, &Job::name);
    const absl::StatusOr<Job> job = store_->Find(name);
    const bool is_same = job.ok() && job->state == JobState::kQueued && job->id == judged->id;
    return is_same ? std::optional(*job) : std::nullopt;
  };
  absl::Status first;
  for (const auto& [name, why] : turns.refused) {
    if (std::optional<Job> job = still_queued(name)) first.Update(RefuseToStart(why, &*job));
  }
  for (const std::string& name : turns.admitted) {
    std::optional<Job> job = still_queued(name);
    if (!job) continue;
    Admit(UnixMs(), &*job);
    first.Update(Keep(*job));
  }
  return first;
}

absl::Status JobService::RefuseToStart(const std::string& why, Job* job) {
  const RunFolder folder = FolderOf(job->name);
  if (ClaimFolder(*job, folder).ok()) folder.Note('E', why);
  Refuse(why, UnixMs(), job);
  ReportToSearch(*job);
  return Keep(*job);
}

absl::Status JobService::Keep(const Job& job) { return KeepJob(job, FolderOf(job.name), store_.get()); }

// What is new of a job that its client cannot see otherwise.
void JobService::NoteMessage(const Job& job, const std::string& message) {
  std::string& before = messages_[job.name];
  if (before == message) return;
  before = message;
  if (!message.empty()) FolderOf(job.name).Note('I', message);
}

// In the log before in the store, as how a search ends.
void JobService::ReportToSearch(const Job& trial) {
  if (!trial.trial) return;
  const bool was_stopped = trial.state == JobState::kSucceeded && trial.trial->stopped_early;
  if (was_stopped) FolderOf(trial.name).Note('I', "was stopped early: others were better by the same step");
  if (trial.state != JobState::kFailed) return;
  FolderOf(trial.name.substr(0, trial.name.find('/')))
      .Note('W', absl::StrCat("trial ", TrialNumber(trial.name), " failed: ", trial.error));
}

absl::Status JobService::WorkOn(const std::string& name) {
  const RunFolder folder = FolderOf(name);
  absl::StatusOr<Job> job;
  Act act = Act::kNone;
  {
    const std::lock_guard hold(mutex_);
    job = store_->Find(name);
    if (!job.ok() || IsOver(job->state)) return absl::OkStatus();
    const bool is_own = IsFolderOf(*job, folder);
    RunSeen seen = is_own ? backend_->Look(*job, folder) : RunSeen{.error = "its folder is another submission's"};
    if (job->trial && seen.started && !seen.alive) ReadObjective(folder.job_dir(), job->trial->metric, &seen);
    if (Observe(seen, UnixMs(), &*job)) {
      ReportToSearch(*job);
      if (const absl::Status status = Keep(*job); !status.ok()) return status;
    }
    NoteMessage(*job, seen.message);
    if (is_own) NoteLogTime(folder.job_dir(), UnixMs());
    act = ActFor(*job, seen);
  }
  if (act == Act::kStart) return Start(*job);
  if (act == Act::kReattach) return Reattach(*job);
  if (act == Act::kStop && !folder.WasTold() && backend_->Stop(*job, folder).ok()) folder.RememberTold(true);
  return absl::OkStatus();
}

absl::Status JobService::Start(const Job& job) {
  absl::Status begun = Stage(job);  // may take long, so clients are not kept from the store
  const std::lock_guard hold(mutex_);
  absl::StatusOr<Job> now = store_->Find(job.name);
  if (!now.ok() || now->state != JobState::kPreparing) return absl::OkStatus();  // cancelled meanwhile
  const RunFolder folder = FolderOf(job.name);
  if (begun.ok()) {
    const absl::StatusOr<RunOrder> order = OrderOf(*now);
    begun = order.ok() ? backend_->Start(*order, folder) : order.status();
  }
  return begun.ok() ? begun : RefuseToStart(std::string(begun.message()), &*now);
}

// A run that lives and has no follower. One that cannot be started now is started in a later round.
absl::Status JobService::Reattach(const Job& job) {
  const absl::StatusOr<RunOrder> order = OrderOf(job);
  if (!order.ok() || !backend_->Start(*order, FolderOf(job.name)).ok()) return absl::OkStatus();
  // A follower knows from its order that the job is to end. A signal as it begins would end it before it hears that.
  FolderOf(job.name).RememberTold(job.state == JobState::kCancelling);
  return absl::OkStatus();
}

// May be done twice, as by a service that was killed on the way.
absl::Status JobService::Stage(const Job& job) const {
  const RunFolder folder = FolderOf(job.name);
  if (const absl::Status claimed = ClaimFolder(job, folder); !claimed.ok()) return claimed;
  for (const std::string& uri : PackagesIn(json::parse(job.training_input))) {
    const absl::StatusOr<std::string> archive = objects_.PathOf(uri);
    if (!archive.ok()) return archive.status();
    if (!fs::is_regular_file(*archive)) {
      return absl::NotFoundError(absl::StrCat("there is no package ", uri, " in the service's store"));
    }
  }
  if (IsPrediction(job)) {
    const absl::StatusOr<BatchPlan> plan = PlanOf(job);
    return plan.ok() ? WritePlan(*plan, folder.Own("plan.json")) : plan.status();
  }
  SayWhatIsNotHonoured(job);
  return WriteWhole(folder.Own("job.json"), JobFileOf(job), 0644, WhereThere::kReplace);
}

void JobService::SayWhatIsNotHonoured(const Job& job) const {
  const RunFolder folder = FolderOf(job.name);
  for (const JobError& warning : ReadInput(job).warnings) {
    folder.Note('W', absl::StrCat(warning.key, " ", warning.what));
  }
}

// The files that a URI names, whose last part may have * and ?.
absl::StatusOr<std::vector<std::string>> JobService::FilesOf(const std::string& uri) const {
  const size_t wild = uri.find_first_of("*?"), slash = uri.rfind('/', wild);
  const bool is_one = wild == std::string::npos;
  const absl::StatusOr<std::string> path = objects_.PathOf(is_one ? uri : uri.substr(0, slash));
  if (!path.ok()) return path.status();
  if (is_one) return std::vector<std::string>{*path};
  const std::string pattern = *path + uri.substr(slash);
  std::vector<std::string> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(*path, error)) {
    const bool fits = fnmatch(pattern.c_str(), entry.path().c_str(), FNM_PATHNAME | FNM_PERIOD | FNM_NOESCAPE) == 0;
    if (fits && entry.is_regular_file(error)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

absl::StatusOr<BatchPlan> JobService::PlanOf(const Job& job) const {
  const BatchInput input = BatchInputOf(job);
  const absl::StatusOr<FoundOrigin> model = find_model_(input);
  if (!model.ok()) return model.status();
  BatchPlan plan{.model = model->path,
                 .checkpoint = model->checkpoint,
                 .inputs = {},
                 .output = {},
                 .python = settings_.backend.python};
  for (const std::string& uri : input.inputs) {
    const absl::StatusOr<std::vector<std::string>> files = FilesOf(uri);
    if (!files.ok()) return files.status();
    std::error_code error;
    const bool are_files =
        std::ranges::all_of(*files, [&](const std::string& path) { return fs::is_regular_file(path, error); });
    if (files->empty() || !are_files) {
      return absl::FailedPreconditionError(
          absl::StrCat("predictionInput.inputPaths: there is no file ", OneLine(uri, 300), " in the service's store"));
    }
    plan.inputs.insert(plan.inputs.end(), files->begin(), files->end());
  }
  const absl::StatusOr<std::string> output = objects_.PathOf(input.output);
  if (!output.ok()) return output.status();
  plan.output = *output;
  plan.progress = BatchProgressPath(FolderOf(job.name).job_dir());
  return plan;
}

absl::StatusOr<RunOrder> JobService::OrderOf(const Job& job) const {
  const RunFolder folder = FolderOf(job.name);
  const json input = json::parse(job.training_input);
  RunOrder order{.job = job, .job_file = folder.Own("job.json"), .module = input.value("pythonModule", "")};
  if (IsPrediction(job)) {
    order.plan = folder.Own("plan.json");
    return order;
  }
  order.overrides = OverridesOf(job);
  if (order.module.empty()) return order;
  for (const std::string& uri : PackagesIn(input)) {
    absl::StatusOr<std::string> archive = objects_.PathOf(uri);
    if (!archive.ok()) return archive.status();
    order.packages.push_back(*std::move(archive));
  }
  for (const json& word : input.value("args", json::array())) order.arguments.push_back(word.get<std::string>());
  if (const std::string uri = input.value("jobDir", ""); !uri.empty()) {
    absl::StatusOr<std::string> path = objects_.PathOf(uri);
    if (!path.ok()) return path.status();
    if (job.trial) absl::StrAppend(&*path, "/", TrialNumber(job.name));  // as on AI Platform: each trial has its own
    std::error_code ignored;
    fs::create_directories(*path, ignored);
    order.arguments.insert(order.arguments.end(), {"--job-dir", *path});
    order.results = *std::move(path);
  }
  if (!job.trial) return order;
  for (const auto& [name, value] : job.trial->values) order.arguments.push_back(absl::StrCat("--", name, "=", value));
  return order;
}

}  // namespace downpour
