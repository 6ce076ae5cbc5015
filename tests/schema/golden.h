// One message of each kind as it once went over the wire, with what it said: golden/KIND.txt.
//
// Format: a line `frame HEX` for each frame, then the lines of FieldLines. A golden file is written once and never
// changed; later versions must still read it.
#pragma once

#include <string>
#include <vector>

#include "schema/message.h"

namespace downpour {

struct Golden {
  std::vector<Payload> frames;
  std::vector<std::string> lines;
};

std::string GoldenPath(const std::string& kind);
Golden ReadGolden(const std::string& kind);  // empty if there is none

}  // namespace downpour
