// A short text that outlives the chief, in two copies NAME.a and NAME.b. Each holds the text and its checksum, and is
// replaced as a whole before the other one is touched: one of them is always whole.
//
//   storage.Run(WriteCopies("term", "7"), then);
//   ReadCopies(storage, "term", 256, [&](const std::string& text) { ...; return absl::OkStatus(); }, then);
//
// Order: after a crash between the two, the copies differ: whoever reads them knows by their text which is newer.
// Errors: Unsealed gives DATA_LOSS.
// Tests: tests/unit/chief/sealed_copies_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "chief/folder/storage.h"

namespace downpour {

std::string Sealed(const std::string& text);  // "7 crc32c 89abcdef" and the line's end
absl::StatusOr<std::string> Unsealed(const std::string& line);

std::vector<StorageOp> WriteCopies(const std::string& name, const std::string& text);

// `take` gets the text of each copy that is whole. `then` gets what is wrong with either, by the file's name: it is not
// whole, cannot be read, or was not taken. Empty if nothing is; a copy that is not there is nothing wrong.
void ReadCopies(Storage& storage, const std::string& name, uint64_t max_bytes,
                std::function<absl::Status(const std::string&)> take,
                std::function<void(const std::string& damage)> then);

}  // namespace downpour
