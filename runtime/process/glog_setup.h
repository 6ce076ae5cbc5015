// Where a task's log lines go: to stderr, or to a file of its own; and what a process says whose memory runs out.
//
// Tests: tests/unit/runtime/process/glog_setup_test.cc.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace downpour {

// Lines look like "I 2024-11-20 10:43:05.123 joined as ps-0" (log_line.h). With a folder, they and all else that would
// go to stderr (a crash's last words) are appended to FOLDER/TASK.log instead; the folder is made if it is not there.
// From then on memory that runs out, a Payload's too, ends the process with one sentence and SIGABRT.
// Errors: what keeps the file from being opened. Once per process.
absl::Status SetUpLogging(const char* program, const std::string& folder, const std::string& task);

// Of a program that says itself what goes well, and has a role in it now and then: warnings and errors alone go to
// stderr, as such lines. Once per process, in place of SetUpLogging.
void LogTroubleAlone(const char* program);

// Appends every line from now on to FOLDER/TASK.log as well. After SetUpLogging.
absl::Status AlsoLogTo(const std::string& folder, const std::string& task);

// For files that define flags of glog's names and so cannot include its header.
void LogError(const std::string& sentence);
void LogWarning(const std::string& sentence);
void LogInfo(const std::string& sentence);

}  // namespace downpour
