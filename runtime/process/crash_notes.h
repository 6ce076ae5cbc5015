// A file of the pushes at which the processes of one task crashed, for those that come after them.
//
//   PsRole role({.crashes = ReadCrashNotes(path)});
//   NoteCrashes(path, &role.applying());
//
// Format: a line "RUN LEASE STEP SLICE" in decimal for each crash: a fatal signal (SIGSEGV, SIGBUS, SIGFPE, SIGILL,
//   SIGABRT) while a push was applied. kill -9, with which a watchdog ends a process that stands still, and memory that
//   runs out leave none: no push is to blame. Each begins with a new line, whatever stands before it.
// Errors: a line that is none of these is left out, since a crash or a full disk may have cut it short. Where the file
//   cannot be read or written, a warning: the process serves all the same, and a crash leaves no note.
// Tests: tests/unit/runtime/process/crash_notes_test.cc.
#pragma once

#include <string>
#include <vector>

#include "runtime/applying.h"

namespace downpour {

// Of the file's newest 64 KiB. None if there is no such file, or no path.
std::vector<PushName> ReadCrashNotes(const std::string& path);

// From now on, once in this process, whose logging is set up (glog_setup.h), and of crashes of the thread that calls
// this: it is the one that applies. `applying` lives as long as the process. Does nothing without a path.
void NoteCrashes(const std::string& path, const Applying* applying);

}  // namespace downpour
