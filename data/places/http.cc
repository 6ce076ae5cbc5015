#include "data/places/http.h"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "data/places/url.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kMostHandles = 32;
constexpr size_t kMostHeaders = 200;
constexpr size_t kMostFailure = 64 << 10;  // bytes of a failure's body
constexpr int kTooMany = 429, kTooSlow = 408, kFirstServerError = 500;

// libcurl's handles, each with the connections that it has open.
class Handles {
 public:
  static Handles& All() {
    static Handles* const all = new Handles;  // threads may read until the process ends
    return *all;
  }

  CURL* Take() {
    const std::lock_guard lock(mutex_);
    if (pid_ != getpid()) idle_.clear();  // they are the parent's: closing them would end its connections' TLS
    pid_ = getpid();
    if (idle_.empty()) return curl_easy_init();
    CURL* const handle = idle_.back();
    idle_.pop_back();
    return handle;
  }
  void Give(CURL* handle) {
    curl_easy_reset(handle);  // connections stay
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMostHandles) return idle_.push_back(handle);
    curl_easy_cleanup(handle);
  }

 private:
  Handles() { curl_global_init(CURL_GLOBAL_DEFAULT); }

  std::mutex mutex_;
  std::vector<CURL*> idle_;
  pid_t pid_ = getpid();
};

// One answer while it comes.
struct Arrival {
  const HttpRequest& request;
  HttpAnswer answer = {};
  bool is_too_long = false;
  bool is_enough = false;  // what else comes is of no use
};

size_t OnHeader(char* text, size_t, size_t bytes, void* user) {
  Arrival& arrival = *static_cast<Arrival*>(user);
  const absl::string_view line = absl::StripAsciiWhitespace({text, bytes});
  if (absl::StartsWith(line, "HTTP/")) {  // another answer: one behind a redirect, or behind "100 Continue"
    arrival.answer = HttpAnswer();
    const size_t space = line.find(' ');
    if (space == absl::string_view::npos || !absl::SimpleAtoi(line.substr(space + 1, 3), &arrival.answer.status))
      return 0;
    return bytes;
  }
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || arrival.answer.headers.size() >= kMostHeaders) return bytes;
  arrival.answer.headers[absl::AsciiStrToLower(line.substr(0, colon))] =
      std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  return bytes;
}

size_t OnBody(char* text, size_t, size_t bytes, void* user) {
  Arrival& arrival = *static_cast<Arrival*>(user);
  HttpAnswer& answer = arrival.answer;
  const absl::Span<uint8_t> to = arrival.request.to;
  if (!to.empty() && answer.status == kPartial) {
    arrival.is_too_long = bytes > to.size() - answer.taken;
    if (arrival.is_too_long) return 0;
    std::memcpy(to.data() + answer.taken, text, bytes);
    answer.taken += bytes;
    return bytes;
  }
  const bool is_failure = answer.status != kWhole;
  const size_t room = (is_failure ? kMostFailure : kMostBody) - answer.body.size();
  arrival.is_enough = (!to.empty() && !is_failure) || (is_failure && bytes > room);
  arrival.is_too_long = !is_failure && to.empty() && bytes > room;
  if (arrival.is_too_long) return 0;
  answer.body.append(text, std::min(bytes, room));
  return arrival.is_enough ? 0 : bytes;
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

HeaderList ListOf(const HttpHeaders& headers) {
  HeaderList list;
  for (const auto& [name, value] : headers) {
    list.reset(curl_slist_append(list.release(), absl::StrCat(name, ": ", value).c_str()));
  }
  return list;
}

void SetUp(CURL* handle, const HttpRequest& request, curl_slist* headers, Arrival* arrival, char* why) {
  const bool is_safe = request.url.starts_with("https:");
  curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, is_safe ? "https" : "http,https");
  curl_easy_setopt(handle, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, request.follows ? 1L : 0L);
  curl_easy_setopt(handle, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L);  // a key may have "..", and was signed as it is
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, request.is_near ? 1L : 10L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, 30L);
  curl_easy_setopt(handle, CURLOPT_TIMEOUT, 300L);
  if (request.is_near) curl_easy_setopt(handle, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(handle, CURLOPT_USERAGENT, "downpour");
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
  if (!request.form.empty()) {
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.form.size()));
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request.form.c_str());
  }
  // OpenSSL's own variable, which libcurl does not read.
  if (const std::string file = FromEnvironment("SSL_CERT_FILE"); !file.empty())
    curl_easy_setopt(handle, CURLOPT_CAINFO, file.c_str());
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, arrival);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, OnBody);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, arrival);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, why);
}

