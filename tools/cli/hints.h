// What was probably meant by a verb or a flag that there is not: its nearest neighbour, or what other tools call it.
//
// Tests: tests/unit/tools/cli/hints_test.cc.
#pragma once

#include <string>
#include <vector>

namespace downpour {

// Of `known`, for a word that other tools use (train, kill) or a slip; empty: nothing near.
std::string VerbMeant(const std::string& word, const std::vector<std::string>& known);

// " --resume" for a word that means to continue a job, else nothing.
std::string FlagMeantBy(const std::string& word);

// "; did you mean --set training.epochs=3?" or nothing. `known` are the verb's flags with their dashes; where --set is
// among them, entries of the job file are thought of. `rest`: what stands behind the flag, which may be its value.
std::string FlagHint(const std::string& flag, const std::string& rest, const std::vector<std::string>& known);

}  // namespace downpour
