// The web page: its files, which are part of the program, at / and /page/NAME; and /openapi.json, served likewise.
//
//   AddPageRoutes(server);
//   if (IsPageFile(path)) ...      // of these anyone may have a copy: they say nothing of any job
//
// Shapes: service/page/*, put into the program by service/page/embed.py. Each answer of the server, not only the page,
//   has PageHeaders: a browser runs no script but these, loads nothing from elsewhere and shows the page in no frame.
// Tests: tests/process/test_page.py.
#pragma once

#include <httplib.h>

#include <string>
#include <string_view>
#include <vector>

namespace downpour {

struct PageFile {
  std::string_view name;  // index.html
  std::string_view type;  // text/html; charset=utf-8
  std::string_view text;
};
const std::vector<PageFile>& PageFiles();

bool IsPageFile(const std::string& path);
httplib::Headers PageHeaders();
void AddPageRoutes(httplib::Server& server);

}  // namespace downpour
