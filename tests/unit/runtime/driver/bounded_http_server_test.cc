#include "runtime/driver/bounded_http_server.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

TEST(TakesGzipTest, ByNameAndWithAWeightAboveZero) {
  for (const char* taken : {"gzip", "br, gzip", "gzip, deflate, br", "GZIP ;q=0.5", "deflate;q=0,gzip; Q=1.0"}) {
    EXPECT_TRUE(TakesGzip(taken)) << taken;
  }
  for (const char* refused :
       {"", "br", "identity", "gzip;q=0", "gzip ; q=0.000, br", "gzip;q=x", "gzip;q=-1", "gzip;q=nan", "not-gzip"}) {
    EXPECT_FALSE(TakesGzip(refused)) << refused;
  }
}

}  // namespace
}  // namespace downpour
