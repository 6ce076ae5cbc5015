// Whatever bytes as a file's index: what is taken for one is written as it was read, and lies in the file it claims.
#include <glog/logging.h>

#include <string>

#include "data/index_file.h"
#include "data/word_hash.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downpour;
  // Sealed here, since no fuzzer finds a checksum.
  std::string bytes(reinterpret_cast<const char*>(data), size);
  const uint64_t seal = HashWord(bytes);
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(seal >> (8 * i)));
  const absl::StatusOr<RecordIndex> index = DecodeIndex(bytes);
  if (!index.ok()) return 0;
  CHECK(DecodeIndex(EncodeIndex(*index)).value() == *index || index->pieces.empty() || index->pieces.back().line > 0);
  CHECK_LE(index->pieces.size() * 20, size);
  CHECK_LE(index->left_out.records.size() * 8, size);
  for (uint64_t record = 0; record < std::min<uint64_t>(index->records(), 300); ++record) {
    const Piece& piece = index->pieces[index->PieceOf(record)];
    CHECK(record >= piece.first && record - piece.first < piece.records);
  }
  return 0;
}
