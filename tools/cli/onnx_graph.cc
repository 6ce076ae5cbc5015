#include "tools/cli/onnx_graph.h"

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

constexpr int64_t kIrVersion = 8;
constexpr int64_t kOperators = 13;
constexpr char kBatch[] = "N";

// Fields of a message, as https://protobuf.dev/programming-guides/encoding has them: numbers and what has a length.
class Fields {
 public:
  Fields& Number(int field, int64_t value) {
    Varint(static_cast<uint64_t>(field) << 3);
    Varint(static_cast<uint64_t>(value));
    return *this;
  }
  Fields& Bytes(int field, absl::Span<const std::byte> bytes) {
    Varint(static_cast<uint64_t>(field) << 3 | 2);
    Varint(bytes.size());
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return *this;
  }
  Fields& Text(int field, const std::string& text) {
    return Bytes(field, {reinterpret_cast<const std::byte*>(text.data()), text.size()});
  }
  const std::string& text() const { return text_; }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_.push_back(static_cast<char>(value | 0x80));
    text_.push_back(static_cast<char>(value));
  }

  std::string text_;
};

// ValueInfoProto.
std::string Value(const std::string& name, OnnxType type, const std::vector<int64_t>& shape) {
  Fields dims;
  dims.Text(1, Fields().Text(2, kBatch).text());
  for (const int64_t size : shape) dims.Text(1, Fields().Number(1, size).text());
  Fields tensor;
  tensor.Number(1, static_cast<int64_t>(type)).Text(2, dims.text());
  return Fields().Text(1, name).Text(2, Fields().Text(1, tensor.text()).text()).text();
}

}  // namespace

std::string OnnxGraph::AddInput(const std::string& name, OnnxType type, const std::vector<int64_t>& shape) {
  inputs_ += Fields().Text(11, Value(name, type, shape)).text();
  return name;
}

std::string OnnxGraph::AddConstant(const std::string& name, OnnxType type, const std::vector<int64_t>& shape,
                                   absl::Span<const std::byte> values) {
  Fields tensor;
  for (const int64_t size : shape) tensor.Number(1, size);
  tensor.Number(2, static_cast<int64_t>(type)).Text(8, name).Bytes(9, values);
  constants_ += Fields().Text(5, tensor.text()).text();
  return name;
}

std::string OnnxGraph::AddNode(const std::string& op, const std::vector<std::string>& inputs,
                               const std::vector<Attribute>& attributes) {
  constexpr int64_t kInt = 2, kInts = 7;
  const std::string output = absl::StrCat(op, "_", next_++);
  Fields node;
  for (const std::string& input : inputs) node.Text(1, input);
  node.Text(2, output).Text(3, output).Text(4, op);
  for (const Attribute& attribute : attributes) {
    Fields fields;
    fields.Text(1, attribute.name);
    if (const auto* number = std::get_if<int64_t>(&attribute.value)) {
      fields.Number(3, *number).Number(20, kInt);
    } else {
      for (const int64_t one : std::get<std::vector<int64_t>>(attribute.value)) fields.Number(8, one);
      fields.Number(20, kInts);
    }
    node.Text(5, fields.text());
  }
  nodes_ += Fields().Text(1, node.text()).text();
  return output;
}

void OnnxGraph::AddOutput(const std::string& name, OnnxType type, const std::vector<int64_t>& shape,
                          const std::string& from) {
  Fields node;
  node.Text(1, from).Text(2, name).Text(3, name).Text(4, "Identity");
  nodes_ += Fields().Text(1, node.text()).text();
  outputs_ += Fields().Text(12, Value(name, type, shape)).text();
}

std::string OnnxGraph::Finish(const std::map<std::string, std::string>& metadata) && {
  const std::string graph = nodes_ + Fields().Text(2, name_).text() + constants_ + inputs_ + outputs_;
  Fields model;
  model.Number(1, kIrVersion)
      .Text(2, "downpour")
      .Text(7, graph)
      .Text(8, Fields().Text(1, "").Number(2, kOperators).text());
  for (const auto& [key, value] : metadata) model.Text(14, Fields().Text(1, key).Text(2, value).text());
  return model.text();
}

}  // namespace downpour
