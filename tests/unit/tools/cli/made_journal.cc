#include "tests/unit/tools/cli/made_journal.h"

#include "chief/journal.h"
#include "chief/sealed_copies.h"

namespace downpour {

std::string MadeJournal(uint64_t number, Round newest, Round given_up) {
  JournalEntry entry{.number = number, .record = {}, .toll = {}};
  entry.record.newest = newest;
  entry.record.given_up = given_up;
  return Sealed(EncodeEntry(entry));
}

}  // namespace downpour
