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

// Element i of variable v is values(v, i); versions are 10, 11 and so on, slots zero. Slices alternate between two
// files.
template <typename Values>
Manifest MakeCheckpoint(const std::string& job_dir, const JobSpec& job, Round round, const Values& values) {
  const SliceGrid grid = *GridOf(job.model);
  Manifest manifest;
  manifest.round = round;
  manifest.job = CanonicalJob(job);
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
    state.slots.assign(SlotCount(job.training), Payload::Zeros(slice.bytes()));
    const uint32_t file = ToNumber(slice.id) % 2;
    Manifest::Record record{slice.id, file, shards[file].size(), 0, 0};
    for (const Payload& block : EncodeRecord(state)) {
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
