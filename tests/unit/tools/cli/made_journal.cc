#include "tests/unit/tools/cli/made_journal.h"

#include "chief/folder/journal.h"
#include "chief/folder/sealed_copies.h"
#include "job/job_file.h"

namespace downpour {

std::string MadeJournal(uint64_t number, Round newest, Round abandoned) {
  JournalEntry entry{.number = number, .record = {}, .costs = {}};
  entry.record.newest = newest;
  entry.record.abandoned = abandoned;
  return Sealed(EncodeEntry(entry));
}

std::string MadeJournalOfBest(uint64_t number, Round newest, Round best) {
  JournalEntry entry{.number = number, .record = {}, .costs = {}};
  entry.record.newest = newest;
  entry.record.best = {
      .round = best, .metric = "loss", .value = 0.25, .epoch = 3, .evaluated = {7, 9}, .kept = {10, 12}};
  return Sealed(EncodeEntry(entry));
}

std::string MadeJournalOf(const JobSpec& job, const std::string& ended, uint64_t number) {
  JournalEntry entry{.number = number, .record = {}, .costs = {}};
  entry.record.run = 7;
  entry.record.began_unix_ms = 1'700'000'000'000;
  entry.record.job = CanonicalJob(job);
  entry.record.ended = ended;
  return Sealed(EncodeEntry(entry));
}

}  // namespace downpour
