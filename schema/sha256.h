// SHA-256 (FIPS 180-4), by OpenSSL: what tells one archive of code from another.
//
//   std::string name = Sha256Of(blocks);   // 64 hexadecimal digits
//
// Shapes: of the blocks' bytes, one after the other. Cost: linear. Threads: pure.
// Tests: tests/unit/schema/sha256_test.cc.
#pragma once

#include <string>
#include <vector>

#include "schema/payload.h"

namespace downpour {

std::string Sha256Of(const std::vector<Payload>& blocks);

}  // namespace downpour
