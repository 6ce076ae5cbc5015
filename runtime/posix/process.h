// What a process knows of itself and asks of its C library.
#pragma once

#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

namespace downpour {

std::string HostName();
uint64_t RandomNonce();
std::string RandomSecret();  // 32 hexadecimal digits
// Of the kernel, another one with each boot; empty where it does not say. Containers of one host share it.
std::string BootId();
int64_t UnixMs();  // by the calendar, which may jump: for people to read

// As many open files as this process may have, from now on: the hard limit, for each connection is one. What of a
// process is meant for select(2), which knows 1,024 alone, does not run here.
uint64_t RaiseDescriptorLimit();

// The most bytes that a file of this process may have, by `ulimit -f`; nullopt: any number. What does not fit fails as
// on a full disk, where SIGXFSZ is ignored.
std::optional<uint64_t> FileSizeLimit();

// SIGTERM, and of these signals those that the caller has not chosen to be ignored, as it does under nohup or in a
// script's background: to be blocked and read. A blocked signal is not ignored. SIGTERM is heard in any case: by it
// supervisors end a process, and logging would take it as a failure.
sigset_t SigtermAnd(std::initializer_list<int> signals);

// Keeps freed memory in the process: frames of 1 MiB come and go thousands of times a second, and a page touched for
// the first time costs eight times as much as one that was there.
void KeepFreedMemory();

}  // namespace downpour
