#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

// What may stand behind a verb, or behind a verb and its subcommand.
struct Behind {
  std::string verb;
  std::string subcommand;              // empty: behind the verb itself
  std::vector<std::string> words;      // options with their dashes, and a verb's subcommands
  std::vector<std::string> valueless;  // of the options: those that take no value
};

Behind BehindOf(const std::string& verb, const std::string& subcommand, const CLI::App& app) {
  Behind place = {verb, subcommand, {}, {}};
  for (const CLI::App* under : app.get_subcommands([](const CLI::App*) { return true; })) {
    place.words.push_back(under->get_name());
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      place.words.push_back("--" + name);
      if (option->get_items_expected_max() == 0) place.valueless.push_back("--" + name);
    }
  }
  return place;
}

std::vector<Behind> AllBehind() {
  std::ostringstream nowhere;
  std::vector<Behind> places;
  for (const Verb* verb : AllVerbs()) {
    CLI::App app;
    verb->set_up(app, {nowhere, nowhere});
    for (const CLI::App* under : app.get_subcommands([](const CLI::App*) { return true; })) {
      places.push_back(BehindOf(verb->name, under->get_name(), *under));
    }
    places.push_back(BehindOf(verb->name, "", app));
  }
  return places;
}

std::string VerbNames() {
  return absl::StrJoin(AllVerbs(), " ", [](std::string* out, const Verb* verb) { absl::StrAppend(out, verb->name); });
}

// The branches of a `case` over "VERB SUBCOMMAND", which sh and zsh share. Subcommands come first: the first that fits
// is taken.
std::string Branches() {
  std::string text;
  for (const Behind& place : AllBehind()) {
    const std::string pattern = place.subcommand.empty() ? absl::StrCat("'", place.verb, " '*")
                                                         : absl::StrCat("'", place.verb, " ", place.subcommand, "'");
    absl::StrAppend(&text, "    ", pattern, ") known='", absl::StrJoin(place.words, " "), "' ;;\n");
  }
  absl::StrAppend(&text, "    'help '*) known='", VerbNames(), "' ;;\n");
  return text;
}

// Where nothing of ours fits, files do.
std::string ForBash() {
  return absl::StrCat(
      "# Completion of downpour for bash: source this, or put it into "
      "/usr/share/bash-completion/completions/downpour.\n"
      "_downpour() {\n"
      "  local known=\n"
      "  local under=${COMP_WORDS[2]}\n"
      "  ((COMP_CWORD > 2)) || under=\n"
      "  case \"${COMP_WORDS[1]} $under\" in\n",
      Branches(),
      "  esac\n"
      "  ((COMP_CWORD > 1)) || known='help ",
      VerbNames(),
      "'\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$known\" -- \"${COMP_WORDS[COMP_CWORD]}\")\n"
      "}\n"
      "complete -o bashdefault -o default -F _downpour downpour\n");
}

std::string ForZsh() {
  return absl::StrCat(
      "#compdef downpour\n"
      "# Completion of downpour for zsh: put it into a folder of $fpath as _downpour.\n"
      "local known=\n"
      "local under=$words[3]\n"
      "((CURRENT > 3)) || under=\n"
      "case \"$words[2] $under\" in\n",
      Branches(),
      "esac\n"
      "((CURRENT > 2)) || known='help ",
      VerbNames(),
      "'\n"
      "compadd -- ${=known}\n"
      "((CURRENT > 2)) && _files\n"
      "return 0\n");
}

std::string Quoted(const std::string& text) { return "'" + absl::StrReplaceAll(text, {{"'", "\\'"}}) + "'"; }

std::string ForFish() {
  std::string text =
      "# Completion of downpour for fish: put it into ~/.config/fish/completions/downpour.fish.\n"
      "complete -c downpour -n __fish_use_subcommand -f -a help -d 'Tell more of a verb'\n";
  for (const Verb* verb : AllVerbs()) {
    absl::StrAppend(&text, "complete -c downpour -n __fish_use_subcommand -f -a ", verb->name, " -d ",
                    Quoted(verb->summary), "\n");
  }
  absl::StrAppend(&text, "complete -c downpour -n '__fish_seen_subcommand_from help' -f -a '", VerbNames(), "'\n");
  for (const Behind& place : AllBehind()) {
    std::string seen = "__fish_seen_subcommand_from " + place.verb;
    if (!place.subcommand.empty()) seen += "; and __fish_seen_subcommand_from " + place.subcommand;
    for (const std::string& word : place.words) {
      const bool is_option = word.starts_with("--");
      const bool has_value = is_option && !std::count(place.valueless.begin(), place.valueless.end(), word);
      absl::StrAppend(&text, "complete -c downpour -n ", Quoted(seen),
                      is_option ? " -l " + word.substr(2) : " -a " + word, has_value ? " -r" : "", "\n");
    }
  }
  return text;
}

std::function<int()> SetUpCompletion(CLI::App& app, Streams streams) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return [=]() -> int {
    streams.out << (*shell == "bash" ? ForBash() : *shell == "zsh" ? ForZsh() : ForFish());
    return kExitDone;
  };
}

}  // namespace

const Verb kCompletionVerb = {"completion", "Print what makes a shell complete verbs and options",
                              "  source <(downpour completion bash)\n"
                              "  downpour completion zsh > FOLDER/_downpour     a folder of $fpath\n"
                              "  downpour completion fish > ~/.config/fish/completions/downpour.fish\n",
                              "0 done", SetUpCompletion};

}  // namespace downpour