bool MayBeMended(CURLcode code) {
  static constexpr std::array kPassing = {CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY,
                                          CURLE_COULDNT_CONNECT,      CURLE_OPERATION_TIMEDOUT,
                                          CURLE_GOT_NOTHING,          CURLE_SEND_ERROR,
                                          CURLE_RECV_ERROR,           CURLE_PARTIAL_FILE,
                                          CURLE_SSL_CONNECT_ERROR,    CURLE_HTTP2,
                                          CURLE_HTTP2_STREAM};
  return std::find(kPassing.begin(), kPassing.end(), code) != kPassing.end();
}

bool IsToBeAskedAgain(int status) { return status == kTooMany || status == kTooSlow || status >= kFirstServerError; }

std::chrono::milliseconds PauseAfter(int tries, const absl::StatusOr<HttpAnswer>& answer) {
  constexpr int kFirst = 200, kLongest = 5000, kMostAskedFor = 10'000;  // ms
  static thread_local std::minstd_rand draw(std::random_device{}());
  const int pause = std::min(kLongest, kFirst << (tries - 1));
  int wanted = 0;
  if (answer.ok() && absl::SimpleAtoi(answer->Header("retry-after"), &wanted))
    wanted = std::clamp(wanted, 0, 10) * 1000;
  // Workers that failed together do not come again together.
  const int drawn = std::uniform_int_distribution<int>(pause / 2, pause)(draw);
  return std::chrono::milliseconds(std::min(kMostAskedFor, std::max(wanted, drawn)));
}

}  // namespace

std::string HttpAnswer::Header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

absl::StatusOr<HttpAnswer> HttpAsk(const std::string& name, const HttpRequest& request) {
  CURL* const handle = Handles::All().Take();
  if (handle == nullptr) return absl::UnavailableError(name + ": no memory for a connection");
  Arrival arrival{.request = request};
  const HeaderList headers = ListOf(request.headers);
  std::array<char, CURL_ERROR_SIZE> why{};
  SetUp(handle, request, headers.get(), &arrival, why.data());
  const CURLcode code = curl_easy_perform(handle);
  Handles::All().Give(handle);
  if (arrival.is_too_long) return absl::DataLossError(name + ": the server sends more bytes than it was asked for");
  if (code == CURLE_OK || arrival.is_enough) return std::move(arrival.answer);
  constexpr size_t kMostWords = 300;
  const std::string words =
      absl::StrCat(name, ": ", OneLine(why[0] == '\0' ? curl_easy_strerror(code) : why.data(), kMostWords));
  return MayBeMended(code) ? absl::UnavailableError(words) : absl::FailedPreconditionError(words);
}

absl::StatusOr<HttpAnswer> HttpFetch(const std::string& name,
                                     const std::function<absl::StatusOr<HttpRequest>()>& make) {
  for (int tries = 1;; ++tries) {
    const absl::StatusOr<HttpRequest> request = make();
    if (!request.ok()) return request.status();
    absl::StatusOr<HttpAnswer> answer = HttpAsk(name, *request);
    if (answer.ok()) answer->tries = tries;
    const bool again = answer.ok() ? IsToBeAskedAgain(answer->status) : absl::IsUnavailable(answer.status());
    if (!again) return answer;
    if (tries == kMostTries) {
      if (answer.ok()) return answer;
      return absl::UnavailableError(absl::StrCat(std::string(answer.status().message()), ", ", tries, " times"));
    }
    std::this_thread::sleep_for(PauseAfter(tries, answer));
  }
}

}  // namespace downpour
