#include "worker/python/question_size.h"

#include <algorithm>

namespace downpour {
namespace {

// As python_computer.cc has them: {"train":{"batches":[],"next":,"set":0}} and {"examples":[],"seed":20 digits},.
constexpr uint64_t kQuestionBytes = 64, kBatchBytes = 48;

// Of `count` numbers, the highest below `end`, with a comma behind each.
uint64_t BytesOfNumbers(uint64_t end, uint64_t count) {
  uint64_t bytes = 0, power = 1, digits = 1;  // power: the lowest number with so many digits
  const uint64_t first = end - std::min(count, end);
  for (; power < end; power *= 10, ++digits) {
    const uint64_t from = std::max(first, digits == 1 ? 0 : power), to = std::min(end, power * 10);
    if (from < to) bytes += (to - from) * (digits + 1);
  }
  return bytes;
}

}  // namespace

uint64_t ExamplesOfQuestion(const JobSpec& job) {
  const auto examples = static_cast<uint64_t>(job.data.train_examples);
  const int64_t batches = job.training.local_steps > 0 ? 1 : job.training.push_every;
  return std::min(examples, static_cast<uint64_t>(job.training.batch_size * batches));
}

uint64_t LargestQuestion(const JobSpec& job) {
  const auto all = static_cast<uint64_t>(job.data.train_examples),
             of_batch = static_cast<uint64_t>(job.training.batch_size);
  const uint64_t asked = ExamplesOfQuestion(job);
  const uint64_t ahead = of_batch <= kMostAhead ? std::min(of_batch, all) : 0;
  const uint64_t batches = (asked + of_batch - 1) / of_batch + 1;
  return kQuestionBytes + batches * kBatchBytes + BytesOfNumbers(all, asked) + BytesOfNumbers(all, ahead);
}

}  // namespace downpour
