// The slices of the smallest grid in which one can be ahead of another.
#pragma once

#include "schema/ids.h"

namespace downpour {

inline constexpr SliceId kX{0}, kY{1};

}  // namespace downpour
