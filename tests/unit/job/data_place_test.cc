#include "job/data_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace downpour {
namespace {

using testing::HasSubstr;

TEST(DataPlaceTest, SchemesAndPaths) {
  EXPECT_EQ(SchemeOf("s3://b/k"), "s3");
  EXPECT_EQ(SchemeOf("HTTPS://h/a"), "https");
  for (const char* path : {"", "a.csv", "/a/b.csv", "a:b", "://a", "day 1://b", "./s3://b"})
    EXPECT_EQ(SchemeOf(path), "");
  const BucketAndKey object = BucketAndKeyOf("gs://b/a/b.csv");
  EXPECT_EQ(object.bucket, "b");
  EXPECT_EQ(object.key, "a/b.csv");
  EXPECT_TRUE(IsPattern("s3://b/day-*.csv"));
  EXPECT_TRUE(IsPattern("a?.csv"));
  EXPECT_FALSE(IsPattern("http://h/a.csv?day=1"));
}

TEST(DataPlaceTest, WhatCanBeNoPlaceIsRefusedByName) {
  for (const char* good : {"a*.csv", "http://h/a.csv?day=*", "https://[::1]:8080/a", "s3://b/k", "gs://b.c_d-e/x*"}) {
    EXPECT_EQ(FaultOfPlace(good), "") << good;
  }
  EXPECT_EQ(FaultOfPlace("ftp://h/a"),
            "has the scheme ftp://, which data cannot have: there are http://, https://, s3:// and gs://, and paths");
  EXPECT_THAT(FaultOfPlace("http://h/*.csv"), HasSubstr("is a pattern"));
  EXPECT_THAT(FaultOfPlace("http://ann:s3cret@h/a"), HasSubstr("password"));
  EXPECT_EQ(FaultOfPlace("http://ann:s3cret@h/a").find("s3cret"), std::string::npos);
  EXPECT_THAT(FaultOfPlace("http:///a"), HasSubstr("names no host"));
  EXPECT_THAT(FaultOfPlace("http://h/a b"), HasSubstr("%20"));
  EXPECT_THAT(FaultOfPlace("s3://b"), HasSubstr("s3://BUCKET/OBJECT"));
  EXPECT_THAT(FaultOfPlace("s3://b/"), HasSubstr("s3://BUCKET/OBJECT"));
  EXPECT_THAT(FaultOfPlace("gs://b*/a"), HasSubstr("other characters"));
  EXPECT_THAT(FaultOfPlace("gs://a@b/a"), HasSubstr("other characters"));
}

}  // namespace
}  // namespace downpour
