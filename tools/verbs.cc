#include "tools/verbs.h"

namespace downpour {

const std::vector<const Verb*>& AllVerbs() {
  static const std::vector<const Verb*> verbs = {};
  return verbs;
}

}  // namespace downpour
