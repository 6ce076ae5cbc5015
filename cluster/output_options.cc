#include "cluster/output_options.h"

#include <CLI/CLI.hpp>

namespace downpour {

void AddColorOption(CLI::App& app, ColorChoice* choice) {
  const auto take = [choice](const std::string& word) { *choice = *ParseColorChoice(word); };
  app.add_option_function<std::string>("--color", take, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->default_str("auto");
}

void AddFormatOption(CLI::App& app, const std::string& help, bool* json) {
  app.add_option_function<std::string>(
         "-o,--output", [json](const std::string& word) { *json = word == "json"; }, help)
      ->check(CLI::IsMember({"table", "json"}))
      ->default_str("table");
}

}  // namespace downpour
