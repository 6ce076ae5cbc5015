#include "data/places/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace downpour {
namespace {

constexpr char kAlgorithm[] = "AWS4-HMAC-SHA256";
constexpr char kNoBody[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";  // SHA-256 of nothing

std::string Hash(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), size});
}

std::string Mac(const std::string& key, const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), digest.data(), &size);
  return {reinterpret_cast<const char*>(digest.data()), size};
}

std::string TimeAs(const char* form, std::time_t now) {
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), form, &parts)};
}

}  // namespace

HttpHeaders SignedByAws(const std::string& url, const HttpHeaders& headers, const AwsKeys& keys,
                        const std::string& region, std::time_t now) {
  const std::string time = TimeAs("%Y%m%dT%H%M%SZ", now), day = time.substr(0, 8);
  HttpHeaders sent = headers;
  sent.emplace_back("x-amz-content-sha256", kNoBody);
  sent.emplace_back("x-amz-date", time);
  if (!keys.token.empty()) sent.emplace_back("x-amz-security-token", keys.token);

  const absl::string_view rest = absl::string_view(url).substr(url.find("://") + 3);
  const absl::string_view host = rest.substr(0, rest.find_first_of("/?"));
  const size_t question = std::min(rest.find('?'), rest.size());
  const absl::string_view path = rest.substr(host.size(), question - host.size());
  const absl::string_view query = question == rest.size() ? "" : rest.substr(question + 1);
  HttpHeaders named = sent;  // and the one that the client of HTTP adds
  named.emplace_back("host", std::string(host));
  std::sort(named.begin(), named.end());
  std::string lines, names;
  for (const auto& [name, value] : named) {
    absl::StrAppend(&lines, name, ":", value, "\n");
    absl::StrAppend(&names, names.empty() ? "" : ";", name);
  }
  const std::string asked =
      absl::StrCat("GET\n", path.empty() ? "/" : path, "\n", query, "\n", lines, "\n", names, "\n", kNoBody);
  const std::string scope = absl::StrCat(day, "/", region, "/s3/aws4_request");
  const std::string to_sign = absl::StrCat(kAlgorithm, "\n", time, "\n", scope, "\n", Hash(asked));
  const std::string key = Mac(Mac(Mac(Mac("AWS4" + keys.secret, day), region), "s3"), "aws4_request");
  sent.emplace_back("authorization", absl::StrCat(kAlgorithm, " Credential=", keys.id, "/", scope, ",SignedHeaders=",
                                                  names, ",Signature=", absl::BytesToHexString(Mac(key, to_sign))));
  return sent;
}

}  // namespace downpour
