// The routes by which a page, or a program, watches jobs: how far all are, and of one its status, history, checkpoints
// and logs. And the one that a chief is told by: write a checkpoint now.
//
// Shapes: docs/SERVICE.md. Errors are Google's.
// Tests: tests/unit/service/watch_routes_test.cc, tests/process/test_page.py.
#pragma once

#include <httplib.h>

#include "service/job_service.h"

namespace downpour {

void AddWatchRoutes(httplib::Server& server, JobService& service);

}  // namespace downpour
