// Text of addresses: how it is packed, unpacked and shown.
//
// Tests: tests/unit/data/places_test.cc.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

namespace downpour {

// All but A-Z a-z 0-9 - . _ ~ as %XX, and '/' too unless `keeps_slashes`. Source: RFC 3986, 2.3.
std::string PercentEncode(std::string_view text, bool keeps_slashes = false);

// %XX becomes its byte; a % that no two digits follow stays.
std::string PercentDecode(std::string_view text);

// An address as people may see it: a query, a fragment or a user's name may be secrets.
std::string ShownUrl(std::string_view url);

// Of the environment; empty: not set.
inline std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace downpour
