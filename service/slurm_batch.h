// SlurmBatch: what sbatch is given for a job's run.
//
//   WriteWhole(folder.Own("batch.sh"), BatchScript(begin, resume, folder), ...);
//   folder.Spawn(kSubmit, SbatchCommand(order, need, settings, folder));
//
// Shapes: JOB_DIR/service holds, besides what run_folder.h says
//   batch.sh      the script
//   submitted     the job's number, once sbatch has told it; `refused`: what sbatch said instead
//   started       the script's mark, with the job's number. It can be made only once: another submission of the same
//                 job ends at once. The same one, which Slurm has put back into its queue, continues from a checkpoint
//   stop          the run is to end, so it is not to begin either
//   out_of_time   Slurm's time limit was near, and no checkpoint had come since the run was started
// Order: SIGUSR1 to the script ends the run well; SIGUSR2, which Slurm sends before its time limit, ends it well and
//   puts it back into the queue. Slurm's SIGTERM to all reaches the run by itself. Twice would end it at once.
// Errors: none: the commands are quoted for the shell word by word, and the other words go to sbatch without a shell.
// Source: sbatch(1), scancel(1) of Slurm 22.05.
// Tests: tests/unit/service/slurm_batch_test.cc, tests/process/test_service_slurm.py.
#pragma once

#include <string>
#include <vector>

#include "service/backend.h"

namespace downpour {

// By which Slurm's queue knows the job, for all of its life.
std::string SlurmNameOf(const Job& job);

// `begin` and `resume`: the commands of a first start and of a later one.
std::string BatchScript(const std::vector<std::string>& begin, const std::vector<std::string>& resume,
                        const RunFolder& folder);

// For RunFolder::Spawn: submits, and leaves `submitted` or `refused`.
extern const char* const kSubmit;

std::vector<std::string> SbatchCommand(const RunOrder& order, const Room& need, const BackendSettings& settings,
                                       const RunFolder& folder);

}  // namespace downpour
