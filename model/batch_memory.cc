#include "model/batch_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

constexpr float kByteDivisor = 255;

const char* NameOf(InputType type) { return type == InputType::kBytes ? "bytes" : "floats"; }

}  // namespace

absl::Status BatchMemory::Allocate(const Shapes& shapes, const Allocator& allocate) {
  shapes_ = shapes;
  const auto place = [&](int64_t rows, int64_t cols, FloatFormat format, Matrix* to) {
    auto memory = allocate(rows, cols, format);
    if (memory.ok()) *to = *memory;
    return memory.status();
  };
  for (Slot& slot : slots_) {
    absl::Status status;
    if (shapes.examples.inputs == InputType::kBytes) {
      const int64_t floats = (shapes.input_width + 3) / 4;
      Matrix bytes;
      status = place(shapes.max_batch, floats, FloatFormat::kFp32, &bytes);
      slot.bytes = reinterpret_cast<uint8_t*>(bytes.data);
      slot.inputs = slots_.front().inputs;  // widened by operations, one after the other: one place is enough
    }
    if (status.ok() && slot.inputs.cols == 0) {
      status = place(shapes.max_batch, shapes.input_width, FloatFormat::kFactor, &slot.inputs);
    }
    if (status.ok() && shapes.has_targets()) {
      status = place(shapes.max_batch, shapes.output_width, FloatFormat::kFp32, &slot.targets);
    }
    if (status.ok() && shapes.examples.is_weighted) {
      status = place(shapes.max_batch, 1, FloatFormat::kFp32, &slot.weights);
    }
    Matrix labels;
    if (status.ok()) status = place(shapes.max_batch, 1, FloatFormat::kFp32, &labels);
    slot.labels = reinterpret_cast<int32_t*>(labels.data);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status BatchMemory::CheckLabels(absl::Span<const int32_t> labels) const {
  if (shapes_.output_width == 1) return absl::OkStatus();
  for (int32_t label : labels) {
    if (label >= 0 && label < shapes_.output_width) continue;
    return absl::OutOfRangeError(
        absl::StrCat("label ", label, " in the data, but the model's output has ", shapes_.output_width, " units"));
  }
  return absl::OkStatus();
}

absl::Status BatchMemory::Load(const BatchInputs& inputs, absl::Span<const int32_t> labels,
                               absl::Span<const float> numbers, absl::Span<const float> weights) {
  const int64_t batch = static_cast<int64_t>(labels.size());
  const auto* const bytes = std::get_if<absl::Span<const uint8_t>>(&inputs);
  const InputType type = bytes != nullptr ? InputType::kBytes : InputType::kFp32;
  const size_t count = std::visit([](auto values) { return values.size(); }, inputs);
  if (batch < 1 || batch > shapes_.max_batch || static_cast<int64_t>(count) != batch * shapes_.input_width ||
      type != shapes_.examples.inputs ||
      (!numbers.empty() && numbers.size() != labels.size() * static_cast<size_t>(shapes_.output_width))) {
    return absl::InvalidArgumentError(absl::StrCat(count, " ", NameOf(type), " and ", batch,
                                                   " labels are no batch of 1 to ", shapes_.max_batch, " examples of ",
                                                   shapes_.input_width, " ", NameOf(shapes_.examples.inputs)));
  }
  if (weights.size() != (shapes_.examples.is_weighted ? labels.size() : 0)) {
    return absl::InvalidArgumentError(absl::StrCat(weights.size(), " weights for ", batch, " examples"));
  }
  if (absl::Status status = CheckLabels(labels); !status.ok()) return status;
  at_hand_ = (at_hand_ + 1) % slots_.size();
  const Slot& to = slots_[at_hand_];
  size_ = 0;
  absl::Status status = bytes != nullptr ? backend_.Upload(bytes->data(), count, to.bytes)
                                         : backend_.Upload(std::get<absl::Span<const float>>(inputs).data(),
                                                           count * sizeof(float), to.inputs.data);
  if (status.ok()) status = backend_.Upload(labels.data(), labels.size() * sizeof(int32_t), to.labels);
  if (status.ok() && !weights.empty()) {
    status = backend_.Upload(weights.data(), weights.size() * sizeof(float), to.weights.data);
  }
  if (status.ok() && shapes_.has_targets()) status = LoadTargets(labels, numbers);
  if (status.ok() && bytes != nullptr) {
    status = backend_.WidenBytes({to.bytes, batch, shapes_.input_width}, kByteDivisor, to.inputs.Rows(batch));
  }
  if (status.ok()) size_ = batch;
  return status;
}

absl::Status BatchMemory::Begin(int64_t examples) {
  if (examples < 1 || examples > shapes_.max_batch) {
    return absl::InvalidArgumentError(absl::StrCat(examples, " examples, where a batch has 1 to ", shapes_.max_batch));
  }
  size_ = examples;
  return absl::OkStatus();
}

absl::Status BatchMemory::LoadTargets(absl::Span<const int32_t> labels, absl::Span<const float> numbers) {
  const size_t width = static_cast<size_t>(shapes_.output_width);
  std::vector<float> targets(labels.size() * width, 0.0f);
  for (size_t i = 0; i < labels.size(); ++i) {
    if (width == 1) {
      targets[i] = numbers.empty() ? static_cast<float>(labels[i]) : numbers[i];
    } else if (!numbers.empty()) {
      std::copy_n(numbers.begin() + i * width, width, targets.begin() + i * width);
    } else {
      targets[i * width + static_cast<size_t>(labels[i])] = 1.0f;
    }
  }
  return backend_.Upload(targets.data(), targets.size() * sizeof(float), slots_[at_hand_].targets.data);
}

}  // namespace downpour
