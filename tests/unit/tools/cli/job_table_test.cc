// `downpour jobs list`, as people see it.
#include "tools/cli/job_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace downpour {
namespace {

using nlohmann::json;

json Job(const std::string& why, const std::string& key = "errorMessage") {
  return {{"jobId", "one"}, {"state", "FAILED"}, {"createTime", "2026-01-31T23:59:59.123Z"}, {key, why}};
}

std::string Row(const json& job, size_t columns) {
  const std::string table = JobTable(json::array({job}), columns);
  const std::string row = table.substr(table.find('\n') + 1);
  return row.substr(0, row.size() - 1);
}

constexpr char kHead[] = "one     FAILED  2026-01-31T23:59:59Z  ";

TEST(JobTableTest, WhatFitsIsWhole) {
  EXPECT_EQ(JobTable(json::array({Job("it is lost")}), 80),
            std::string("JOB_ID  STATUS  CREATED               WHY\n") + kHead + "it is lost\n");
  EXPECT_EQ(Row(Job("it waits", "stateMessage"), 80), kHead + std::string("it waits"));
  EXPECT_EQ(Row(Job(""), 80), "one     FAILED  2026-01-31T23:59:59Z");
}

TEST(JobTableTest, OfMoreTheFirstSentenceIsShown) {
  EXPECT_EQ(Row(Job("it is lost, at task.py:3. Resume it by x"), 120),
            kHead + std::string("it is lost, at task.py:3..."));
}

TEST(JobTableTest, ALineIsNoLongerThanTheTerminal) {
  const std::string row = Row(Job(std::string(600, 'x')), 100);
  EXPECT_EQ(row.size(), 100u);
  EXPECT_TRUE(row.ends_with("x..."));
  EXPECT_EQ(Row(Job(std::string(62, 'x')), 100), kHead + std::string(62, 'x'));
  EXPECT_EQ(Row(Job(std::string(600, 'x')), 20).size(), sizeof(kHead) - 1 + 40) << "something is said in any case";
}

TEST(JobTableTest, NothingDrivesTheTerminal) { EXPECT_EQ(Row(Job("a\x1b[2J\nb"), 80), kHead + std::string("a?[2J b")); }

}  // namespace
}  // namespace downpour
