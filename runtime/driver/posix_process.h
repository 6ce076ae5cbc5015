// What a process knows of itself and asks of its C library.
#pragma once

#include <cstdint>
#include <string>

namespace downpour {

std::string HostName();
uint64_t RandomNonce();
int64_t UnixMs();  // by the calendar, which may jump: for people to read

// As many open files as this process may have, from now on: the hard limit, for each connection is one. What of a
// process is meant for select(2), which knows 1,024 alone, does not run here.
uint64_t RaiseDescriptorLimit();

// Keeps freed memory in the process: frames of 1 MiB come and go thousands of times a second, and a page touched for
// the first time costs eight times as much as one that was there.
void KeepFreedMemory();

}  // namespace downpour
