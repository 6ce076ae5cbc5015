// The options by which verbs are told how to show what they found.
//
// Tests: tests/unit/cluster/output_options_test.cc.
#pragma once

#include <string>

#include "cluster/terminal.h"

namespace CLI {
class App;
}

namespace downpour {

// --color auto|always|never
void AddColorOption(CLI::App& app, ColorChoice* choice);
// -o, --output table|json
void AddFormatOption(CLI::App& app, const std::string& help, bool* json);

}  // namespace downpour
