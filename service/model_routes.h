// The routes of models, their versions and operations, as projects.models of ml v1 has them, and of predictions in
// three protocols: ml v1, TensorFlow Serving's REST and the Open Inference Protocol 2.
//
// Shapes: every project has the same models. Errors are Google's, and for the other two protocols {"error": "words"}.
// Source: the Google Cloud SDK's ml_v1_client.py; tensorflow/serving, g3doc/api_rest.md;
//   kserve/open-inference-protocol.
// Tests: tests/process/test_predictions.py.
#pragma once

#include <httplib.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "service/prediction_desk.h"

namespace downpour {

// Whether the caller may deploy from outside of the service's root.
using CheckOrigin = std::function<absl::Status(const httplib::Request&)>;
void AddModelRoutes(httplib::Server& server, ModelService& models, CheckOrigin may_name_any_path);
// First of all routes, since the library tries one after the other.
void AddPredictionRoutes(httplib::Server& server, PredictionDesk& desk);
void AddServingRoutes(httplib::Server& server, PredictionDesk& desk);    // TensorFlow Serving's
void AddInferenceRoutes(httplib::Server& server, PredictionDesk& desk);  // the Open Inference Protocol's

// Whether an address is of one of the latter two protocols.
bool HasPlainErrors(const std::string& path);
// Whether it asks for predictions, or for what a client must know to do so.
bool AsksForPredictions(const httplib::Request& request);
// Whether it changes which models there are.
bool Deploys(const httplib::Request& request);

}  // namespace downpour
