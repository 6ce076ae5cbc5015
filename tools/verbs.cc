#include "tools/verbs.h"

namespace downpour {

const std::vector<const Verb*>& AllVerbs() {
  static const std::vector<const Verb*> verbs = {&kRunVerb, &kStatusVerb, &kWatchVerb, &kLogsVerb, &kDataVerb};
  return verbs;
}

}  // namespace downpour
