#include "data/places/web.h"

#include <utility>

#include "data/places/url.h"

namespace downpour {
namespace {

class WebFile final : public ObjectPlace {
 public:
  explicit WebFile(std::string url) : url_(std::move(url)), name_(ShownUrl(url_)) {}

  const std::string& name() const override { return name_; }
  absl::StatusOr<HttpRequest> Ask(const std::string& range, const std::string& version) const override {
    HttpRequest request{.url = url_, .headers = OnlyOf(version), .follows = true};
    request.headers.emplace_back("range", range);
    return request;
  }
  std::string VersionIn(const HttpAnswer& answer) const override {
    const std::string tag = answer.Header("etag");
    return tag.empty() ? answer.Header("last-modified") : tag;
  }
  std::string WordsIn(const HttpAnswer&) const override { return ""; }  // most often a page of HTML

 private:
  const std::string url_, name_;
};

}  // namespace

std::unique_ptr<ObjectPlace> WebPlace(const std::string& url) { return std::make_unique<WebFile>(url); }

HttpHeaders OnlyOf(const std::string& version) {
  if (version.empty() || version.starts_with("W/")) return {};
  return {{version.starts_with('"') ? "if-match" : "if-unmodified-since", version}};
}

}  // namespace downpour
