// FieldWord: a field as a word, whatever its type: what vocabularies, hashes, classes and tables compare and show.
//
//   FieldWordBuffer buffer;
//   std::string_view word = FieldWord(value, &buffer);
//
// Shapes: text is itself, nothing is the empty word, a truth is true or false. A number is written shortest: 3 for 3.0,
//   0.1 for the float that is next to it. A list is "[784 numbers]" or
//   "[3 keys]".
// Tests: tests/unit/data/record_fields_test.cc.
#pragma once

#include <array>
#include <string_view>

#include "data/record_format.h"

namespace downpour {

using FieldWordBuffer = std::array<char, 40>;

// In `buffer` where it is not text, and then until the next call.
std::string_view FieldWord(const FieldValue& value, FieldWordBuffer* buffer);

}  // namespace downpour
