#include "tools/cli/doctor_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>

#include "runtime/posix/keys.h"
#include "tests/unit/scratch_folder.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// What docs/SECURITY.md gives a host of each role.
const std::map<std::string, std::vector<std::string>> kTable = {
    {"chief", {"chief.secret", "ps.public", "worker.public", "client.public"}},
    {"ps", {"ps.secret", "chief.public", "worker.public"}},
    {"worker", {"worker.secret", "chief.public", "ps.public"}},
    {"client", {"client.secret", "chief.public"}},
    {"viewer", {"viewer.secret", "chief.public"}}};

PeerRole RoleNamed(const std::string& name) {
  return *std::find_if(std::begin(kAllPeerRoles), std::end(kAllPeerRoles),
                       [&](PeerRole role) { return NameOf(role) == name; });
}

class DoctorKeysTest : public testing::Test {
 protected:
  DoctorKeysTest() { EXPECT_TRUE(WriteNewKeys(keys_).ok()); }
  ToolOutcome Doctor(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"doctor", "--cluster=none", "--keys", keys_});
    return RunDownpour(more);
  }
  // A folder that holds what the table gives that role.
  std::string FolderFor(const std::string& role) const {
    const std::string folder = folder_.path() + "/" + role;
    fs::create_directory(folder);
    fs::permissions(folder, fs::perms::owner_all);
    for (const std::string& file : kTable.at(role)) fs::copy(keys_ + "/" + file, folder);
    return folder;
  }
  ScratchFolder folder_;
  const std::string keys_ = folder_.path() + "/keys";
};

TEST_F(DoctorKeysTest, NamesWhoseTheyAreAndTheirCluster) {
  const std::string out = Doctor().out;
  for (const char* role : {"chief", "ps", "worker", "client", "viewer"}) {
    EXPECT_THAT(out, ContainsRegex(std::string("ok +keys +those of a ") + role + ", of cluster [0-9a-f]{8}\n"));
  }
}

TEST_F(DoctorKeysTest, EachHostNeedsWhatIsDocumentedAndNoMore) {
  for (const auto& [role, files] : kTable) {
    const std::string folder = FolderFor(role);
    const Findings findings = LookAtKeys(folder, RoleNamed(role));
    ASSERT_EQ(findings.size(), 1u) << role;
    EXPECT_EQ(findings[0].grade, Finding::Grade::kGood) << role << ": " << findings[0].what;
    EXPECT_THAT(RunDownpour({"doctor", "--cluster=none", "--keys", folder, "--role", role}).out,
                HasSubstr("those of a " + role));
    for (const std::string& file : files) {
      fs::remove(folder + "/" + file);
      EXPECT_EQ(LookAtKeys(folder, RoleNamed(role))[0].grade, Finding::Grade::kProblem) << role << " without " << file;
      fs::copy(keys_ + "/" + file, folder);
    }
  }
}

TEST_F(DoctorKeysTest, OfAHostThatIsForNobodyInParticularItSaysWhoCanUseThem) {
  const Findings findings = LookAtKeys(FolderFor("client"), std::nullopt);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_THAT(findings[0].what, HasSubstr("those of a client"));
  EXPECT_THAT(findings[1].what, HasSubstr("of no use here to a chief, ps, worker"));
  EXPECT_EQ(findings[1].grade, Finding::Grade::kGood);
  EXPECT_EQ(LookAtKeys(folder_.path(), std::nullopt)[0].grade, Finding::Grade::kProblem);
}

TEST_F(DoctorKeysTest, WhoGoesToTheChiefHasASecretThere) {
  EXPECT_THAT(VisitorsOf("", std::nullopt), ElementsAre(PeerRole::kClient));
  EXPECT_THAT(VisitorsOf(keys_, PeerRole::kPs), ElementsAre(PeerRole::kClient, PeerRole::kPs));
  EXPECT_THAT(VisitorsOf(FolderFor("worker"), PeerRole::kWorker), ElementsAre(PeerRole::kWorker));
  EXPECT_THAT(VisitorsOf(FolderFor("viewer"), std::nullopt), ElementsAre(PeerRole::kViewer));
  EXPECT_THAT(VisitorsOf(FolderFor("chief"), PeerRole::kChief), IsEmpty());
}

TEST_F(DoctorKeysTest, SecretsThatAHostDoesNotNeedAreNamed) {
  const std::string out = Doctor({"--role=worker"}).out;
  EXPECT_THAT(out, AllOf(HasSubstr("those of a worker"), Not(HasSubstr("those of a chief"))));
  for (const char* role : {"chief", "ps", "client", "viewer"}) {
    const std::string secret = keys_ + "/" + role + ".secret";
    EXPECT_THAT(out, HasSubstr(secret + " is here too"));
    EXPECT_THAT(out, HasSubstr("-> unless a " + std::string(role) + " runs here as well: rm " + secret));
  }
  EXPECT_THAT(Doctor({"--role=chief"}).out, Not(AnyOf(HasSubstr("client.secret is"), HasSubstr("viewer.secret is"))));
  EXPECT_THAT(Doctor({"--role=viewer"}).out, HasSubstr("client.secret is here too"));
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

TEST_F(DoctorKeysTest, TheRemedyForALinkPutsTheFileThere) {
  const std::string keys = FolderFor("ps"), secret = keys + "/ps.secret", elsewhere = folder_.path() + "/elsewhere";
  fs::rename(secret, elsewhere);
  fs::create_symlink(elsewhere, secret);
  const Findings findings = LookAtKeys(keys, PeerRole::kPs);
  EXPECT_EQ(findings[0].what, secret + " is a link");
  ASSERT_THAT(findings[0].remedy, HasSubstr("put the file in its place: cp "));
  const std::string cure = findings[0].remedy.substr(findings[0].remedy.find("cp "));
  ASSERT_EQ(std::system(cure.c_str()), 0) << cure;
  EXPECT_EQ(LookAtKeys(keys, PeerRole::kPs)[0].grade, Finding::Grade::kGood);
}

TEST_F(DoctorKeysTest, WhatKeepsSeveralRolesOutIsToldOnce) {
  fs::permissions(keys_, fs::perms::group_read, fs::perm_options::add);
  EXPECT_THAT(Doctor().out, HasSubstr("\n1 problem,"));
}

TEST_F(DoctorKeysTest, WithKeysOneMayListenWhereOthersReachIt) {
  EXPECT_THAT(Doctor({"--listen=0.0.0.0:0"}).out, HasSubstr("0.0.0.0:0 is free"));
  const ToolOutcome without = RunDownpour({"doctor", "--cluster=none", "--listen=0.0.0.0:0"});
  EXPECT_THAT(without.out, ContainsRegex("PROBLEM +listen +anyone could reach"));
}

}  // namespace
}  // namespace downpour
