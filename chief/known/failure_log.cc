#include "chief/known/failure_log.h"

#include "schema/text.h"

namespace downpour {

void FailureLog::Add(const std::string& task, const std::string& what) {
  costs_.failures.push_back({context_.UnixMs(), context_.JobAgeMs(), task, CleanText(what, kMaxLength)});
  if (costs_.failures.size() > kMost) costs_.failures.pop_front();
  context_.out.Warn(task + ": " + costs_.failures.back().what);
}

}  // namespace downpour
