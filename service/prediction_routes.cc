#include <charconv>
#include <nlohmann/json.hpp>
#include <regex>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "predict/predict_json.h"
#include "runtime/http/bounded_server.h"
#include "schema/text.h"
#include "service/http_answer.h"
#include "service/model_routes.h"
#include "service/open_inference.h"

namespace downpour {
namespace {

using httplib::ContentReader;
using httplib::Request;
using httplib::Response;
using nlohmann::json;

constexpr const char* kVersionHeader = "Downpour-Version";
constexpr const char* kInferHeader = "Inference-Header-Content-Length";
constexpr JsonLimits kJsonLimits = {.most_bytes = kMostPredictionBytes, .most_levels = 16};

using AnswerFailure = void (*)(const absl::Status& status, Response& response);

PredictionRequest RequestOf(const Request& request, const std::string& model, const std::string& version) {
  return {.model = model, .version = version, .peer = request.remote_addr, .has_gone = [&request] {
            return HasPeerGone(request);
          }};
}

// Of ml v1 and of TensorFlow Serving, whose bodies are the same.
void PredictByJson(PredictionDesk& desk, const PredictionRequest& asked, const std::string& body, Response& response,
                   AnswerFailure fail) {
  const absl::Status status = desk.Ask(asked, [&](const ServedVersion& served, const Predictor& predictor) {
    absl::StatusOr<std::string> answer = PredictJson(predictor, body, kJsonLimits);
    if (!answer.ok()) return answer.status();
    response.set_header(kVersionHeader, served.version);
    response.body = *std::move(answer);
    response.set_header("Content-Type", "application/json");
    return absl::OkStatus();
  });
  if (!status.ok()) fail(status, response);
}

// A handler that reads a body of a prediction's size.
template <typename Act>
httplib::Server::HandlerWithContentReader WithPrediction(AnswerFailure fail, Act act) {
  return [fail, act](const Request& request, Response& response, const ContentReader& reader) {
    const absl::StatusOr<std::string> body = ReadBody(request, reader, kMostPredictionBytes);
    if (!body.ok()) return fail(body.status(), response);
    act(request, *body, response);
  };
}

absl::Status NoSuchVerb(const std::string& verb, const char* instead) {
  return absl::InvalidArgumentError(absl::StrCat(":", OneLine(verb, 40), " is not served here: ", instead));
}

// A version as these clients name it: 3 is v3 where no version can be called 3.
std::string VersionNamed(const std::string& said) {
  const bool is_number = !said.empty() && said.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? "v" + said : said;
}

json ServingState(const VersionStatus& version) {
  const bool is_ready = version.version.state == VersionState::kReady;
  const char* state = is_ready                                           ? (version.is_open ? "AVAILABLE" : "LOADING")
                      : version.version.state == VersionState::kCreating ? "START"
                                                                         : "END";
  return {
      {"version", version.version.name},
      {"state", state},
      {"status",
       {{"error_code", version.version.error.empty() ? "OK" : "UNKNOWN"}, {"error_message", version.version.error}}}};
}

absl::StatusOr<json> ServingStatus(const ModelService& models, const std::string& model, const std::string& version) {
  const absl::StatusOr<ModelStatus> found = models.Find(model);
  if (!found.ok()) return found.status();
  json states = json::array();
  for (const VersionStatus& one : found->versions) {
    if (version.empty() || one.version.name == version) states.push_back(ServingState(one));
  }
  if (!version.empty() && states.empty()) return models.FindVersion(model, version).status();
  return json{{"model_version_status", std::move(states)}};
}

template <typename Part>
json ServingTensors(const std::vector<Part>& parts) {
  constexpr const char* kTypes[] = {"DT_FLOAT", "DT_INT64", "DT_STRING"};
  json tensors = json::object();
  for (const Part& part : parts) {
    json dims = {{{"size", "-1"}, {"name", ""}}, {{"size", absl::StrCat(part.width)}, {"name", ""}}};
    tensors[part.name] = {{"dtype", kTypes[static_cast<size_t>(part.kind)]},
                          {"name", part.name},
                          {"tensor_shape", {{"dim", std::move(dims)}, {"unknown_rank", false}}}};
  }
  return tensors;
}

json ServingMetadata(const ServedVersion& served) {
  const Signature& signature = served.predictor->signature();
  json usual = {{"inputs", ServingTensors(signature.inputs)},
                {"outputs", ServingTensors(signature.outputs)},
                {"method_name", "tensorflow/serving/predict"}};
  return {{"model_spec", {{"name", served.model}, {"signature_name", ""}, {"version", served.version}}},
          {"metadata", {{"signature_def", {{"signature_def", {{"serving_default", std::move(usual)}}}}}}}};
}

void AnswerPlainOr(const absl::StatusOr<json>& answer, Response& response) {
  answer.ok() ? AnswerJson(*answer, response) : AnswerPlainError(answer.status(), response);
}

absl::StatusOr<std::optional<size_t>> HeaderBytesOf(const Request& request) {
  if (!request.has_header(kInferHeader)) return std::nullopt;
  uint64_t bytes = 0;
  if (absl::SimpleAtoi(request.get_header_value(kInferHeader), &bytes)) return static_cast<size_t>(bytes);
  return absl::InvalidArgumentError(absl::StrCat(kInferHeader, " must be a number"));
}

void InferByProtocol(PredictionDesk& desk, const Request& request, const std::string& body, Response& response) {
  const absl::StatusOr<std::optional<size_t>> header_bytes = HeaderBytesOf(request);
  if (!header_bytes.ok()) return AnswerPlainError(header_bytes.status(), response);
  const PredictionRequest asked = RequestOf(request, request.matches[1], VersionNamed(request.matches[2]));
  const absl::Status status = desk.Ask(asked, [&](const ServedVersion& served, const Predictor& predictor) {
    absl::StatusOr<InferAnswer> answer =
        Infer(predictor, {.model = served.model, .version = served.version}, body, *header_bytes);
    if (!answer.ok()) return answer.status();
    response.set_header(kVersionHeader, served.version);
    if (answer->header_bytes) response.set_header(kInferHeader, absl::StrCat(*answer->header_bytes));
    response.body = std::move(answer->body);
    response.set_header("Content-Type", answer->header_bytes ? "application/octet-stream" : "application/json");
    return absl::OkStatus();
  });
  if (!status.ok()) AnswerPlainError(status, response);
}

}  // namespace

void AddPredictionRoutes(httplib::Server& server, PredictionDesk& desk) {
  const std::string place = R"(/v1/projects/[^/]+/models/([A-Za-z0-9_]+)(?:/versions/([A-Za-z0-9_]+))?)";
  server.Post(place + ":predict",
              WithPrediction(AnswerError, [&desk](const Request& request, const std::string& body, Response& response) {
                PredictByJson(desk, RequestOf(request, request.matches[1], request.matches[2]), body, response,
                              AnswerError);
              }));
  server.Post(place + ":explain",
              WithPrediction(AnswerError, [](const Request&, const std::string&, Response& response) {
                AnswerError(NoSuchVerb("explain", "predictions are not explained, ask for them by :predict"), response);
              }));
}

void AddServingRoutes(httplib::Server& server, PredictionDesk& desk) {
  const std::string place = R"(/v1/models/([A-Za-z0-9_]+)(?:/versions/([A-Za-z0-9_]+))?)";
  server.Post(
      place + ":predict",
      WithPrediction(AnswerPlainError, [&desk](const Request& request, const std::string& body, Response& response) {
        PredictByJson(desk, RequestOf(request, request.matches[1], VersionNamed(request.matches[2])), body, response,
                      AnswerPlainError);
      }));
  server.Post(place + ":(classify|regress)",
              WithPrediction(AnswerPlainError, [](const Request& request, const std::string&, Response& response) {
                AnswerPlainError(NoSuchVerb(request.matches[3], "ask by :predict"), response);
              }));
  server.Get(place, [&desk](const Request& request, Response& response) {
    AnswerPlainOr(ServingStatus(desk.models(), request.matches[1], VersionNamed(request.matches[2])), response);
  });
  server.Get(place + "/metadata", [&desk](const Request& request, Response& response) {
    const auto served = desk.models().Take(request.matches[1], VersionNamed(request.matches[2]));
    if (!served.ok()) return AnswerPlainError(served.status(), response);
    AnswerJson(ServingMetadata(**served), response);
  });
}

void AddInferenceRoutes(httplib::Server& server, PredictionDesk& desk) {
  const std::string place = R"(/v2/models/([A-Za-z0-9_]+)(?:/versions/([A-Za-z0-9_]+))?)";
  server.Post(place + "/infer", WithPrediction(AnswerPlainError, [&desk](const Request& request,
                                                                         const std::string& body, Response& response) {
                InferByProtocol(desk, request, body, response);
              }));
  server.Get(place, [&desk](const Request& request, Response& response) {
    const auto served = desk.models().Take(request.matches[1], VersionNamed(request.matches[2]));
    if (!served.ok()) return AnswerPlainError(served.status(), response);
    json metadata = InferMetadata(*(*served)->predictor, {.model = (*served)->model, .version = (*served)->version});
    if (const auto model = desk.models().Find((*served)->model); model.ok()) {
      metadata["versions"] = json::array();
      for (const VersionStatus& one : model->versions) metadata["versions"].push_back(one.version.name);
    }
    AnswerJson(metadata, response);
  });
  server.Get(place + "/ready", [&desk](const Request& request, Response& response) {
    const auto served = desk.models().Take(request.matches[1], VersionNamed(request.matches[2]));
    if (!served.ok()) return AnswerPlainError(served.status(), response);
    AnswerJson({{"name", (*served)->model}, {"version", (*served)->version}, {"ready", true}}, response);
  });
  server.Get("/v2", [](const Request&, Response& response) {
    AnswerJson({{"name", "downpour"}, {"version", DOWNPOUR_VERSION}, {"extensions", {"binary_tensor_data"}}}, response);
  });
  server.Get("/v2/health/live", [](const Request&, Response& response) { AnswerJson({{"live", true}}, response); });
  server.Get("/v2/health/ready", [&desk](const Request&, Response& response) {
    if (desk.models().IsOpen()) return AnswerJson({{"ready", true}}, response);
    AnswerPlainError(absl::UnavailableError("the models are being opened: ask again"), response);
  });
}

}  // namespace downpour
