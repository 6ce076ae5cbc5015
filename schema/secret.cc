#include "schema/secret.h"

#include <openssl/crypto.h>

namespace downpour {

bool IsSecret(std::string_view said, std::string_view secret) {
  return !secret.empty() && said.size() == secret.size() &&
         CRYPTO_memcmp(said.data(), secret.data(), secret.size()) == 0;
}

}  // namespace downpour
