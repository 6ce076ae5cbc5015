// Records of TensorBoard's event files: Event messages of TensorFlow, each framed as a TFRecord.
//
//   file = EventFileHead(unix_seconds);                                   // what a reader expects first
//   file += ScalarsRecord(unix_seconds, step, {{"train/loss", 0.5}});
//   file += HyperparametersRecord(unix_seconds, "mnist", {{"training.batchSize", 128}});
//
// Shapes: a record is its length in 8 bytes, their masked CRC-32C in 4, the message, and the masked CRC-32C of it.
// Units: scalars are rounded to 32 bits, as their readers keep them.
// Source: TensorFlow's event.proto, summary.proto and record_writer.h; plugins/hparams of TensorBoard; the wire format
//   of protocol buffers.
// Tests: tests/unit/chief/event_records_test.cc; tests/keras/test_history.py reads them with TensorBoard.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace downpour {

using Scalars = std::vector<std::pair<std::string, double>>;  // by tag

std::string EventFileHead(double unix_seconds);
// All of one step, in one record.
std::string ScalarsRecord(double unix_seconds, uint64_t step, const Scalars& scalars);
// What TensorBoard's page of hyperparameters shows. `values`: an object of numbers, strings and booleans; others are
// left out.
std::string HyperparametersRecord(double unix_seconds, const std::string& group, const nlohmann::json& values);

}  // namespace downpour
