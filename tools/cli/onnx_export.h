// A checkpoint's model of layers as ONNX: docs/MODEL_FILE.md, "ONNX".
//
//   absl::Status status = ExportAsOnnx(checkpoint, "model.onnx");
//
// Shapes: the inputs are the model's inputs, with the batch before, and by its name what each embedding layer yields;
//   of images the numbers of their files, 0 to 255. The outputs are those of a prediction (predict/job_predictor.h).
// Cost: memory of the file.
// Errors: UNIMPLEMENTED for a model of Python code; OUT_OF_RANGE for more than the 2 GiB that such a file may have.
// Tests: tests/unit/tools/cli/onnx_export_test.cc, tests/process/test_onnx.py.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/checkpoint_reader.h"

namespace downpour {

absl::StatusOr<std::string> OnnxModelOf(const LoadedCheckpoint& checkpoint);
absl::Status ExportAsOnnx(const LoadedCheckpoint& checkpoint, const std::string& path);

}  // namespace downpour
