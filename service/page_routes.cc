#include "service/page_routes.h"

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

std::string PathOf(const PageFile& file) {
  if (file.name == "openapi.json") return "/openapi.json";
  return file.name == "index.html" ? "/" : absl::StrCat("/page/", std::string(file.name));
}

}  // namespace

bool IsPageFile(const std::string& path) {
  for (const PageFile& file : PageFiles()) {
    if (path == PathOf(file)) return true;
  }
  return false;
}

httplib::Headers PageHeaders() {
  return {{"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
           "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Cache-Control", "no-store"}};
}

void AddPageRoutes(httplib::Server& server) {
  for (const PageFile& file : PageFiles()) {
    server.Get(PathOf(file), [&file](const httplib::Request&, httplib::Response& response) {
      response.set_content(file.text.data(), file.text.size(), std::string(file.type));
    });
  }
}

}  // namespace downpour
