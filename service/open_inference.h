// The Open Inference Protocol, version 2: its requests and answers as JSON, with tensors beside it or in it.
//
//   absl::StatusOr<InferAnswer> answer = Infer(predictor, {.model = "m", .version = "v1"}, body, header_bytes);
//
// Shapes: {"inputs": [{"name", "shape": [rows, width], "datatype", "data": [...]}]}. A tensor whose parameters have
//   binary_data_size has its bytes behind the JSON, little-endian and row by row, as Inference-Header-Content-Length
//   tells where that ends. A tensor of BYTES has for each text its length in 4 bytes before it. An answer's tensors are
//   binary where the request asks for it.
// Errors: INVALID_ARGUMENT with the tensor and what is allowed; those of the predictor.
// Source: kserve/open-inference-protocol, specification/protocol/inference_rest.md; triton-inference-server,
//   docs/protocol/extension_binary_data.md.
// Tests: tests/unit/service/open_inference_test.cc, tests/process/test_predictions.py (tritonclient).
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "predict/predictor.h"

namespace downpour {

struct InferAnswer {
  std::string body;
  std::optional<size_t> header_bytes = {};  // of its JSON, where tensors follow it
};

struct InferName {
  std::string model, version;
};

// `header_bytes`: of the request's JSON; nothing: it is all of the body.
absl::StatusOr<InferAnswer> Infer(const Predictor& predictor, const InferName& name, std::string_view body,
                                  std::optional<size_t> header_bytes);

// {"name", "versions", "platform", "inputs": [{"name", "datatype", "shape"}], "outputs"}
nlohmann::json InferMetadata(const Predictor& predictor, const InferName& name);

}  // namespace downpour
