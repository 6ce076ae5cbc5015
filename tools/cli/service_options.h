// ServiceOptions: what `downpour serve` says of its backend, and what commands without a service go by.
//
//   BackendSettings settings = UsualBackend();
//   AddBackendOptions(app, &settings);
//
// Tests: tests/unit/tools/cli/service_options_test.cc.
#pragma once

#include "service/backend.h"

namespace CLI {
class App;
}

namespace downpour {

// This machine, all of it.
BackendSettings UsualBackend();

// --backend and all that belongs to one. What does not fit together is a mistake in the command line.
void AddBackendOptions(CLI::App& app, BackendSettings* settings);

// What a whole cluster of the job's takes here in bytes, as doctor reckons it, and its processes themselves.
// Cost: of the data, what the headers say: the next jobs wait for this one's answer.
uint64_t MemoryOf(const JobFileResult& read);

}  // namespace downpour
