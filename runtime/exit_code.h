// How processes of this project end; for people, in every --help.
#pragma once

namespace downpour {

enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,
  kExitBadCommandLine = 2,
  kExitUnreachable = 69,  // the chief: to a tool, or to a member for its timing.chiefWait
  kExitBadJobFile = 78,   // or one of another plan or other data than the job's
  kExitOutOfTime = 124,   // scheduling.maxRunningTime was over, as timeout(1) has it
  kExitSignalled = 128,   // + the signal, as shells have it
};

}  // namespace downpour
