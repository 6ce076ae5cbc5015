// OnnxGraph: an ONNX model, node by node, and its bytes.
//
//   OnnxGraph graph("mnist");
//   const std::string image = graph.AddInput("image", OnnxType::kFloat, {28, 28, 1});      // the batch comes before
//   const std::string flat = graph.AddNode("Flatten", {image}, {{"axis", 1}});
//   graph.AddOutput("probabilities", OnnxType::kFloat, {10}, graph.AddNode("Softmax", {flat}, {{"axis", 1}}));
//   std::string bytes = std::move(graph).Finish({{"producer", "..."}});
//
// Why not Debian's libonnx: `downpour` would need it and libprotobuf wherever it runs, for five kinds of messages. The
//   tests read what is written here by the onnx package and by onnxruntime.
// Shapes: protocol buffers, as onnx/onnx.proto3 has them; the dimension of the batch is called N.
// Source: https://github.com/onnx/onnx/blob/v1.12.0/onnx/onnx.proto3, IR version 8, operators of set 13.
// Tests: tests/unit/tools/cli/onnx_export_test.cc, tests/process/test_onnx.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/types/span.h"

namespace downpour {

// The numbers of TensorProto.DataType.
enum class OnnxType { kFloat = 1, kInt64 = 7 };

class OnnxGraph {
 public:
  struct Attribute {
    std::string name;
    std::variant<int64_t, std::vector<int64_t>> value;
  };

  explicit OnnxGraph(std::string name) : name_(std::move(name)) {}

  // Each returns the name by which nodes read it.
  std::string AddInput(const std::string& name, OnnxType type, const std::vector<int64_t>& shape);
  std::string AddConstant(const std::string& name, OnnxType type, const std::vector<int64_t>& shape,
                          absl::Span<const std::byte> values);
  std::string AddNode(const std::string& op, const std::vector<std::string>& inputs,
                      const std::vector<Attribute>& attributes = {});
  // `from` by another name.
  void AddOutput(const std::string& name, OnnxType type, const std::vector<int64_t>& shape, const std::string& from);

  std::string Finish(const std::map<std::string, std::string>& metadata) &&;

 private:
  const std::string name_;
  std::string nodes_, constants_, inputs_, outputs_;
  int next_ = 0;
};

}  // namespace downpour
