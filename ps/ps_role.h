// A parameter server as a state machine: joins the chief, installs the slices it is assigned, answers push, pull and
// probe, hands out slice records. See schema/PROTOCOL.md for the conversations.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/options.h"
#include "runtime/role.h"

namespace downpour {

struct PsOptions {
  std::string chief;  // host:port
  int32_t index = -1;
  std::string host;
  uint32_t pid = 0;
  std::string launcher;
  uint32_t attempt = 0;
  uint64_t nonce = 0;
  Timing timing;
  Window window;
};

}  // namespace downpour
