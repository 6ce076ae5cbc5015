// Effects in the words of a transcript.
#pragma once

#include <functional>
#include <string>

#include "runtime/role.h"

namespace downpour {

using PeerNames = std::function<std::string(PeerId)>;

std::string Word(const IntervalSet& set);
// One line; empty for what a transcript leaves out: joins, heartbeats and the messages that open links.
std::string Word(const Effect& effect, const PeerNames& names);

}  // namespace downpour
