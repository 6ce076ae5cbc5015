#include "schema/typed_command.h"

namespace downpour {

std::string WithFlag(const std::string& command, const std::string& flag) {
  bool quoted = false;
  for (size_t i = 0; i < command.size(); ++i) {
    if (command[i] == '\\' && !quoted) {
      ++i;
    } else if (command[i] == '\'') {
      quoted = !quoted;
    } else if (!quoted && command.compare(i, 4, " -- ") == 0) {
      return command.substr(0, i) + " " + flag + command.substr(i);
    }
  }
  return command + " " + flag;
}

}  // namespace downpour
