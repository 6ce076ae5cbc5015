// Messages with random contents, and every field of a message as text: what tests of the codec build on.
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

// One line for each number, string, payload and length in the message, as `Push.3[0].1.0 17`: fields by their place,
// from 0. Messages with equal lines are equal.
std::vector<std::string> FieldLines(const Message& message);

std::string Hex(const void* data, size_t bytes);

}  // namespace downpour
