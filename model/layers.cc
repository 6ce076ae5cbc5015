#include "model/layers.h"

#include <glog/logging.h>

#include <optional>
#include <type_traits>
#include <utility>

namespace downpour {
namespace {

constexpr Transpose kPlain = Transpose::kPlain;
constexpr Transpose kTransposed = Transpose::kTransposed;

absl::Span<float> AsVector(Matrix row) { return {row.data, static_cast<size_t>(row.cols)}; }

std::optional<ActivationFunction> FunctionOf(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return std::nullopt;
    case Activation::kRelu:
      return ActivationFunction::kRelu;
    case Activation::kSigmoid:
      return ActivationFunction::kSigmoid;
    case Activation::kTanh:
      return ActivationFunction::kTanh;
  }
  return std::nullopt;
}

absl::Status Deliver(const Pass& pass, ConstMatrix gradient, const GradientTarget& target) {
  if (target.view.rows == 0) return absl::OkStatus();
  return target.accumulate ? pass.backend.Accumulate(gradient, target.view) : pass.backend.Copy(gradient, target.view);
}

class DenseLayer final : public Layer {
 public:
  DenseLayer(Activation activation, absl::Span<Parameter* const> parameters)
      : function_(FunctionOf(activation)),
        kernel_(*parameters[0]),
        bias_(parameters.size() > 1 ? parameters[1] : nullptr) {}

  absl::Status Forward(const Pass& pass, absl::Span<const ConstMatrix> inputs, Matrix output) override {
    absl::Status status = pass.backend.Gemm(kPlain, kPlain, inputs[0], kernel_.value, 0, output);
    if (!status.ok()) return status;
    if (bias_ != nullptr) return pass.backend.AddBiasActivate(AsVector(bias_->value), function_, output);
    return function_ ? pass.backend.Activate(*function_, output, output) : absl::OkStatus();
  }

  absl::Status BackwardParameters(const Pass& pass, absl::Span<const ConstMatrix> inputs, ConstMatrix output,
                                  Matrix d_output) override {
    const float beta = pass.accumulate ? 1 : 0;
    absl::Status status;
    if (function_) status = pass.backend.ActivateBackward(*function_, output, d_output, d_output);
    if (status.ok() && bias_ != nullptr) status = pass.backend.SumRows(d_output, beta, AsVector(bias_->gradient));
    if (status.ok()) status = pass.backend.Gemm(kTransposed, kPlain, inputs[0], d_output, beta, kernel_.gradient);
    return status;
  }

  absl::Status BackwardInputs(const Pass& pass, absl::Span<const ConstMatrix>, ConstMatrix, Matrix d_output,
                              absl::Span<const GradientTarget> d_inputs) override {
    if (d_inputs[0].view.rows == 0) return absl::OkStatus();
    const float beta = d_inputs[0].accumulate ? 1 : 0;
    return pass.backend.Gemm(kPlain, kTransposed, d_output, kernel_.value, beta, d_inputs[0].view);
  }

 private:
  std::optional<ActivationFunction> function_;
  Parameter& kernel_;
  Parameter* bias_;
};

class ActivationLayer final : public Layer {
 public:
  explicit ActivationLayer(Activation activation) : function_(FunctionOf(activation)) {}

  absl::Status Forward(const Pass& pass, absl::Span<const ConstMatrix> inputs, Matrix output) override {
    return function_ ? pass.backend.Activate(*function_, inputs[0], output) : pass.backend.Copy(inputs[0], output);
  }
  absl::Status BackwardInputs(const Pass& pass, absl::Span<const ConstMatrix>, ConstMatrix output, Matrix d_output,
                              absl::Span<const GradientTarget> d_inputs) override {
    absl::Status status;
    if (function_) status = pass.backend.ActivateBackward(*function_, output, d_output, d_output);
    return status.ok() ? Deliver(pass, d_output, d_inputs[0]) : status;
  }

 private:
  std::optional<ActivationFunction> function_;
};

class DropoutLayer final : public Layer {
 public:
  DropoutLayer(double rate, size_t number) : rate_(rate), number_(number) {}

  absl::Status Forward(const Pass& pass, absl::Span<const ConstMatrix> inputs, Matrix output) override {
    return pass.training ? pass.backend.Dropout(Mask(pass), inputs[0], output) : pass.backend.Copy(inputs[0], output);
  }
  absl::Status BackwardInputs(const Pass& pass, absl::Span<const ConstMatrix>, ConstMatrix, Matrix d_output,
                              absl::Span<const GradientTarget> d_inputs) override {
    absl::Status status = pass.backend.Dropout(Mask(pass), d_output, d_output);
    return status.ok() ? Deliver(pass, d_output, d_inputs[0]) : status;
  }

 private:
  DropoutMask Mask(const Pass& pass) const { return {pass.seeds + number_, rate_}; }

