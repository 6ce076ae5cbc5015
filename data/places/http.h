// Requests of http and https, by libcurl.
//
// Connections are kept and used again; each thread that asks has one of its own meanwhile. Certificates are verified,
//   against the system's or those of the file SSL_CERT_FILE. http_proxy, https_proxy and no_proxy hold.
// Bounds: 10 s to connect, 30 s without a byte, 5 minutes in all; kMostBody of a body.
// Tests: tests/unit/data/places_test.cc, tests/process/test_places.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace downpour {

inline constexpr size_t kMostBody = size_t{8} << 20;
inline constexpr int kMostTries = 6;

inline constexpr int kWhole = 200, kPartial = 206, kDenied = 401, kForbidden = 403, kAbsent = 404, kChanged = 412,
                     kNoSuchRange = 416;

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string url;
  HttpHeaders headers = {};
  std::string form = "";        // not empty: is posted
  bool follows = false;         // redirects, up to 5, never from https to http: so nothing in `headers` may be secret
  bool is_near = false;         // on this host's own network: 1 s to connect, no proxy
  absl::Span<uint8_t> to = {};  // where the bytes of a 206 go. Then a 200 has a body that nobody wants.
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers = {};  // names in small letters
  std::string body = "";                            // of a failure perhaps only its beginning
  size_t taken = 0;                                 // bytes that went to `to`
  int tries = 1;

  std::string Header(const std::string& name) const;  // empty: there is none
};

// Asks once. Errors: UNAVAILABLE for what may be mended by asking again; FAILED_PRECONDITION for what is not, as a
// certificate; DATA_LOSS for an answer that is longer than it may be. All begin with `name`.
absl::StatusOr<HttpAnswer> HttpAsk(const std::string& name, const HttpRequest& request);

// Asks up to kMostTries times, what `make` makes each time, until there is an answer other than 429 and 5xx, with
// pauses that double up to 5 s. Returns the last answer, or the last error. Cost: up to 10 s of pauses, or what the
// server wants (Retry-After), of each at most 10 s.
absl::StatusOr<HttpAnswer> HttpFetch(const std::string& name, const std::function<absl::StatusOr<HttpRequest>()>& make);

}  // namespace downpour
