#include "service/chief_statuses.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {

std::string RunKey(const Job& job) {
  return absl::StrCat(job.name, " ", job.created_ms, IsOver(job.state) ? " over" : "");
}

std::shared_ptr<ChiefStatuses::Chief> ChiefStatuses::Find(const std::string& key) {
  const std::lock_guard hold(mutex_);
  const auto now = Clock::now();
  std::erase_if(chiefs_, [&](const auto& chief) { return chief.second->wanted_at + kKept < now; });
  std::shared_ptr<Chief>& chief = chiefs_[key];
  if (!chief) chief = std::make_shared<Chief>();
  chief->wanted_at = now;
  return chief;
}

absl::StatusOr<SharedAnswer> ChiefStatuses::Of(const Job& job, const std::string& job_dir) {
  const auto came_at = Clock::now();
  const std::shared_ptr<Chief> chief = Find(RunKey(job));
  const std::lock_guard hold(chief->asking);
  // Those that waited share what the question under way brought, an error too. One by one they would wait for ever.
  if (came_at < chief->said_at) return chief->said;
  if (chief->asker && Clock::now() < chief->said_at + fresh_) return chief->said;
  if (!chief->asker) chief->asker.emplace(StatusSource{.chief = "", .job_dir = job_dir});
  absl::StatusOr<Answer> answer = chief->asker->Ask();
  if (answer.ok()) {
    chief->said = std::make_shared<const Answer>(*std::move(answer));
  } else {
    chief->said = answer.status();
    chief->asker.reset();
  }
  chief->said_at = Clock::now();
  return chief->said;
}

}  // namespace downpour
