#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/columns.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// Two tables of kMadeKeys rows each: of 8 and of 2 numbers.
class TableTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = FreshFolder("table");
    job_ = ParseJob(
               "name: tables\nmodel: {tables: [{name: users, width: 8}, {name: items, width: 2}], tableBuckets: 4, "
               "layers: [{name: u, embedding: {table: users, column: user}}, {name: i, embedding: {table: items, "
               "column: user}}, {name: all, from: [u, i], concat: {}}, {name: out, dense: {units: 3}}]}\n"
               "data: {format: csv, train: /nowhere/a, label: y, columns: [{name: user, key: integer}]}\n",
               "tables")
               .job;
    MakeCheckpoint(dir_, job_, {1, 3}, Zero);
  }

  ToolOutcome Table(const std::string& verb, std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"table", verb, "--job-dir", dir_};
    args.insert(args.end(), more.begin(), more.end());
    return RunDownpour(args);
  }
  json Json(const std::string& verb, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"-o", "json"});
    const ToolOutcome outcome = Table(verb, more);
    EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
    return json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  }
  std::vector<float> Born(size_t table, uint64_t key) {
    const TableSpec spec = TablesOf(job_)[table];
    std::vector<float> row(spec.width);
    InitialRow(spec, key, row.data());
    return row;
  }

  std::string dir_;
  JobSpec job_;
};

TEST_F(TableTest, StatsCountRowsAndMeasureThem) {
  const json all = Json("stats");
  EXPECT_EQ(all["checkpoint"], "1-3");
  ASSERT_EQ(all["tables"].size(), 2u);
  double norms = 0, largest = 0;
  int64_t key_of_largest = -1;
  for (uint64_t key = 0; key < kMadeKeys; ++key) {
    double squares = 0;
    for (const float value : Born(0, key)) squares += double{value} * value;
    norms += std::sqrt(squares);
    if (std::sqrt(squares) > largest) {
      largest = std::sqrt(squares);
      key_of_largest = static_cast<int64_t>(key);
    }
  }
  const json& users = all["tables"][0];
  EXPECT_EQ(users["name"], "users");
  EXPECT_EQ(users["width"], 8);
  EXPECT_EQ(users["optimizer"], "adagrad");
  EXPECT_EQ(users["rows"], kMadeKeys);
  EXPECT_EQ(users["bytes"], kMadeKeys * 2 * 8 * 4) << "values and one slot";
  EXPECT_EQ(users["keysCounted"], 0);
  EXPECT_EQ(users["keysUnborn"], 0);
  EXPECT_NEAR(users["meanNorm"].get<double>(), norms / kMadeKeys, 1e-9);
  EXPECT_NEAR(users["largestNorm"].get<double>(), largest, 1e-9);
  EXPECT_EQ(users["largestNormKey"], key_of_largest);
  EXPECT_EQ(all["tables"][1]["bytes"], kMadeKeys * 2 * 2 * 4);
  EXPECT_THAT(Table("stats").out, AllOf(HasSubstr("users"), HasSubstr("items"), HasSubstr("adagrad")));
}

TEST_F(TableTest, KeysThatAreCountedOrHaveNoRoomShow) {
  job_.model.tables[0].admit_after = 3;
  job_.model.tables[1].max_rows = 4;  // of 4 buckets
  MakeCheckpoint(dir_, job_, {1, 4}, Zero);
  const json all = Json("stats");
  EXPECT_EQ(all["tables"][0]["rows"], 0);
  EXPECT_EQ(all["tables"][0]["keysCounted"], kMadeKeys);
  EXPECT_FALSE(all["tables"][0].contains("meanNorm"));
  EXPECT_EQ(all["tables"][1]["rows"], 4);
  EXPECT_EQ(all["tables"][1]["keysUnborn"], kMadeKeys - 4);
  const ToolOutcome none = Table("get", {"--table", "users", "7", "100"});
  EXPECT_EQ(none.code, kExitFailed);
  EXPECT_THAT(none.out, AllOf(HasSubstr("7, has no row and would begin with this; 1 push counted: "),
                              HasSubstr("100, has no row and would begin with: ")));
}

