#include "worker/python/ready_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace downpour {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

const MetricSpec kFound = {.kind = MetricKind::kRatio, .name = "found", .better = Better::kMore};
const MetricSpec kDistance = {.kind = MetricKind::kMean, .name = "distance"};

Json Saying(const char* metrics) { return {{"metrics", Json::parse(metrics)}}; }

TEST(ReadyCodeTest, TheSumsOfAMetricBeginBehindThoseOfOthers) {
  const auto places = PlacesOf({kDistance, kFound}, Saying(R"([{"name": "clicks", "kind": "auc"},
      {"name": "found", "kind": "ratio"}, {"name": "distance", "kind": "mean"}])"));
  ASSERT_TRUE(places.ok()) << places.status();
  EXPECT_EQ((*places)[0].first, 2050U);
  EXPECT_EQ((*places)[0].sums, 1U);
  EXPECT_EQ((*places)[1].first, 2048U);
  EXPECT_EQ((*places)[1].sums, 2U);
}

TEST(ReadyCodeTest, AMetricIsOfTheKindThatTheJobHas) {
  for (const char* said :
       {R"([])", R"({})", R"([7, "found", {"name": "found"}])", R"([{"name": "found", "kind": "mean"}])",
        R"([{"name": ["found"], "kind": "ratio"}])", R"([{"name": "found", "kind": "logLoss"}])"}) {
    EXPECT_THAT(PlacesOf({kFound}, Saying(said)).status().message(),
                HasSubstr("computes no metric found that is a ratio"))
        << said;
  }
}

}  // namespace
}  // namespace downpour
