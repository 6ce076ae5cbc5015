// A chief's journal, as one of its two copies holds it.
#pragma once

#include <cstdint>
#include <string>

#include "schema/ids.h"

namespace downpour {

std::string MadeJournal(uint64_t number, Round newest, Round given_up = {});

}  // namespace downpour
