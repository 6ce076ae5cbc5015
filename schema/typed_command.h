// A command that people are told to type, with one more flag: what stands behind -- is for the user's own program.
//
//   WithFlag("downpour run job.yaml -- --epochs 3", "--resume") == "downpour run job.yaml --resume -- --epochs 3"
//
// Shapes: `command` is as ShellCommand (text.h) writes one.
// Tests: tests/unit/schema/text_test.cc.
#pragma once

#include <string>

namespace downpour {

std::string WithFlag(const std::string& command, const std::string& flag);

}  // namespace downpour
