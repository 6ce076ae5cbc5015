// One line for people about a message, an input or an effect: what `sim --verbose` prints and what a digest is made of.
#pragma once

#include <string>

#include "runtime/role.h"

namespace downpour {

std::string Describe(const Message& message);
std::string Describe(const Input& input);
std::string Describe(const Effect& effect);

}  // namespace downpour
