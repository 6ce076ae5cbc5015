#include "chief/assignment.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

ServerId IdOf(const Task& task) { return {task.index, task.incarnation}; }

}  // namespace

void Assignment::Place(uint32_t term, const std::vector<Task*>& servers, uint64_t train_examples,
                       SliceRestore::Sources sources) {
  train_examples_ = train_examples;
  restore_.Open(train_examples, std::move(sources));
  placement_.Begin(term);
  for (const Task* task : servers) placement_.Add(IdOf(*task), task->name, task->process.endpoint);
  const std::vector<uint32_t> server_of = SpreadSlices(placement_.grid(), static_cast<uint32_t>(servers.size()));
  for (const Slice& slice : placement_.grid().slices) Move(slice.id, *servers[server_of[ToNumber(slice.id)]]);
  restore_.Tick();
}

void Assignment::TakeOver(const std::vector<Task*>& servers, std::vector<Manifest> checkpoints) {
  restore_.Learn(std::move(checkpoints));
  for (const Task* task : servers) {
    const ServerId* found = placement_.FindNumber(task->index);
    // B11: only where another process has come.
    if (found == nullptr || *found == IdOf(*task)) continue;
    const ServerId before = *found;
    const std::vector<SliceId> slices = placement_.At(before).slices;
    placement_.Add(IdOf(*task), task->name, task->process.endpoint);
    for (const SliceId slice : slices) Move(slice, *task);
    placement_.Remove(before);
  }
  restore_.Tick();
}

// What it held under an earlier chief spares a restore (core 6).
void Assignment::Move(SliceId slice, const Task& to) {
  placement_.Move(slice, IdOf(to));
  restore_.Begin(slice, to.holds ? SliceRestore::From::kPs : SliceRestore::From::kRecord);
}

void Assignment::Follow(const Task& server) {
  const ServerId* id = placement_.Find(server.incarnation);
  if (id == nullptr) return;
  const std::string& before = placement_.At(*id).endpoint;
  const std::string& now = server.process.endpoint;
  if (before == now) return;
  context_.out.Info(absl::StrCat(server.name, " is at ", now, " now, and was at ", before));
  placement_.SetEndpoint(*id, now);
}

}  // namespace downpour
