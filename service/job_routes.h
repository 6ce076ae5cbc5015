// The routes of the service: projects.jobs of ml v1, entries.list of Cloud Logging, the part of the storage JSON API
// that `gcloud storage` uses, /metrics.
//
// Shapes: every project has the same jobs. Errors are Google's.
// Source: the Google Cloud SDK's ml_v1_client.py, logging_v2_client.py and storage_v1_client.py.
// Tests: tests/process/test_job_service.py.
#pragma once

#include <httplib.h>

#include "service/job_service.h"
#include "service/model_service.h"

namespace downpour {

inline constexpr const char* kEntriesPath = "/v2/entries:list";  // a POST that only reads

void AddJobRoutes(httplib::Server& server, JobService& service);
void AddLogRoutes(httplib::Server& server, JobService& service);
void AddStorageRoutes(httplib::Server& server, const ObjectStore& objects);
void AddUploadRoutes(httplib::Server& server, const ObjectStore& objects);  // as one of them
void AddMetricsRoute(httplib::Server& server, JobService& service, const ModelService& models);

}  // namespace downpour
