// Job folders with checkpoints made by hand, for tests of what reads them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "job/job_file.h"
#include "job/slice_grid.h"
#include "optimizer/update_rule.h"
#include "ps/bucket_parts.h"
#include "ps/table/bucket_rows.h"
#include "schema/checkpoint_format.h"

namespace downpour {

// An empty folder, removed when the program ends.
inline std::string FreshFolder(const std::string& name) {
  struct Root {
    const std::filesystem::path path =
        std::filesystem::path(testing::TempDir()) / ("tools_" + std::to_string(getpid()));
    ~Root() { std::filesystem::remove_all(path); }
  };
  static const Root root;
  const std::filesystem::path folder = root.path / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder.string();
}

inline void PutFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// 4 inputs, 3 classes, momentum: two variables of one slice each.
inline JobSpec SmallJob() {
  return ParseJob(
             "name: small\nmodel: {inputs: [{name: in, shape: [2, 2]}], layers: [{name: out, dense: {units: 3}}]}\n"
             "training: {batchSize: 2, optimizer: {name: momentum}}\n"
             "data: {train: {images: /nowhere/a, labels: /nowhere/b}}\n",
             "small")
      .job;
}

// A table of 8 numbers a row in 4 buckets, and the two variables of a layer that reads it.
inline JobSpec JobWithTables() {
  return ParseJob(
             "name: tables\nmodel: {tables: [{name: users, width: 8}], tableBuckets: 4, layers: [{embedding: {table: "
             "users, column: user}}, {name: out, dense: {units: 3}}]}\n"
             "data: {format: csv, train: /nowhere/a, label: y, columns: [{name: user, key: integer}]}\n",
             "tables")
      .job;
}

inline float Zero(uint32_t, int64_t) { return 0; }

inline constexpr uint64_t kMadeKeys = 100;  // of each table, from 0

// The parts of a bucket whose keys were pushed once, with gradients of 0.
inline std::vector<Payload> MadeParts(const JobSpec& job, uint32_t bucket) {
  RowGradients push;
  std::vector<Update> updates;
  for (size_t table = 0; table < job.model.tables.size(); ++table) {
    const size_t before = push.rows.keys.size();
    for (uint64_t key = 0; key < kMadeKeys; ++key) {
      const auto buckets = static_cast<uint32_t>(job.model.table_buckets);
      if (BucketOf(table, key, buckets) == bucket) push.rows.keys.push_back(key);
    }
    push.rows.counts.push_back(static_cast<uint32_t>(push.rows.keys.size() - before));
    push.numbers.resize(push.numbers.size() + push.rows.counts.back() * job.model.tables[table].width);
    updates.push_back(UpdateFor(job.model.tables[table].optimizer, Damping(), 1, 1));
  }
  BucketRows rows(TablesOf(job), bucket, /*copy=*/1);
  EXPECT_TRUE(rows.Apply(push, updates));
  std::vector<Payload> blocks;
  for (rows.BeginRecord(); rows.recording();) {
    for (Payload& block : FramePart(rows.NextPart(/*max_bytes=*/1000))) blocks.push_back(std::move(block));
  }
  return blocks;
}

// Element i of variable v is values(v, i); versions are 10, 11 and so on, slots zero; rows are as MadeParts has them.
// Slices alternate between two files.
template <typename Values>
Manifest MakeCheckpoint(const std::string& job_dir, const JobSpec& job, Round round, const Values& values) {
  const SliceGrid grid = *GridOf(job.model);
  Manifest manifest;
  manifest.round = round;
  manifest.job = CanonicalJob(job);
  if (grid.buckets > 0) manifest.train_examples = 1000;  // so that there is a lease
  manifest.files = {{"ps-0.shard", 0}, {"ps-1.shard", 0}};
  std::string shards[2];
  for (const Slice& slice : grid.slices) {
    SliceState state;
    state.slice = slice.id;
    state.version = 10 + ToNumber(slice.id);
    state.values = Payload::Allocate(slice.bytes());
    for (int64_t i = 0; i < slice.elements; ++i) {
      state.values.mutable_floats()[i] = values(slice.variable, slice.offset + i);
    }
    if (!grid.IsBucket(slice.id)) state.slots.assign(SlotCount(job.training), Payload::Zeros(slice.bytes()));
    if (grid.IsBucket(slice.id)) state.counters = {{LeaseId{0}, 1}};
    const uint32_t file = ToNumber(slice.id) % 2;
    Manifest::Record record{slice.id, file, shards[file].size(), 0, 0};
    std::vector<Payload> blocks = EncodeRecord(state);
    if (grid.IsBucket(slice.id)) {
      for (Payload& part : MadeParts(job, static_cast<uint32_t>(slice.offset))) blocks.push_back(std::move(part));
    }
    for (const Payload& block : blocks) {
      shards[file].append(reinterpret_cast<const char*>(block.data()), block.size());
      record.bytes += block.size();
      record.crc32c = Crc32c(block.bytes(), record.crc32c);
    }
    manifest.records.push_back(record);
  }
  const std::string folder = job_dir + "/checkpoints/" + ToString(round);
  std::filesystem::create_directories(folder);
  for (size_t f = 0; f < 2; ++f) {
    manifest.files[f].bytes = shards[f].size();
    PutFile(folder + "/" + manifest.files[f].name, shards[f]);
  }
  PutFile(folder + "/MANIFEST", EncodeManifest(manifest));
  return manifest;
}

}  // namespace downpour
