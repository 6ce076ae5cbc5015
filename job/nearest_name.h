// "Did you mean": the known name nearest to one that is not known.
//
// Tests: tests/unit/job/nearest_name_test.cc.
#pragma once

#include <string>
#include <vector>

namespace downpour {

// The nearest of `known` by edit distance (an insertion, deletion, replacement or swap of neighbours costs 1; case and
// the separators - and _ cost nothing), or empty if none is within a third of the name's length. One of less than 3
// letters has to be the same but for that, any other may differ by 1. Ties: the first.
// Cost: O(known * length^2); names over 64 characters have no neighbours.
std::string NearestName(const std::string& name, const std::vector<std::string>& known);

// "did you mean NAME?" or nothing; and as a clause, behind "; ".
std::string WhatWasMeant(const std::string& name, const std::vector<std::string>& known);
std::string DidYouMean(const std::string& name, const std::vector<std::string>& known);

}  // namespace downpour
