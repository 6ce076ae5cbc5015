#include "tools/doctor_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/posix_keys.h"
#include "tests/unit/tools/run_tool.h"
#include "tests/unit/tools/scratch_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class DoctorKeysTest : public testing::Test {
 protected:
  DoctorKeysTest() { EXPECT_TRUE(WriteNewKeys(keys_).ok()); }
  ToolOutcome Doctor(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"doctor", "--cluster=none", "--keys", keys_});
    return RunDownpour(more);
  }
  ScratchFolder folder_;
  const std::string keys_ = folder_.path() + "/keys";
};

TEST_F(DoctorKeysTest, NamesWhoseTheyAreAndTheirCluster) {
  const std::string out = Doctor().out;
  for (const char* role : {"chief", "ps", "worker", "client"}) {
    EXPECT_THAT(out, ContainsRegex(std::string("ok +keys +those of a ") + role + ", of cluster [0-9a-f]{8}\n"));
  }
}

TEST_F(DoctorKeysTest, SecretsThatAHostDoesNotNeedAreNamed) {
  const std::string out = Doctor({"--role=worker"}).out;
  EXPECT_THAT(out, AllOf(HasSubstr("those of a worker"), Not(HasSubstr("those of a chief"))));
  for (const char* role : {"chief", "ps", "client"}) {
    const std::string secret = keys_ + "/" + role + ".secret";
    EXPECT_THAT(out, HasSubstr(secret + " is here too"));
    EXPECT_THAT(out, HasSubstr("-> unless a " + std::string(role) + " runs here as well: rm " + secret));
  }
  EXPECT_THAT(Doctor({"--role=chief"}).out, Not(HasSubstr("client.secret is here")));
}

TEST_F(DoctorKeysTest, WhatKeepsThemFromServingIsAProblemWithItsRemedy) {
  fs::permissions(keys_ + "/ps.secret", fs::perms::group_read, fs::perm_options::add);
  const ToolOutcome open = Doctor({"--role=ps"});
  EXPECT_EQ(open.code, kExitFailed);
  EXPECT_THAT(open.out, AllOf(ContainsRegex("PROBLEM +keys +.*ps.secret can be opened by others"),
                              HasSubstr("-> chown -R $USER " + keys_ + "; chmod -R u=rwX,go= " + keys_)));
  fs::remove(keys_ + "/chief.public");
  EXPECT_THAT(Doctor({"--role=worker"}).out, ContainsRegex("PROBLEM +keys +there is no .*chief.public"));
  ASSERT_TRUE(WriteNewKeys(folder_.path() + "/others").ok());
  fs::copy(folder_.path() + "/others/chief.public", keys_);
  fs::permissions(keys_ + "/chief.public", fs::perms::owner_read);
  EXPECT_THAT(Doctor({"--role=worker"}).out, ContainsRegex("PROBLEM +keys +.*chief.public is of another cluster"));
}

TEST_F(DoctorKeysTest, WithKeysOneMayListenWhereOthersReachIt) {
  EXPECT_THAT(Doctor({"--listen=0.0.0.0:0"}).out, HasSubstr("0.0.0.0:0 is free"));
  const ToolOutcome without = RunDownpour({"doctor", "--cluster=none", "--listen=0.0.0.0:0"});
  EXPECT_THAT(without.out, ContainsRegex("PROBLEM +listen +anyone could reach"));
}

}  // namespace
}  // namespace downpour
