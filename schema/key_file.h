// One file of a cluster's keys, as text: a word and its value on each line.
//
//   downpour-key 1
//   cluster 6f1c...            32 hexadecimal digits, the same in all files of a cluster
//   role worker
//   public rq:rM>...           40 characters of Z85; there may be several
//   secret JTKVS...            likewise; at most one
//
// Errors: INVALID_ARGUMENT with the line's number. What stands in the line is not repeated: it may be a secret.
// Source: Z85, rfc.zeromq.org/spec/32.
// Tests: tests/unit/schema/key_file_test.cc, tests/fuzz/key_file.cc.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/peer_role.h"

namespace downpour {

struct KeyFile {
  std::string cluster;
  PeerRole role{};
  std::vector<std::string> public_keys;  // at least one
  std::string secret_key;                // empty: there is none
};

absl::StatusOr<KeyFile> ParseKeyFile(const std::string& text);
std::string PrintKeyFile(const KeyFile& file);

}  // namespace downpour
