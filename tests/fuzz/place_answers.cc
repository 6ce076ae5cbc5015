// What a server of objects answers: whatever it is, a range lies within its total, and a listing has no empty key.
#include <glog/logging.h>

#include <string>

#include "data/places/answers.h"
#include "data/places/s3.h"
#include "data/places/url.h"
#include "schema/text.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downpour;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto range = ContentRangeIn(text); range) CHECK(range->first <= range->last && range->last < range->total);
  for (const absl::StatusOr<ListedPage>& page : {S3PageIn(text), GcsPageIn(text)}) {
    if (!page.ok()) continue;
    for (const std::string& key : page->keys) CHECK(!key.empty());
  }
  CHECK(IsText(S3WordsIn(text)));
  CHECK(IsText(GcsWordsIn(text)));
  CHECK_EQ(PercentDecode(PercentEncode(text)), text);
  if (const auto keys = KeysOfProfile(text, "default"); keys) CHECK(!keys->id.empty() && !keys->secret.empty());
  return 0;
}