  double rate_;
  size_t number_;
};

class AddLayer final : public Layer {
 public:
  absl::Status Forward(const Pass& pass, absl::Span<const ConstMatrix> inputs, Matrix output) override {
    absl::Status status = pass.backend.Copy(inputs[0], output);
    for (size_t i = 1; i < inputs.size() && status.ok(); ++i) status = pass.backend.Accumulate(inputs[i], output);
    return status;
  }
  absl::Status BackwardInputs(const Pass& pass, absl::Span<const ConstMatrix>, ConstMatrix, Matrix d_output,
                              absl::Span<const GradientTarget> d_inputs) override {
    absl::Status status;
    for (size_t i = 0; i < d_inputs.size() && status.ok(); ++i) status = Deliver(pass, d_output, d_inputs[i]);
    return status;
  }
};

// Of two inputs: graph.cc makes one of more out of several.
class MultiplyLayer final : public Layer {
 public:
  absl::Status Forward(const Pass& pass, absl::Span<const ConstMatrix> inputs, Matrix output) override {
    return pass.backend.Multiply(inputs[0], inputs[1], 0, output);
  }
  absl::Status BackwardInputs(const Pass& pass, absl::Span<const ConstMatrix> inputs, ConstMatrix, Matrix d_output,
                              absl::Span<const GradientTarget> d_inputs) override {
    absl::Status status;
    for (size_t i = 0; i < 2 && status.ok(); ++i) {
      if (d_inputs[i].view.rows == 0) continue;
      const float beta = d_inputs[i].accumulate ? 1 : 0;
      status = pass.backend.Multiply(d_output, inputs[1 - i], beta, d_inputs[i].view);
    }
    return status;
  }
};

// Of one input: graph.cc lays several side by side before.
class DotLayer final : public Layer {
 public:
  absl::Status Forward(const Pass& pass, absl::Span<const ConstMatrix> inputs, Matrix output) override {
    return pass.backend.PairDots(inputs[0], output);
  }
  absl::Status BackwardInputs(const Pass& pass, absl::Span<const ConstMatrix> inputs, ConstMatrix, Matrix d_output,
                              absl::Span<const GradientTarget> d_inputs) override {
    if (d_inputs[0].view.rows == 0) return absl::OkStatus();
    const float beta = d_inputs[0].accumulate ? 1 : 0;
    return pass.backend.PairDotsBackward(inputs[0], d_output, beta, d_inputs[0].view);
  }
};

class ConcatLayer final : public Layer {
 public:
  absl::Status Forward(const Pass& pass, absl::Span<const ConstMatrix> inputs, Matrix output) override {
    absl::Status status;
    int64_t first = 0;
    for (size_t i = 0; i < inputs.size() && status.ok(); ++i) {
      status = pass.backend.Copy(inputs[i], output.Columns(first, inputs[i].cols));
      first += inputs[i].cols;
    }
    return status;
  }
  absl::Status BackwardInputs(const Pass& pass, absl::Span<const ConstMatrix>, ConstMatrix, Matrix d_output,
                              absl::Span<const GradientTarget> d_inputs) override {
    absl::Status status;
    int64_t first = 0;
    for (size_t i = 0; i < d_inputs.size() && status.ok(); ++i) {
      status = Deliver(pass, d_output.Columns(first, d_inputs[i].view.cols), d_inputs[i]);
      first += d_inputs[i].view.cols;
    }
    return status;
  }
};

// A kind of layer that is missing here does not compile.
bool DrawsOf(const DenseSpec&) { return false; }
bool DrawsOf(const ActivationSpec&) { return false; }
bool DrawsOf(const DropoutSpec&) { return true; }
bool DrawsOf(const AddSpec&) { return false; }
bool DrawsOf(const MultiplySpec&) { return false; }
bool DrawsOf(const DotSpec&) { return false; }
bool DrawsOf(const ConcatSpec&) { return false; }
bool DrawsOf(const EmbeddingSpec&) { return false; }

}  // namespace

bool Draws(const LayerSpec& spec) {
  return std::visit([](const auto& op) { return DrawsOf(op); }, spec.op);
}

absl::Status Layer::BackwardParameters(const Pass&, absl::Span<const ConstMatrix>, ConstMatrix, Matrix) {
  return absl::OkStatus();
}

std::unique_ptr<Layer> MakeLayer(const LayerSpec& spec, absl::Span<Parameter* const> parameters, size_t number) {
  return std::visit(
      [&](const auto& op) -> std::unique_ptr<Layer> {
        using Op = std::decay_t<decltype(op)>;
        if constexpr (std::is_same_v<Op, DenseSpec>) {
          CHECK_EQ(parameters.size(), op.bias ? 2u : 1u);
          return std::make_unique<DenseLayer>(op.activation, parameters);
        } else if constexpr (std::is_same_v<Op, ActivationSpec>) {
          return std::make_unique<ActivationLayer>(op.function);
        } else if constexpr (std::is_same_v<Op, DropoutSpec>) {
          return std::make_unique<DropoutLayer>(op.rate, number);
        } else if constexpr (std::is_same_v<Op, AddSpec>) {
          return std::make_unique<AddLayer>();
        } else if constexpr (std::is_same_v<Op, MultiplySpec>) {
          return std::make_unique<MultiplyLayer>();
        } else if constexpr (std::is_same_v<Op, DotSpec>) {
          return std::make_unique<DotLayer>();
        } else if constexpr (std::is_same_v<Op, EmbeddingSpec>) {
          return nullptr;  // what it yields comes with the batch, as an input's does
        } else {
          static_assert(std::is_same_v<Op, ConcatSpec>);
          return std::make_unique<ConcatLayer>();
        }
      },
      spec.op);
}

}  // namespace downpour
