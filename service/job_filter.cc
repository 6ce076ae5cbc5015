#include "service/job_filter.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "job/nearest_name.h"
#include "schema/text.h"
#include "service/job.h"

namespace downpour {
namespace {

const std::vector<std::string> kTexts = {"jobId", "etag", "errorMessage", "stateMessage", "jobFile"};
const std::vector<std::string> kTimes = {"createTime", "startTime", "endTime"};
const std::vector<std::string> kObjects = {"labels", "trainingInput"};  // FIELD.KEY, whatever the key

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// 2026-01-31, and as much behind it as one likes.
bool BeginsAsADate(const std::string& text) {
  const std::string shape = "0000-00-00";
  return text.size() >= shape.size() && std::equal(shape.begin(), shape.end(), text.begin(), [](char like, char is) {
           return like == '0' ? absl::ascii_isdigit(static_cast<unsigned char>(is)) : is == like;
         });
}

std::string States() {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(JobState::kCancelled); ++i) names.push_back(NameOf(static_cast<JobState>(i)));
  return absl::StrJoin(names, ", ");
}

absl::Status Check(const std::string& field, const std::string& op, const std::string& value) {
  const std::string object = field.substr(0, field.find('.'));
  const bool is_part = op == ":";
  if (field == "state") {
    if (is_part || StateNamed(value)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the filter's state ", OneLine(value, 100), " is none: there are ", States()));
  }
  if (Has(kTimes, field)) {
    if (is_part || BeginsAsADate(value)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the filter's ", field, " ", OneLine(value, 100),
                                                   " is no time: write one as \"2026-01-31T23:59:59Z\""));
  }
  if (Has(kTexts, field) || (Has(kObjects, object) && (field != object || is_part))) return absl::OkStatus();
  std::vector<std::string> known = {"state"};
  for (const auto* names : {&kTexts, &kTimes}) known.insert(known.end(), names->begin(), names->end());
  for (const std::string& name : kObjects) known.push_back(name + ".KEY");
  return absl::InvalidArgumentError(absl::StrCat("the filter's field ", OneLine(field, 100),
                                                 " is none of a job: there are ", absl::StrJoin(known, ", "),
                                                 DidYouMean(field, known)));
}

}  // namespace

absl::StatusOr<Filter> ReadJobFilter(const std::string& text) {
  absl::StatusOr<Filter> filter = Filter::Parse(text);
  if (!filter.ok()) return filter.status();
  if (const absl::Status status = filter->CheckEach(Check); !status.ok()) return status;
  return filter;
}

}  // namespace downpour
