// Compares what a peer says with a secret.
//
//   if (!IsSecret(request.secret, options.secret)) ...refuse...
//
// Cost: linear in the secret, whatever was said, so that no one learns it letter by letter. Threads: pure.
// Tests: tests/unit/schema/secret_test.cc.
#pragma once

#include <string_view>

namespace downpour {

// False where there is no secret: an empty one is known to everybody.
bool IsSecret(std::string_view said, std::string_view secret);

}  // namespace downpour
