// SIGTERM and SIGINT: the first becomes an input, the second ends the process at once.
//
// Threads: one instance per process, made before other threads need it to be; Take from one thread.
// Tests: tests/unit/runtime/signals_test.cc.
#pragma once

namespace downpour {

class StopSignals {
 public:
  StopSignals();   // installs the handlers, and ignores SIGPIPE
  int fd() const;  // readable once a signal has come
  int Take();      // that signal; 0 if there is none, or it was taken; costs one load while there is none
};

}  // namespace downpour
