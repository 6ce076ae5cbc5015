// RunBackend: where the runs of a service's jobs are carried out, and how one is started, looked at and stopped there.
//
//   std::unique_ptr<RunBackend> backend = OpenBackend(settings);
//   backend->Refresh();                                  // each round, without the service's lock
//   const Turns turns = backend->Queue(unfinished);      // whose turn it is
//   const RunSeen seen = backend->Look(job, folder);     // lifecycle.h decides what follows
//   backend->Start(order, folder);  backend->Stop(job, folder);
//
// Shapes: one for the life of a service. What a backend knows of a run it finds again after the service was killed.
// Order: Start is called where Look saw nothing started, or an orphaned run. It leaves a mark before anything
//   runs that Look finds, so a run is started at most once whenever the service is killed.
// Errors: of Start, why the job cannot begin, and the job fails; of Stop, why nobody could be told, and it is tried
//   again. A place that does not answer is no error: Look says so in RunSeen::unknown, and the job stays as it is.
// Threads: one at a time.
// Tests: tests/unit/service/local_backend_test.cc, slurm_backend_test.cc; tests/process/test_job_service.py,
//   test_service_ssh.py, test_service_slurm.py.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/run_folder.h"
#include "service/turns.h"

namespace downpour {

// What a run is given.
struct RunOrder {
  Job job;
  std::string job_file;                     // its path
  std::vector<std::string> overrides = {};  // of the job file
  std::string module = {};                  // of Python code; empty: none
  std::vector<std::string> packages = {};   // its archives, as paths
  std::vector<std::string> arguments = {};  // of the module
  std::string plan = {};                    // of a batch prediction, in place of all of these: its path
  std::string results = {};                 // the path of its --job-dir in the store; empty: it has none
};

class RunBackend {
 public:
  virtual ~RunBackend() = default;
  virtual void Refresh() {}
  // Oldest first. Also without the lock, since it looks at the jobs' data.
  virtual Turns Queue(const std::vector<Job>& unfinished) = 0;
  virtual RunSeen Look(const Job& job, const RunFolder& folder) = 0;
  virtual absl::Status Start(const RunOrder& order, const RunFolder& folder) = 0;
  virtual absl::Status Stop(const Job& job, const RunFolder& folder) = 0;
};

enum class BackendKind { kLocal, kSsh, kSlurm };

struct BackendSettings {
  BackendKind kind = BackendKind::kLocal;
  std::string program = {};  // that `run` is a verb of
  std::string python = {};   // that jobs' Python code runs in; empty: as that verb has it
  std::string root = {};     // the service's, whose gs:// the arguments of jobs name
  std::string address = {};  // http://127.0.0.1:7000 where any job of this machine reaches that store; empty: nowhere
  // Of this machine: what jobs may take of it at a time.
  Room room = {.cores = 1};
  // How much memory a job's run takes in bytes, as far as its job file says so; 0: it does not.
  std::function<uint64_t(const JobFileResult&)> memory_of = {};
  // By ssh: deploy/cluster, its HOSTS file, and an ssh_config in place of the user's own.
  std::string launcher = {}, hosts = {}, ssh_config = {};
  int chief_port = 7000;
  // Of Slurm: options of sbatch that come behind our own.
  std::string partition = {};
  std::vector<std::string> sbatch_options = {};
};

// A root's backend stands in ROOT/backend.json, so that whoever opens the root later looks for its runs in the right
// place. Errors: of Remember, FAILED_PRECONDITION where jobs of another kind of backend are `unfinished` there.
absl::Status RememberBackend(const std::string& root, const BackendSettings& settings, bool unfinished);
// Puts what stands there into the settings; nothing is there for a root that no service has had.
absl::Status RecallBackend(const std::string& root, BackendSettings* settings);

// What a job takes: a core for each worker and each ps, memory as far as it is known, and the GPUs that it asks for. A
// tuning job takes nothing, its trials take theirs.
Room NeedOf(const Job& job, const BackendSettings& settings);

// What an order changes of its job file, and its Python code: at a command's end, of `downpour run` or deploy/cluster.
void AppendOrder(const BackendSettings& settings, const RunOrder& order, std::vector<std::string>* command);

// `downpour run` for an order. `more`: options of its own.
std::vector<std::string> RunCommand(const BackendSettings& settings, const RunOrder& order, const RunFolder& folder,
                                    const std::vector<std::string>& more = {});

}  // namespace downpour
