// A chief's journal, as one of its two copies holds it.
#pragma once

#include <cstdint>
#include <string>

#include "job/job.h"
#include "schema/ids.h"

namespace downpour {

std::string MadeJournal(uint64_t number, Round newest, Round abandoned = {});
// That names the best checkpoint: of loss 0.25, after 3 epochs, measured at versions 7 to 9 and kept at 10 to 12.
std::string MadeJournalOfBest(uint64_t number, Round newest, Round best);
// Of a job that began on 2023-11-14 at 22:13:20 UTC; `ended` is empty where it goes on.
std::string MadeJournalOf(const JobSpec& job, const std::string& ended, uint64_t number = 1);

}  // namespace downpour
