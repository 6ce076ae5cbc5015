#include "job/data_place.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

constexpr std::string_view kBehindScheme = "://";

std::string_view BehindScheme(std::string_view place) {
  return place.substr(place.find(kBehindScheme) + kBehindScheme.size());
}

std::string FaultOfUrl(std::string_view url) {
  const std::string_view rest = BehindScheme(url), authority = rest.substr(0, rest.find_first_of("/?#"));
  if (authority.find('@') != std::string_view::npos) {
    return "has a user's name or password in it, which a job file would show to everyone who sees the job";
  }
  if (authority.empty()) return "names no host: write http://HOST/PATH";
  if (std::any_of(url.begin(), url.end(), [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; })) {
    return "has a blank in it: write it as %20";
  }
  const std::string_view path = rest.substr(authority.size(), rest.find_first_of("?#") - authority.size());
  if (path.find_first_of("*[") == std::string_view::npos) return "";
  return "is a pattern, but a web server does not tell which files it has: name each file, or write * as %2A";
}

std::string FaultOfObject(const std::string& scheme, const BucketAndKey& object) {
  const bool is_plain = std::all_of(object.bucket.begin(), object.bucket.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
  });
  if (!is_plain) return "names a bucket that has other characters than letters, digits, '.', '-' and '_'";
  if (object.bucket.empty() || object.key.empty()) {
    return absl::StrCat("must name a bucket and an object in it: ", scheme, "://BUCKET/OBJECT");
  }
  return "";
}

}  // namespace

std::string SchemeOf(std::string_view place) {
  const size_t end = place.find(kBehindScheme);
  if (end == std::string_view::npos || end == 0) return "";
  const std::string_view scheme = place.substr(0, end);
  const bool is_one = absl::ascii_isalpha(static_cast<unsigned char>(scheme.front())) &&
                      std::all_of(scheme.begin(), scheme.end(), [](unsigned char c) {
                        return absl::ascii_isalnum(c) || c == '+' || c == '-' || c == '.';
                      });
  return is_one ? absl::AsciiStrToLower(std::string(scheme)) : "";
}

BucketAndKey BucketAndKeyOf(std::string_view place) {
  const std::string_view rest = BehindScheme(place);
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return {std::string(rest), ""};
  return {std::string(rest.substr(0, slash)), std::string(rest.substr(slash + 1))};
}

bool IsPattern(std::string_view place) {
  const std::string scheme = SchemeOf(place);
  return scheme != kHttp && scheme != kHttps && place.find_first_of("*?[") != std::string_view::npos;
}

std::string FaultOfPlace(std::string_view place) {
  const std::string scheme = SchemeOf(place);
  if (scheme.empty()) return "";
  if (scheme == kHttp || scheme == kHttps) return FaultOfUrl(place);
  if (scheme == kS3 || scheme == kGcs) return FaultOfObject(scheme, BucketAndKeyOf(place));
  return absl::StrCat("has the scheme ", scheme, "://, which data cannot have: there are http://, https://, s3:// and ",
                      "gs://, and paths");
}

}  // namespace downpour
