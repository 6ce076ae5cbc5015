#include "data/word_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace downpour {

uint64_t HashWord(std::string_view word, uint64_t seed) { return XXH3_64bits_withSeed(word.data(), word.size(), seed); }

struct RunningHash::State {
  XXH3_state_t xxh;
};

RunningHash::RunningHash() : state_(std::make_unique<State>()) { Begin(); }
RunningHash::~RunningHash() = default;
void RunningHash::Begin() { XXH3_64bits_reset(&state_->xxh); }
void RunningHash::Add(std::string_view bytes) { XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size()); }
uint64_t RunningHash::Value() const { return XXH3_64bits_digest(&state_->xxh); }

}  // namespace downpour
