#include "service/open_backend.h"

#include "service/local_backend.h"
#include "service/slurm_backend.h"
#include "service/ssh_backend.h"

namespace downpour {

std::unique_ptr<RunBackend> OpenBackend(const BackendSettings& settings) {
  switch (settings.kind) {
    case BackendKind::kLocal:
      return std::make_unique<LocalBackend>(settings);
    case BackendKind::kSsh:
      return std::make_unique<SshBackend>(settings);
    case BackendKind::kSlurm:
      return std::make_unique<SlurmBackend>(settings);
  }
  return nullptr;
}

}  // namespace downpour