TEST_F(TableTest, GetPrintsRowsByKey) {
  const json all = Json("get", {"--table", "items", "42", "1000", "42"});
  EXPECT_EQ(all["table"], "items");
  ASSERT_EQ(all["rows"].size(), 3u);
  EXPECT_EQ(all["rows"][0]["key"], 42);
  EXPECT_EQ(all["rows"][0]["born"], true);
  EXPECT_EQ(all["rows"][0]["values"].get<std::vector<float>>(), Born(1, 42));
  EXPECT_EQ(all["rows"][1]["born"], false);
  EXPECT_EQ(all["rows"][1]["values"].get<std::vector<float>>(), Born(1, 1000)) << "as a pull answers";
  EXPECT_EQ(all["rows"][2], all["rows"][0]);
  EXPECT_THAT(Table("get", {"--table", "items", "42"}).out, testing::StartsWith("42: "));
  const ToolOutcome below = Table("get", {"--table", "items", "-o", "json", "--", "3", "-5"});
  EXPECT_EQ(below.code, kExitDone) << below.err;
  EXPECT_EQ(json::parse(below.out, nullptr, false)["rows"][1]["key"], -5);
}

TEST_F(TableTest, DiffCountsWhatCameChangedAndWent) {
  job_.model.tables[1].max_rows = 4;
  MakeCheckpoint(dir_, job_, {1, 4}, Zero);
  const json fewer = Json("diff", {"--since", "1-3"});
  EXPECT_EQ(fewer["since"], "1-3");
  EXPECT_EQ(fewer["checkpoint"], "1-4");
  EXPECT_EQ(fewer["tables"][0],
            json({{"name", "users"}, {"new", 0}, {"changed", 0}, {"same", kMadeKeys}, {"gone", 0}}));
  EXPECT_EQ(fewer["tables"][1]["same"], 4);
  EXPECT_EQ(fewer["tables"][1]["gone"], kMadeKeys - 4);
  job_.model.tables[1].max_rows = 0;
  job_.seed += 1;  // so that rows begin with other values
  MakeCheckpoint(dir_, job_, {1, 5}, Zero);
  const json other = Json("diff", {"--since", "1-4"});
  EXPECT_EQ(other["tables"][0]["changed"], kMadeKeys);
  EXPECT_EQ(other["tables"][1]["changed"], 4);
  EXPECT_EQ(other["tables"][1]["new"], kMadeKeys - 4);
  EXPECT_GE(other["tables"][0]["largestChange"], other["tables"][0]["meanChange"]);
  EXPECT_THAT(Table("diff", {"--since", "1-4"}).out, AllOf(HasSubstr("CHANGED"), HasSubstr("users")));
}

TEST_F(TableTest, DeltaWritesRowsThatChangedAndKeysThatWent) {
  job_.model.tables[1].max_rows = 4;
  MakeCheckpoint(dir_, job_, {1, 4}, Zero);
  const auto lines = [this](const std::string& since, const std::string& round) {
    const ToolOutcome outcome = Table("delta", {"--table", "items", "--since", since, "--checkpoint", round, "--format",
                                                "csv", "--out", dir_ + "/delta.csv"});
    EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
    std::ifstream file(dir_ + "/delta.csv");
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  };
  const std::vector<std::string> went = lines("1-3", "1-4");
  ASSERT_EQ(went.size(), 1u + kMadeKeys - 4);
  EXPECT_EQ(went[0], "key,v0,v1");
  EXPECT_THAT(went[1], testing::EndsWith(",,"));
  job_.model.tables[1].max_rows = 0;
  MakeCheckpoint(dir_, job_, {1, 5}, Zero);
  const std::vector<std::string> came = lines("1-4", "1-5");
  ASSERT_EQ(came.size(), went.size());
  EXPECT_THAT(came[1], testing::Not(testing::EndsWith(",,")));
  const ToolOutcome back = Table("diff", {"--since", "1-5", "--checkpoint", "1-4"});
  EXPECT_THAT(back.err, HasSubstr("--since 1-5 is not before 1-4"));
  const ToolOutcome safe =
      Table("delta", {"--table", "items", "--since", "1-3", "--checkpoint", "1-4", "--out", dir_ + "/delta"});
  EXPECT_EQ(safe.code, kExitDone) << safe.err;
  EXPECT_THAT(safe.err, HasSubstr("wrote 0 rows of items, 0 of them new, and 96 keys whose row is gone"));
  const ToolOutcome none = Table("diff", {"--since", "1-9"});
  EXPECT_EQ(none.code, kExitFailed);
  EXPECT_THAT(none.err, HasSubstr("checkpoint.keep"));
}

