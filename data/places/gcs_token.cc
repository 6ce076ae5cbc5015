#include "data/places/gcs_token.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "data/places/answers.h"
#include "data/places/http.h"
#include "data/places/object_source.h"
#include "data/places/small_file.h"
#include "data/places/url.h"

namespace downpour {
namespace {

using nlohmann::json;

constexpr char kScope[] = "https://www.googleapis.com/auth/devstorage.read_only";
constexpr char kTokenUrl[] = "https://oauth2.googleapis.com/token";
constexpr int kLifetime = 3600, kMargin = 300;  // s

struct Token {
  std::string text;
  std::time_t ends = 0;
};

std::string Text(const json& object, const char* key, const std::string& otherwise = "") {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* it) const {
    kFree(it);
  }
};

// By RS256. Empty: that is no private key.
std::string Signed(const std::string& text, const std::string& pem) {
  const std::unique_ptr<BIO, Freed<BIO_free>> bytes(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  // The phrase of a key that is packed with one is not asked for on a terminal.
  const std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>> key(
      PEM_read_bio_PrivateKey(bytes.get(), nullptr, nullptr, const_cast<char*>("")));
  const std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>> context(EVP_MD_CTX_new());
  const auto* data = reinterpret_cast<const unsigned char*>(text.data());
  size_t size = 0;
  std::string signature;
  const bool is_signed = key != nullptr && EVP_PKEY_get_base_id(key.get()) == EVP_PKEY_RSA &&
                         EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) == 1 &&
                         EVP_DigestSign(context.get(), nullptr, &size, data, text.size()) == 1;
  if (is_signed) {
    signature.resize(size);
    if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, data, text.size()) !=
        1)
      size = 0;
    signature.resize(size);
  }
  ERR_clear_error();
  return signature;
}

std::string Base64(const std::string& text) {
  std::string packed;
  absl::WebSafeBase64Escape(text, &packed);  // without '=' at the end, as JWTs are
  return packed;
}

std::string Form(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string form;
  for (const auto& [name, value] : fields)
    absl::StrAppend(&form, form.empty() ? "" : "&", name, "=", PercentEncode(value));
  return form;
}

absl::StatusOr<Token> TokenIn(const std::string& name, const HttpAnswer& answer, std::time_t now) {
  if (answer.status != kWhole) return FailureOf(name, answer, GcsWordsIn(answer.body));
  const json said = json::parse(answer.body, nullptr, false);
  Token token{.text = said.is_object() ? Text(said, "access_token") : "", .ends = now + kLifetime};
  if (token.text.empty() || token.text.find_first_of("\r\n") != std::string::npos) {
    return absl::FailedPreconditionError(name + " answers without a token");
  }
  if (const auto left = said.find("expires_in"); left != said.end() && left->is_number_integer()) {
    token.ends = now + std::min<int64_t>(kLifetime, left->get<int64_t>());
  }
  return token;
}

absl::StatusOr<Token> TokenOfFile(const std::string& path, const std::string& text, std::time_t now) {
  const absl::StatusOr<TokenOrder> order = TokenOrderOf(text, now);
  if (!order.ok()) {
    return absl::Status(order.status().code(), absl::StrCat(path, " ", std::string(order.status().message())));
  }
  const std::string name = "the token of " + path;
  const absl::StatusOr<HttpAnswer> answer = HttpFetch(
      name, [&]() -> absl::StatusOr<HttpRequest> { return HttpRequest{.url = order->url, .form = order->form}; });
  if (!answer.ok()) return answer.status();
  return TokenIn(name, *answer, now);
}

// Nothing: this is no machine of Google's.
std::optional<Token> TokenOfMachine(std::time_t now) {
  std::string host = FromEnvironment("GCE_METADATA_HOST");
  if (host.empty()) host = "metadata.google.internal";
  const std::string name = "Google's metadata server";
  const absl::StatusOr<HttpAnswer> answer = HttpAsk(
      name, {.url = absl::StrCat("http://", host, "/computeMetadata/v1/instance/service-accounts/default/token"),
             .headers = {{"metadata-flavor", "Google"}},
             .is_near = true});
  if (!answer.ok() || answer->Header("metadata-flavor") != "Google") return std::nullopt;
  absl::StatusOr<Token> token = TokenIn(name, *answer, now);
  return token.ok() ? std::optional(*std::move(token)) : std::nullopt;
}

absl::StatusOr<Token> NewToken(std::time_t now) {
  std::string path = FromEnvironment("GOOGLE_APPLICATION_CREDENTIALS");
  const bool is_named = !path.empty();
  if (!is_named) path = FromEnvironment("HOME") + "/.config/gcloud/application_default_credentials.json";
  const absl::StatusOr<std::string> text = SmallFile(path);
  if (text.ok()) return TokenOfFile(path, *text, now);
  if (is_named) {
    return absl::Status(text.status().code(),
                        absl::StrCat("GOOGLE_APPLICATION_CREDENTIALS: ", std::string(text.status().message())));
  }
  return TokenOfMachine(now).value_or(Token{.text = "", .ends = now + kLifetime});
}

}  // namespace

absl::StatusOr<std::string> GoogleToken() {
  if (std::string given = FromEnvironment("GOOGLE_OAUTH_ACCESS_TOKEN"); !given.empty()) return given;
  static std::mutex* const mutex = new std::mutex;
  static Token* const kept = new Token;
  const std::lock_guard lock(*mutex);  // while one thread asks for a token, the others wait for it
  const std::time_t now = std::time(nullptr);
  if (now < kept->ends - kMargin) return kept->text;
  absl::StatusOr<Token> token = NewToken(now);
  if (!token.ok()) return token.status();
  *kept = *std::move(token);
  return kept->text;
}

absl::StatusOr<TokenOrder> TokenOrderOf(const std::string& credentials, std::time_t now) {
  const json file = json::parse(credentials, nullptr, false);
  if (!file.is_object()) return absl::InvalidArgumentError("is no JSON of Google's credentials");
  const std::string url = Text(file, "token_uri", kTokenUrl), type = Text(file, "type");
  if (type == "authorized_user") {
    return TokenOrder{url, Form({{"grant_type", "refresh_token"},
                                 {"client_id", Text(file, "client_id")},
                                 {"client_secret", Text(file, "client_secret")},
                                 {"refresh_token", Text(file, "refresh_token")}})};
  }
  if (type != "service_account") {
    return absl::InvalidArgumentError("has credentials of another type than service_account and authorized_user");
  }
  const json claim = {
      {"iss", Text(file, "client_email")}, {"scope", kScope}, {"aud", url}, {"iat", now}, {"exp", now + kLifetime}};
  const json header = {{"alg", "RS256"}, {"typ", "JWT"}, {"kid", Text(file, "private_key_id")}};
  const auto dump = [](const json& part) { return Base64(part.dump(-1, ' ', false, json::error_handler_t::replace)); };
  const std::string said = absl::StrCat(dump(header), ".", dump(claim));
  const std::string signature = Signed(said, Text(file, "private_key"));
  if (signature.empty()) return absl::InvalidArgumentError("has no private_key that is one of RSA");
  return TokenOrder{url, Form({{"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"},
                               {"assertion", absl::StrCat(said, ".", Base64(signature))}})};
}

}  // namespace downpour
