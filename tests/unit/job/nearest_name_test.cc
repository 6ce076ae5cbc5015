#include "job/nearest_name.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

const std::vector<std::string> kKnown = {"batchSize", "epochs", "evaluateEveryEpochs", "seed"};

TEST(NearestName, FindsSlipsOfTheKeyboardAndOtherSpellings) {
  EXPECT_EQ(NearestName("epoch", kKnown), "epochs");
  EXPECT_EQ(NearestName("epohcs", kKnown), "epochs");
  EXPECT_EQ(NearestName("batch_size", kKnown), "batchSize");
  EXPECT_EQ(NearestName("BATCHSIZE", kKnown), "batchSize");
  EXPECT_EQ(NearestName("evalEveryEpochs", kKnown), "evaluateEveryEpochs");
  EXPECT_EQ(NearestName("sed", kKnown), "seed");
}

TEST(NearestName, IsSilentWhereNothingIsNear) {
  EXPECT_EQ(NearestName("replicas", kKnown), "");
  EXPECT_EQ(NearestName("", kKnown), "");
  EXPECT_EQ(NearestName("x", {}), "");
  EXPECT_EQ(NearestName("lr", {"l1", "l2", "learningRate"}), "");
  EXPECT_EQ(NearestName(std::string(65, 'a'), {std::string(65, 'a')}), "");
}

TEST(NearestName, TheNearestWinsAndTiesGoToTheFirst) {
  EXPECT_EQ(NearestName("dense1", {"dense_2", "dense_1"}), "dense_1");
  EXPECT_EQ(NearestName("dense3", {"dense_2", "dense_1"}), "dense_2");
}

TEST(NearestName, DidYouMeanIsAClause) {
  EXPECT_EQ(DidYouMean("epoch", kKnown), "; did you mean epochs?");
  EXPECT_EQ(WhatWasMeant("epoch", kKnown), "did you mean epochs?");
  EXPECT_EQ(DidYouMean("zzz", kKnown), "");
}

}  // namespace
}  // namespace downpour
