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
  std::ofstream plan(dir + "/plan");
  for (const EarlierEpochs& earlier : training.earlier) {
    plan << "--earlier=" << earlier.epochs << ":" << earlier.examples << "\n";
  }
  plan << "--examples=" << oracle.plan().train_examples() << "\n--batch-size=" << training.batch_size
       << "\n--lease-batches=" << training.lease_batches
       << "\n--epochs=" << oracle.plan().EpochOf(LeaseId{checker.goal()})
       << "\n--push-every=" << training.step_batches() << "\n--slices=" << oracle.grid().size()
       << "\n--sync-group=" << (training.consistency == Consistency::kSync ? training.group_size : 0) << "\n";
}

}  // namespace downpour
