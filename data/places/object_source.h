// A ByteSource of an object that a server has: each read asks for a range of the version that was there first.
//
// Small reads, one behind the other, cost one request for each kWindow bytes. The windows of all sources of a process
//   together have up to kMostWindows * kWindow bytes.
// Errors, all with the object's name: NOT_FOUND, PERMISSION_DENIED; FAILED_PRECONDITION for an object that has changed
//   and for a server that has no ranges; DATA_LOSS for an answer of other bytes than were asked for; UNAVAILABLE for a
//   server that cannot be reached, or fails, each time that it is asked (HttpFetch).
// Tests: tests/process/test_places.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "data/byte_source.h"
#include "data/places/http.h"

namespace downpour {

inline constexpr size_t kWindow = size_t{1} << 20;
inline constexpr size_t kMostWindows = 32;

// One object, as its kind of server wants to be asked for it. Threads: all are const, and may be called on several.
class ObjectPlace {
 public:
  virtual ~ObjectPlace() = default;
  virtual const std::string& name() const = 0;  // without secrets
  // For "bytes=0-99" of the version `version`, or of whichever is there if that is empty.
  virtual absl::StatusOr<HttpRequest> Ask(const std::string& range, const std::string& version) const = 0;
  // Empty: the server does not tell versions apart.
  virtual std::string VersionIn(const HttpAnswer& answer) const = 0;
  // What the server says of a failure, and what may help. Empty: nothing.
  virtual std::string WordsIn(const HttpAnswer& answer) const = 0;
};

absl::StatusOr<std::unique_ptr<ByteSource>> OpenObject(std::unique_ptr<ObjectPlace> place);

// Of an answer that is neither 200 nor 206; also where a list was asked for.
absl::Status FailureOf(const std::string& name, const HttpAnswer& answer, const std::string& words);

}  // namespace downpour