TEST_F(TableTest, WordsAreHashedAsTheDataDoes) {
  const int64_t key = KeyOfHash(HashWord("blue shoes"));
  const ToolOutcome outcome = Table("get", {"--table", "items", "--text", "blue shoes", "-o", "json"});
  EXPECT_EQ(outcome.code, kExitFailed) << "no such row";
  const json row = json::parse(outcome.out)["rows"][0];
  EXPECT_EQ(row["key"], key);
  EXPECT_EQ(row["text"], "blue shoes");
}

TEST_F(TableTest, ExportsCsvThatReadsBackTheSame) {
  const std::string out = dir_ + "/items.csv";
  const ToolOutcome outcome = Table("export", {"--table", "items", "--format", "csv", "--out", out});
  ASSERT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_EQ(outcome.out, out + "\n");
  EXPECT_THAT(outcome.err, HasSubstr("exported 100 rows of items"));
  std::istringstream lines(ReadFile(out));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "key,v0,v1");
  size_t rows = 0;
  for (; std::getline(lines, line); ++rows) {
    uint64_t key;
    float values[2];
    ASSERT_EQ(std::sscanf(line.c_str(), "%lu,%f,%f", &key, &values[0], &values[1]), 3) << line;
    EXPECT_EQ(std::vector<float>(values, values + 2), Born(1, key));
  }
  EXPECT_EQ(rows, kMadeKeys);
}

TEST_F(TableTest, ExportsSafetensors) {
  const std::string out = dir_ + "/users.safetensors";
  ASSERT_EQ(Table("export", {"--table", "users", "--out", out}).code, kExitDone);
  const std::string bytes = ReadFile(out);
  uint64_t length;
  std::memcpy(&length, bytes.data(), 8);
  const json header = json::parse(bytes.substr(8, length));
  EXPECT_EQ(header["ids"]["dtype"], "I64");
  EXPECT_EQ(header["ids"]["shape"], json({kMadeKeys}));
  EXPECT_EQ(header["ids"]["data_offsets"], json({0, 800}));
  EXPECT_EQ(header["values"]["dtype"], "F32");
  EXPECT_EQ(header["values"]["shape"], json({kMadeKeys, 8}));
  EXPECT_EQ(header["values"]["data_offsets"], json({800, 800 + 3200}));
  EXPECT_EQ(header["__metadata__"]["table"], "users");
  ASSERT_EQ(bytes.size(), 8 + length + 4000);
  for (size_t row = 0; row < kMadeKeys; ++row) {
    uint64_t key;
    std::vector<float> values(8);
    std::memcpy(&key, bytes.data() + 8 + length + row * 8, 8);
    std::memcpy(values.data(), bytes.data() + 8 + length + 800 + row * 32, 32);
    EXPECT_EQ(values, Born(0, key));
  }
}

TEST_F(TableTest, WhatCannotBeDoneIsNamed) {
  const ToolOutcome other = Table("get", {"--table", "shops", "1"});
  EXPECT_EQ(other.code, kExitFailed);
  EXPECT_THAT(other.err, HasSubstr("there is no table shops; the job has users, items"));
  const ToolOutcome word = Table("get", {"--table", "users", "blue"});
  EXPECT_EQ(word.code, kExitBadCommandLine);
  EXPECT_THAT(word.err, HasSubstr("--text"));
  EXPECT_EQ(Table("get", {"--table", "users", "--", "-9223372036854775808"}).code, kExitBadCommandLine);
  EXPECT_EQ(Table("export", {"--table", "users", "--out", dir_ + "/no/such/file"}).code, kExitFailed);
  const std::string dense = FreshFolder("table_none");
  MakeCheckpoint(dense, SmallJob(), {1, 1}, Zero);
  const ToolOutcome none = RunDownpour({"table", "stats", "--job-dir", dense});
  EXPECT_EQ(none.code, kExitFailed);
  EXPECT_THAT(none.err, HasSubstr("has no tables"));
  PutFile(dir_ + "/checkpoints/1-3/ps-0.shard", "");
  const ToolOutcome damaged = Table("export", {"--checkpoint", "1-3", "--table", "users", "--out", dir_ + "/x"});
  EXPECT_EQ(damaged.code, kExitFailed);
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/x"));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/x.tmp"));
}

}  // namespace
}  // namespace downpour
