#include "runtime/process/flags.h"

#include <glog/logging.h>

#include <algorithm>
#include <cctype>
#include <iostream>
#include <map>
#include <set>
#include <utility>

#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "job/nearest_name.h"
#include "runtime/exit_code.h"
#include "schema/message.h"

namespace downpour {
namespace {

using Flags = std::map<std::string, absl::CommandLineFlag*>;

// Ours alone: Abseil's own would read further flags from files and the environment.
Flags OurFlags() {
  Flags flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (flag->Filename().find("absl/flags/") == std::string::npos) flags[std::string(name)] = flag;
  }
  return flags;
}

void PrintHelp(const Usage& usage, const Flags& flags) {
  std::cout << usage.program << ": " << usage.purpose << "\n\nExamples:\n" << usage.examples << "\nFlags:\n";
  for (const auto& [name, flag] : flags) {
    std::cout << "  --" << name << "  " << flag->Help();
    if (const std::string preset = flag->DefaultValue(); !preset.empty()) std::cout << " (default: " << preset << ")";
    std::cout << "\n";
  }
  std::cout << "  --help, --version\n\nExit codes: 0 done, 1 the job failed, 2 bad command line, 78 bad job file, "
            << usage.exit_code << (usage.exit_code.empty() ? "" : ", ") << "130 and 143 ended by Ctrl-C and SIGTERM.\n";
}

// Whether `text` begins with dotted.key= and so is a setting of its own.
bool BeginsSetting(absl::string_view text) {
  size_t i = 0;
  while (i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_' || text[i] == '.'))
    ++i;
  return i > 0 && i < text.size() && text[i] == '=';
}

// Between settings in a flag's text; no text of a job may hold it.
constexpr char kSeparator = '\x1f';

std::set<std::string>& GivenFlags() {
  static std::set<std::string>& names = *new std::set<std::string>;
  return names;
}

// Sets one flag; the reason if its value is refused. Settings gather.
bool SetFlag(absl::CommandLineFlag* flag, const std::string& value, std::string* why) {
  const std::string so_far = flag->IsOfType<Settings>() ? flag->CurrentValue() : "";
  return flag->ParseFrom(so_far.empty() ? value : absl::StrCat(so_far, std::string(1, kSeparator), value), why);
}

}  // namespace

bool AbslParseFlag(absl::string_view text, Settings* settings, std::string* error) {
  settings->items.clear();
  if (text.empty()) return true;
  for (const absl::string_view item : absl::StrSplit(text, kSeparator)) {
    if (!BeginsSetting(item)) {
      *error = "settings look like training.epochs=3";
      return false;
    }
    settings->items.emplace_back(item);
  }
  return true;
}

std::string AbslUnparseFlag(const Settings& settings) {
  return absl::StrJoin(settings.items, std::string(1, kSeparator));
}

std::optional<int> ParseFlags(int argc, const char* const* argv, const Usage& usage) {
  const auto refuse = [&](const std::string& why) {
    std::cerr << usage.program << ": " << why << " (--help tells more)\n";
    return kExitBadCommandLine;
  };
  const Flags flags = OurFlags();
  std::vector<std::string> names;
  GivenFlags().clear();
  for (const auto& [name, flag] : flags) names.push_back(name);

  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.size() < 3 || word.rfind("--", 0) != 0) return refuse("\"" + word + "\" is no flag");
    const size_t equals = word.find('=');
    std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(name.begin(), name.end(), '-', '_');
    if (name == "help") {
      PrintHelp(usage, flags);
      return 0;
    }
    if (name == "version") {
      std::cout << usage.program << " " DOWNPOUR_VERSION ", protocol " << kProtocolVersion << "\n";
      return 0;
    }
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);
    auto flag = flags.find(name);
    if (flag == flags.end() && name.rfind("no", 0) == 0 && !value) {
      flag = flags.find(name.substr(2));
      if (flag != flags.end() && !flag->second->IsOfType<bool>()) flag = flags.end();
      value = "false";
    }
    if (flag == flags.end()) return refuse("there is no flag --" + name + DidYouMean(name, names));
    if (!value && flag->second->IsOfType<bool>()) value = "true";
    if (!value && i + 1 == argc) return refuse("--" + name + " needs a value");
    if (!value) value = argv[++i];
    std::string why;
    if (!SetFlag(flag->second, *value, &why)) {
      return refuse("--" + name + " cannot be \"" + *value + "\"" + (why.empty() ? "" : ": " + why));
    }
    GivenFlags().insert(flag->first);
  }
  return std::nullopt;
}

bool IsFlagGiven(const std::string& name) { return GivenFlags().contains(name); }

void PresetFlag(const std::string& name, const std::string& value) {
  absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
  if (flag == nullptr) return;
  const std::string given = flag->IsOfType<Settings>() ? flag->CurrentValue() : "";
  std::string why;
  CHECK(flag->ParseFrom(given.empty() ? value : absl::StrCat(value, std::string(1, kSeparator), given), &why))
      << name << ": " << why;
}

}  // namespace downpour
