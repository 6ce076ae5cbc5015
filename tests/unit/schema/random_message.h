// Messages with random contents, and every field of a message as text.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "schema/message.h"

namespace downpour {

using Random = std::mt19937_64;  // its output is fixed by the C++ standard

// A message that the codec must carry, of the kind'th alternative of Message.
Message RandomMessage(size_t kind, Random& random);

// One line "field value" for each number, string and payload in the message, fields named by position: "slices.0.3 17"
// is the fourth field of the first element of the field numbered by its place, and so on. Two messages with equal lines
// are equal.
std::vector<std::string> FieldLines(const Message& message);

}  // namespace downpour
