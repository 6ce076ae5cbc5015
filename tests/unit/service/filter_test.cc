#include "service/filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace downpour {
namespace {

bool Holds(const std::string& text) {
  const nlohmann::json job = {{"jobId", "wd1"},
                              {"state", "RUNNING"},
                              {"labels", {{"team", "a \"b\""}}},
                              {"time", "2026-01-31T10:00:00.5Z"},
                              {"trainingInput", {{"workerCount", 4}}}};
  const absl::StatusOr<Filter> filter = Filter::Parse(text);
  EXPECT_TRUE(filter.ok()) << text << ": " << filter.status();
  return filter.ok() && filter->Holds(job);
}

TEST(FilterTest, WhatHolds) {
  for (const char* text :
       {"", "  ", "state=RUNNING", "state:RUN", "state = \"RUNNING\"", "labels.team:\"\\\"b\"", "labels.team:*",
        "state=FAILED OR jobId=wd1", "state=RUNNING jobId=wd1", "state=RUNNING AND NOT jobId=x",
        "NOT (state=FAILED OR jobId=x)", "jobId!=x", "labels.none!=x", "trainingInput.workerCount=4",
        "(state=FAILED AND jobId=wd1) OR (state=RUNNING)", "time>\"2026-01-31T10:00:00.499999999Z\"",
        "time<=\"2026-01-31T10:00:00.500Z\"", "time<\"2026-01-31T10:00:01Z\"", "state=FAILED jobId=x OR jobId=wd1"}) {
    EXPECT_TRUE(Holds(text)) << text;
  }
}

TEST(FilterTest, WhatDoesNot) {
  for (const char* text :
       {"state=FAILED", "state=RUNNING jobId=x", "NOT state:RUN", "labels.none=x", "labels.none:*", "state.deeper=x",
        "state=FAILED OR jobId=x", "time>=\"2026-01-31T10:00:00.51Z\"", "state=RUNNING AND (jobId=x OR jobId=y)"}) {
    EXPECT_FALSE(Holds(text)) << text;
  }
}

TEST(FilterTest, WhatIsNoneIsRefused) {
  const std::string nested = std::string(100, '(') + "a=b" + std::string(100, ')');
  for (const std::string& text : {std::string("("), std::string("state"), std::string("state="), std::string("=x"),
                                  std::string("a=b)"), std::string("a=b OR"), std::string("a=b AND"),
                                  std::string("NOT"), std::string("a=\"b"), nested, std::string(5000, 'a')}) {
    EXPECT_EQ(Filter::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace downpour
