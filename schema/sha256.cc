#include "schema/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <memory>

#include "absl/strings/escaping.h"

namespace downpour {

std::string Sha256Of(const std::vector<Payload>& blocks) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  for (const Payload& block : blocks) EVP_DigestUpdate(context.get(), block.data(), block.size());
  std::array<unsigned char, 32> digest{};
  EVP_DigestFinal_ex(context.get(), digest.data(), nullptr);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace downpour
