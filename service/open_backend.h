// Where the service's jobs run: on this machine, by ssh, or by Slurm.
#pragma once

#include <memory>

#include "service/backend.h"

namespace downpour {

// The backend of settings.kind.
std::unique_ptr<RunBackend> OpenBackend(const BackendSettings& settings);

}  // namespace downpour
