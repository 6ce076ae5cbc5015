// A file of credentials, read whole.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/byte_source.h"

namespace downpour {

// Errors: those of OpenFile; RESOURCE_EXHAUSTED for one of more than 1 MiB.
inline absl::StatusOr<std::string> SmallFile(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<ByteSource>> file = OpenFile(path);
  if (!file.ok()) return file.status();
  constexpr uint64_t kMost = 1 << 20;
  if ((*file)->size() > kMost) return absl::ResourceExhaustedError(path + " is too large for a file of credentials");
  std::string text((*file)->size(), '\0');
  const absl::StatusOr<size_t> got =
      (*file)->Read(0, absl::MakeSpan(reinterpret_cast<uint8_t*>(text.data()), text.size()));
  if (!got.ok()) return got.status();
  text.resize(*got);
  return text;
}

}  // namespace downpour
