#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "schema/message.h"
#include "schema/text.h"
#include "tools/cli/hints.h"
#include "tools/cli/python_code.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

// Of every verb.
constexpr const char* kCommonExitCodes = "2 bad command line, 130 and 143 ended by Ctrl-C and SIGTERM";

void PrintHelp(const std::vector<const Verb*>& verbs, std::ostream& out) {
  out << "Downpour trains models on machines that come and go: a chief, parameter servers and workers.\n\nExamples:\n"
         "  downpour check JOB.yaml          what would run, and every error of the job file\n"
         "  downpour run JOB.yaml            a whole cluster on this machine\n"
         "  downpour status --job-dir DIR    how it goes\n\nVerbs:\n";
  size_t width = 0;
  for (const Verb* verb : verbs) width = std::max(width, verb->name.size());
  for (const Verb* verb : verbs) {
    out << "  " << verb->name << std::string(width - verb->name.size() + 2, ' ') << verb->summary
        << (verb->also_called.empty() ? "" : "; also: " + verb->also_called) << "\n";
  }
  out << "\n`downpour help VERB` tells more; --version names this build.\n"
         "Exit codes: 0 done, 1 the job failed, 69 chief unreachable, 78 bad job file, 124 out of time, "
      << kCommonExitCodes << ".\n";
}

std::vector<std::string> NamesOf(const std::vector<const Verb*>& verbs) {
  std::vector<std::string> names;
  for (const Verb* verb : verbs) names.push_back(verb->name);
  return names;
}

// --job_dir=a_b is --job-dir=a_b.
std::string WithDashes(std::string arg) {
  if (arg.rfind("--", 0) == 0) std::replace(arg.begin(), std::find(arg.begin(), arg.end(), '='), '_', '-');
  return arg;
}

// CLI11 lists all that is left, in its own order: behind an unknown flag that may be what the verb does know.
std::string WhyNotParsed(const CLI::ParseError& error, const CLI::App& app) {
  const std::vector<std::string> all = app.remaining(true);
  const bool lacks_verb = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && app.get_subcommands().empty() &&
                          app.get_require_subcommand_min() > 0;
  if (lacks_verb && !all.empty() && !all.front().starts_with("-")) return "there is no subcommand " + all.front();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return error.what();
  for (const std::string& unknown : all) {
    if (unknown.starts_with("-")) return "there is no option " + unknown.substr(0, unknown.find('='));
  }
  return error.what();
}

const CLI::App& Active(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : *chosen.back();
}

// What was probably meant by the first argument that the verb does not know. `args` are all of them.
std::string Suggestion(const CLI::App& app, const std::vector<std::string>& args) {
  const CLI::App& active = Active(app);
  std::vector<std::string> known;
  for (const CLI::Option* option : active.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const CLI::App* verb : active.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(verb->get_name());
  }
  const std::vector<std::string> unknown = app.remaining(true);
  if (unknown.empty()) return "";
  const auto place = std::find(args.begin(), args.end(), unknown.front());
  const bool is_last = place == args.end() || std::next(place) == args.end();
  return FlagHint(unknown.front(), is_last ? "" : *std::next(place), known);
}

// What follows -- goes to the Python module where one is `named`, and takes no place of an argument that is missing.
void ParseWithoutOthers(const Verb& verb, const CLI::App& named, const std::vector<std::string>& args,
                        Streams streams) {
  const CLI::Option* module = Active(named).get_option_no_throw(kModuleOption);
  const auto others = std::find(args.begin(), args.end(), "--");
  if (module == nullptr || module->count() == 0 || others == args.end()) return;
  CLI::App app("", "downpour " + verb.name);
  verb.set_up(app, streams);
  app.parse(std::vector<std::string>(std::make_reverse_iterator(others), args.rend()));
}

int RunVerb(const Verb& verb, std::vector<std::string> args, Streams streams) {
  CLI::App app(verb.summary + ".\n\nExamples:\n" + verb.examples, "downpour " + verb.name);
  app.footer("Exit codes: " + verb.exit_codes + ", " + kCommonExitCodes + ".");  // before subcommands, which inherit it
  const std::function<int()> run = verb.set_up(app, streams);
  const auto others = std::find(args.begin(), args.end(), "--");  // what follows is not ours to write otherwise
  std::transform(args.begin(), others, args.begin(), WithDashes);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // as CLI11 wants them
    ParseWithoutOthers(verb, app, args, streams);
  } catch (const CLI::CallForHelp&) {
    streams.out << app.help();
    return kExitDone;
  } catch (const CLI::ParseError& error) {
    streams.err << app.get_name() << ": " << WhyNotParsed(error, app) << Suggestion(app, args)
                << "\nTry: downpour help " << verb.name << "\n";
    return kExitBadCommandLine;
  }
  return run();
}

}  // namespace

int Complain(Streams streams, const std::string& verb, const std::string& what, int code) {
  streams.err << "downpour " << verb << ": " << CleanText(what, what.size()) << "\n";
  return code;
}

int RunTool(const std::vector<const Verb*>& verbs, std::vector<std::string> args, Streams streams) {
  if (args.empty()) {
    PrintHelp(verbs, streams.err);
    return kExitBadCommandLine;
  }
  if (args[0] == "--version") {
    streams.out << "downpour " DOWNPOUR_VERSION ", protocol " << kProtocolVersion << "\n";
    return kExitDone;
  }
  if (args[0] == "--help" || args[0] == "-h" || (args[0] == "help" && args.size() == 1)) {
    PrintHelp(verbs, streams.out);
    return kExitDone;
  }
  if (args[0] == "help") {
    args.erase(args.begin());
    args.push_back("--help");
  }
  const auto verb = std::find_if(verbs.begin(), verbs.end(),
                                 [&](const Verb* v) { return v->name == args[0] || v->also_called == args[0]; });
  if (verb == verbs.end()) {
    const std::string meant = VerbMeant(args[0], NamesOf(verbs));
    streams.err << "downpour: there is no verb '" << args[0] << "'"
                << (meant.empty() ? "" : "; did you mean " + meant + FlagMeantBy(args[0]) + "?")
                << "\nTry: downpour help" << (meant.empty() ? "" : " " + meant) << "\n";
    return kExitBadCommandLine;
  }
  args.erase(args.begin());
  return RunVerb(**verb, std::move(args), streams);
}

}  // namespace downpour
