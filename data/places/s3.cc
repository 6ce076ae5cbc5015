#include "data/places/s3.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "data/places/small_file.h"
#include "data/places/url.h"
#include "data/places/web.h"

namespace downpour {
namespace {

std::string FirstSet(std::initializer_list<const char*> names, const std::string& otherwise) {
  for (const char* name : names)
    if (std::string value = FromEnvironment(name); !value.empty()) return value;
  return otherwise;
}

std::string Region() { return FirstSet({"AWS_REGION", "AWS_DEFAULT_REGION"}, "us-east-1"); }
std::string Endpoint() { return FirstSet({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, ""); }

std::optional<AwsKeys> Keys() {
  AwsKeys keys{FromEnvironment("AWS_ACCESS_KEY_ID"), FromEnvironment("AWS_SECRET_ACCESS_KEY"),
               FromEnvironment("AWS_SESSION_TOKEN")};
  if (!keys.id.empty() && !keys.secret.empty()) return keys;
  const std::string path = FirstSet({"AWS_SHARED_CREDENTIALS_FILE"}, FromEnvironment("HOME") + "/.aws/credentials");
  return KeysOfProfile(SmallFile(path).value_or(""), FirstSet({"AWS_PROFILE"}, "default"));
}

absl::StatusOr<HttpRequest> Request(const std::string& bucket, const std::string& behind, const HttpHeaders& headers) {
  const std::string endpoint = Endpoint(), region = Region();
  if (!endpoint.empty() && !endpoint.starts_with("http://") && !endpoint.starts_with("https://")) {
    return absl::InvalidArgumentError("AWS_ENDPOINT_URL must begin with http:// or https://");
  }
  HttpRequest request{.url = BucketUrl(endpoint, region, bucket) + behind, .headers = headers};
  if (const std::optional<AwsKeys> keys = Keys(); keys) {
    request.headers = SignedByAws(request.url, headers, *keys, region, std::time(nullptr));
  }
  return request;
}

std::string Words(const HttpAnswer& answer) {
  std::string words = S3WordsIn(answer.body);
  const std::string region = answer.Header("x-amz-bucket-region");
  if (!region.empty() && region != Region()) {
    absl::StrAppend(&words, words.empty() ? "" : "; ", "the bucket is in another region: set AWS_REGION to ",
                    PercentEncode(region));
  } else if ((answer.status == kForbidden || answer.status == kDenied) && !Keys()) {
    absl::StrAppend(&words, words.empty() ? "" : "; ",
                    "no keys were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write ~/.aws/credentials");
  }
  return words;
}

class S3Object final : public ObjectPlace {
 public:
  S3Object(std::string name, std::string bucket, std::string key)
      : name_(std::move(name)), bucket_(std::move(bucket)), key_(std::move(key)) {}

  const std::string& name() const override { return name_; }
  absl::StatusOr<HttpRequest> Ask(const std::string& range, const std::string& version) const override {
    HttpHeaders headers = OnlyOf(version);
    headers.emplace_back("range", range);
    return Request(bucket_, absl::StrCat("/", PercentEncode(key_, /*keeps_slashes=*/true)), headers);
  }
  std::string VersionIn(const HttpAnswer& answer) const override { return answer.Header("etag"); }
  std::string WordsIn(const HttpAnswer& answer) const override { return Words(answer); }

 private:
  const std::string name_, bucket_, key_;
};

}  // namespace

std::unique_ptr<ObjectPlace> S3Place(const std::string& name, const std::string& bucket, const std::string& key) {
  return std::make_unique<S3Object>(name, bucket, key);
}

absl::StatusOr<ListedPage> ListS3(const std::string& bucket, const std::string& prefix, const std::string& next) {
  const std::string name = absl::StrCat("s3://", bucket, "/", prefix, "*");
  const std::string page = next.empty() ? "" : absl::StrCat("continuation-token=", PercentEncode(next), "&");
  const std::string query = absl::StrCat("?", page, "encoding-type=url&list-type=2&prefix=", PercentEncode(prefix));
  const absl::StatusOr<HttpAnswer> answer = HttpFetch(name, [&] { return Request(bucket, "/" + query, {}); });
  if (!answer.ok()) return answer.status();
  if (answer->status != kWhole) return FailureOf(name, *answer, Words(*answer));
  return S3PageIn(answer->body);
}

std::string BucketUrl(const std::string& endpoint, const std::string& region, const std::string& bucket) {
  if (!endpoint.empty()) return absl::StrCat(absl::StripSuffix(endpoint, "/"), "/", bucket);
  const std::string host =
      absl::StrCat("s3.", PercentEncode(region), ".amazonaws.com", absl::StartsWith(region, "cn-") ? ".cn" : "");
  // A certificate for *.s3... holds for no name with a further dot, and names of hosts have neither '_' nor capitals.
  const bool is_host = std::all_of(bucket.begin(), bucket.end(), [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  });
  return is_host ? absl::StrCat("https://", bucket, ".", host) : absl::StrCat("https://", host, "/", bucket);
}

std::optional<AwsKeys> KeysOfProfile(const std::string& file, const std::string& profile) {
  std::map<std::string, std::string> values;
  bool is_here = false;
  for (absl::string_view line : absl::StrSplit(file, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (absl::ConsumePrefix(&line, "[")) {
      is_here = absl::ConsumeSuffix(&line, "]") && absl::StripAsciiWhitespace(line) == profile;
      continue;
    }
    const size_t equals = line.find('=');
    if (!is_here || equals == absl::string_view::npos) continue;
    values[absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(0, equals)))] =
        std::string(absl::StripAsciiWhitespace(line.substr(equals + 1)));
  }
  AwsKeys keys{values["aws_access_key_id"], values["aws_secret_access_key"], values["aws_session_token"]};
  return keys.id.empty() || keys.secret.empty() ? std::nullopt : std::optional(std::move(keys));
}

}  // namespace downpour
