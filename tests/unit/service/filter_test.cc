#include "service/filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "service/job_filter.h"

namespace downpour {
namespace {

bool Holds(const std::string& text) {
  const nlohmann::json job = {{"jobId", "wd1"},
                              {"state", "RUNNING"},
                              {"labels", {{"team", "a \"b\""}, {"größe", "京都"}}},
                              {"time", "2026-01-31T10:00:00.5Z"},
                              {"trainingInput", {{"workerCount", 4}}}};
  const absl::StatusOr<Filter> filter = Filter::Parse(text);
  EXPECT_TRUE(filter.ok()) << text << ": " << filter.status();
  return filter.ok() && filter->Holds(job);
}

TEST(FilterTest, WhatHolds) {
  for (const char* text : {"",
                           "  ",
                           "state=RUNNING",
                           "state:RUN",
                           "state = \"RUNNING\"",
                           "labels.team:\"\\\"b\"",
                           "labels.team:*",
                           "labels.größe=京都 AND state=RUNNING",
                           "state=FAILED OR jobId=wd1",
                           "state=RUNNING jobId=wd1",
                           "state=RUNNING AND NOT jobId=x",
                           "NOT (state=FAILED OR jobId=x)",
                           "jobId!=x",
                           "labels.none!=x",
                           "trainingInput.workerCount=4",
                           "(state=FAILED AND jobId=wd1) OR (state=RUNNING)",
                           "time>\"2026-01-31T10:00:00.499999999Z\"",
                           "time<=\"2026-01-31T10:00:00.500Z\"",
                           "time<\"2026-01-31T10:00:01Z\"",
                           "state=FAILED jobId=x OR jobId=wd1"}) {
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

TEST(FilterTest, OfAJobAsksForWhatAJobHas) {
  for (const char* text :
       {"", "state=RUNNING AND NOT state=FAILED", "state:RUN", "jobId:wd", "labels.team:a", "labels:team",
        "createTime>2026-01-31", "endTime<\"2026-01-31T10:00:00Z\"", "trainingInput.workerCount>4", "errorMessage:*"}) {
    EXPECT_TRUE(ReadJobFilter(text).ok()) << text << ": " << ReadJobFilter(text).status();
  }
  const std::pair<const char*, const char*> wrong[] = {
      {"jobid=wd1", "the filter's field jobid is none of a job: there are state, jobId, "},
      {"jobid=wd1", "labels.KEY, trainingInput.KEY; did you mean jobId?"},
      {"state=RUNNING AND (jobId=x OR NOT team=a)", "the filter's field team is none of a job"},
      {"labels=a", "the filter's field labels is none of a job"},
      {"jobId.name=a", "the filter's field jobId.name is none of a job"},
      {"state=running",
       "the filter's state running is none: there are QUEUED, PREPARING, RUNNING, SUCCEEDED, FAILED, "},
      {"createTime>yesterday", "the filter's createTime yesterday is no time"},
      {"state==RUNNING", "the filter is not understood at '=RUNNING'"}};
  for (const auto& [text, words] : wrong) {
    const absl::Status status = ReadJobFilter(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(words)) << text;
  }
}

}  // namespace
}  // namespace downpour
