#include "tests/sim/trace_files.h"

#include <glog/logging.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "runtime/posix/trace_file.h"

namespace downpour {

void WriteTraces(const std::string& dir, const World& world, const InvariantChecker& checker, const Oracle& oracle) {
  world.ForEach([&](const Process& process) {
    const auto records = checker.traces().find(process.life);
    if (records == checker.traces().end()) return;
    absl::StatusOr<TraceFile> file =
        TraceFile::Open(absl::StrCat(dir, "/", process.name, "-", static_cast<uint32_t>(process.life), ".trace"));
    CHECK(file.ok()) << file.status();
    for (const TraceRecord& record : records->second) file->Append(record);
    file->Flush();
  });
  const TrainingSpec& training = oracle.job().training;
  std::ofstream(dir + "/plan") << "--examples=" << oracle.plan().train_examples()
                               << "\n--batch-size=" << training.batch_size
                               << "\n--lease-batches=" << training.lease_batches
                               << "\n--epochs=" << checker.goal() / oracle.plan().leases_per_epoch()
                               << "\n--push-every=" << training.step_batches() << "\n--slices=" << oracle.grid().size()
                               << "\n--sync-group="
                               << (training.consistency == Consistency::kSync ? training.group_size : 0) << "\n";
}

}  // namespace downpour
