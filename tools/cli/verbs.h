// The verbs of `downpour`: one file each (verb_check.cc, ...), listed in verbs.cc.
//
//   const Verb kCheckVerb = {"check", "Say what a job file would run", "  downpour check job.yaml\n",
//                            "0 it is good, 78 it is not", SetUpCheck};
//
// To add a verb: write tools/cli/verb_NAME.cc, declare its constant here, list it in verbs.cc and in meson.build.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/exit_code.h"

namespace CLI {
class App;
}

namespace downpour {

// stdout is the result, stderr is the talk.
struct Streams {
  std::ostream& out;
  std::ostream& err;
};

// Says on stderr what is wrong, as the verb, and returns `code`. What others said in it does not drive a terminal.
int Complain(Streams streams, const std::string& verb, const std::string& what, int code);

struct Verb {
  std::string name;
  std::string summary;     // one line, for the list of verbs
  std::string examples;    // whole lines, two spaces in front: the first thing that help shows
  std::string exit_codes;  // "0 healthy, 1 degraded or failed"; those that every verb has are added
  // Declares options and arguments (a verb of two words declares subcommands); the frame then parses the command line
  // and calls what was returned, whose result is the exit code.
  std::function<int()> (*set_up)(CLI::App& app, Streams streams);
  std::string also_called = {};  // another word for the verb
};

extern const Verb kAnswerFilesVerb;
extern const Verb kCheckVerb;
extern const Verb kCheckpointVerb;
extern const Verb kCompletionVerb;
extern const Verb kConfigVerb;
extern const Verb kDataVerb;
extern const Verb kDoctorVerb;
extern const Verb kEvaluateVerb;
extern const Verb kExperimentsVerb;
extern const Verb kExportVerb;
extern const Verb kJobsVerb;
extern const Verb kKeysVerb;
extern const Verb kLedgerVerb;
extern const Verb kLogsVerb;
extern const Verb kModelsVerb;
extern const Verb kPredictVerb;
extern const Verb kRunVerb;
extern const Verb kScaleVerb;
extern const Verb kServeVerb;
extern const Verb kStageVerb;
extern const Verb kStatusVerb;
extern const Verb kStopVerb;
extern const Verb kTableVerb;
extern const Verb kWatchVerb;

// In the order in which help lists them.
const std::vector<const Verb*>& AllVerbs();

// Runs the verb that `args` (without the program's name) asks for and returns its exit code; --help, --version, `help
// VERB`, unknown names (with the nearest right one) and bad command lines are dealt with here. Options may be spelt
// with _ for -.
int RunTool(const std::vector<const Verb*>& verbs, std::vector<std::string> args, Streams streams);

}  // namespace downpour
