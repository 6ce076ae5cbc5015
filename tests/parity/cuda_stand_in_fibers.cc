// Where a build fortifies its sources, _longjmp takes a change of stacks for an overflow.
#undef _FORTIFY_SOURCE

#include "tests/parity/cuda_stand_in_fibers.h"

#include <glog/logging.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <utility>

namespace downpour {

Fiber::Fiber(std::function<void()> run) : run_(std::move(run)) {
  stack_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PCHECK(stack_ != MAP_FAILED);
}

Fiber::~Fiber() { munmap(stack_, kStackBytes); }

// Contexts serve to begin alone: to change between them asks the operating system about signals each time.
void Fiber::Begin() {
  static thread_local Fiber* beginning;
  beginning = this;
  ucontext_t context;
  PCHECK(getcontext(&context) == 0);
  context.uc_stack.ss_sp = stack_;
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(
      &context, [] { beginning->run_(); }, 0);
  begun_ = true;
  setcontext(&context);
}

void Fiber::Enter() {
  if (_setjmp(outside_) != 0) return;
  if (!begun_) Begin();
  _longjmp(inside_, 1);
}

void Fiber::Leave() {
  if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
}

}  // namespace downpour
