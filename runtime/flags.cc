#include "runtime/flags.h"

#include <algorithm>
#include <cctype>
#include <iostream>
#include <map>
#include <utility>

#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/message.h"
#include "schema/nearest_name.h"

namespace downpour {
namespace {

constexpr int kBadCommandLine = 2;

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
  std::cout
      << "  --help, --version\n\nExit codes: 0 done, 1 the job failed, 2 bad command line, 78 bad job file, 143 ended "
         "by SIGTERM.\n";
}

// Whether `text` begins with dotted.key= and so is a setting of its own.
bool BeginsSetting(absl::string_view text) {
  size_t i = 0;
  while (i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_' || text[i] == '.'))
    ++i;
  return i > 0 && i < text.size() && text[i] == '=';
}

// Sets one flag; the reason if its value is refused. Settings gather, each checked by itself: "epochs" is none, although
// it could be the end of the one before.
bool SetFlag(absl::CommandLineFlag* flag, const std::string& value, std::string* why) {
  if (!flag->IsOfType<Settings>()) return flag->ParseFrom(value, why);
  Settings more;
  if (!AbslParseFlag(value, &more, why)) return false;
  const std::string so_far = flag->CurrentValue();
  return flag->ParseFrom(so_far.empty() ? value : absl::StrCat(so_far, ",", value), why);
}

}  // namespace

bool AbslParseFlag(absl::string_view text, Settings* settings, std::string* error) {
  settings->items.clear();
  while (!text.empty()) {
    if (!BeginsSetting(text)) {
      *error = "settings look like training.epochs=3";
      return false;
    }
    size_t end = text.find(',');
    while (end != absl::string_view::npos && !BeginsSetting(text.substr(end + 1))) end = text.find(',', end + 1);
    settings->items.emplace_back(text.substr(0, end));
    text = end == absl::string_view::npos ? absl::string_view() : text.substr(end + 1);
  }
  return true;
}

std::string AbslUnparseFlag(const Settings& settings) { return absl::StrJoin(settings.items, ","); }

std::optional<int> ParseFlags(int argc, const char* const* argv, const Usage& usage) {
  const auto refuse = [&](const std::string& why) {
    std::cerr << usage.program << ": " << why << " (--help tells more)\n";
    return kBadCommandLine;
  };
  const Flags flags = OurFlags();
  std::vector<std::string> names;
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
  }
  return std::nullopt;
}

}  // namespace downpour
