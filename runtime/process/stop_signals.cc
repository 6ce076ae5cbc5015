#include "runtime/process/stop_signals.h"

#include <glog/logging.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "runtime/posix/process.h"

namespace downpour {
namespace {

void SetMask(int how, const sigset_t& set) {
  errno = pthread_sigmask(how, &set, nullptr);
  PCHECK(errno == 0) << "pthread_sigmask";
}

// The next one finds this thread: so it ends the process even where the others are stuck.
void EndByTheNext(const sigset_t& heard) {
  for (const int signal : {SIGTERM, SIGINT}) {
    if (sigismember(&heard, signal) == 1) std::signal(signal, SIG_DFL);
  }
  SetMask(SIG_UNBLOCK, heard);
}

// Whether the first of the descriptors became readable, rather than the second.
bool Await(int first, int second) {
  pollfd either[] = {{first, POLLIN, 0}, {second, POLLIN, 0}};
  while (poll(either, 2, -1) < 0) PCHECK(errno == EINTR) << "poll";
  return either[1].revents == 0;
}

}  // namespace

StopSignals::StopSignals() : heard_(SigtermAnd({SIGINT})), ending_(eventfd(0, EFD_CLOEXEC)) {
  SetMask(SIG_BLOCK, heard_);
  PCHECK(std::signal(SIGPIPE, SIG_IGN) != SIG_ERR) << "signal";
  signals_ = UniqueFd(signalfd(-1, &heard_, SFD_CLOEXEC));
  PCHECK(ending_.ok() && signals_.ok()) << "signalfd";
  thread_ = std::thread([this] { Listen(); });
}

StopSignals::~StopSignals() {
  const uint64_t one = 1;
  PCHECK(write(ending_.get(), &one, sizeof(one)) == sizeof(one)) << "eventfd";
  thread_.join();
}

void StopSignals::DeliverTo(Mailbox* mailbox) {
  std::lock_guard lock(mutex_);
  mailbox_ = mailbox;
}

void StopSignals::Listen() {
  if (!Await(signals_.get(), ending_.get())) return;
  const int signal = Take();
  {
    std::lock_guard lock(mutex_);
    if (mailbox_ == nullptr) {
      EndByTheNext(heard_);
      raise(signal);
    }
    mailbox_->Post(StopRequested{signal});
  }
  pollfd end = {ending_.get(), POLLIN, 0};
  poll(&end, 1, kOneWish / 1ms);
  pollfd same = {signals_.get(), POLLIN, 0};
  for (int kind = 0; kind < 2 && poll(&same, 1, 0) > 0; ++kind) Take();  // one of each kind can be waiting
  EndByTheNext(heard_);
  Await(ending_.get(), ending_.get());
}

int StopSignals::Take() {
  signalfd_siginfo signal;
  PCHECK(read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) << "signalfd";
  return static_cast<int>(signal.ssi_signo);
}

}  // namespace downpour
