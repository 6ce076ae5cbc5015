// Files of web servers: http and https.
//
// Tests: tests/process/test_places.py.
#pragma once

#include <memory>
#include <string>

#include "data/places/object_source.h"

namespace downpour {

std::unique_ptr<ObjectPlace> WebPlace(const std::string& url);

// What asks for one version: If-Match of an ETag, or If-Unmodified-Since of a date. Weak ETags can ask for nothing, and
// are only compared. Source: RFC 9110, 13.1.
HttpHeaders OnlyOf(const std::string& version);

}  // namespace downpour
