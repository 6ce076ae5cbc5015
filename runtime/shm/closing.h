// Closes what peers have passed, on a thread of its own: close() may wait for as long as whoever passed a descriptor
// likes, as that of a TCP socket that lingers or of a file in a FUSE file system. A socket holds what nobody received,
// and its close() is theirs.
//
//   CloseElsewhere(std::move(packet.fd));
//   if (TooManyWaitToBeClosed()) ...let no more strangers in...
//
// Cost: a thread since the first one. It may stand still for ever, and what was handed over meanwhile stays open.
// Threads: any.
// Source: socket(7), SO_LINGER; unix(7), SCM_RIGHTS.
// Tests: tests/unit/runtime/shm/door_test.cc, link_test.cc.
#pragma once

#include <cstddef>

#include "runtime/posix/fd.h"

namespace downpour {

inline constexpr size_t kMostToBeClosed = 256;

void CloseElsewhere(UniqueFd fd);
// The same of a socket of our own, whose peer sees the end at once.
void EndElsewhere(UniqueFd socket);
bool TooManyWaitToBeClosed();

}  // namespace downpour
