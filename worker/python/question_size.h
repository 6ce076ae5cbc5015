// How large the questions are that a worker asks its Python process, and how large they may be.
//
//   if (LargestQuestion(job) > kMostQuestionBytes) ...each worker would fail at such a step...
//
// Tests: tests/unit/worker/question_size_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "job/job.h"

namespace downpour {

inline constexpr uint32_t kMostQuestionBytes = uint32_t{16} << 20;
// Examples of a batch that is named ahead, so that questions stay short.
inline constexpr size_t kMostAhead = size_t{1} << 16;

// The examples of one question: those of a push, or with local steps of a batch.
uint64_t ExamplesOfQuestion(const JobSpec& job);
// Of a job of Python code, in bytes: that of its largest step whose examples have the highest numbers.
uint64_t LargestQuestion(const JobSpec& job);

}  // namespace downpour
