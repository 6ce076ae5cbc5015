#include "tools/cli/verbs.h"

namespace downpour {

const std::vector<const Verb*>& AllVerbs() {
  static const std::vector<const Verb*> verbs = {
      &kCheckVerb,    &kConfigVerb,  &kDoctorVerb, &kRunVerb,         &kStatusVerb,      &kWatchVerb,
      &kLogsVerb,     &kScaleVerb,   &kStopVerb,   &kExperimentsVerb, &kCheckpointVerb,  &kLedgerVerb,
      &kEvaluateVerb, &kPredictVerb, &kExportVerb, &kTableVerb,       &kDataVerb,        &kKeysVerb,
      &kServeVerb,    &kJobsVerb,    &kModelsVerb, &kStageVerb,       &kAnswerFilesVerb, &kCompletionVerb};
  return verbs;
}

}  // namespace downpour
