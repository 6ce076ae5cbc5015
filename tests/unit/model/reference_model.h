// A model computed naively in double precision, from its description alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "job/job.h"
#include "job/variables.h"
#include "runtime/prng.h"
#include "tensor/host_backend.h"

namespace downpour {

struct ReferenceModel {
  using Rows = std::vector<std::vector<double>>;  // [batch][width]

  ModelSpec model;
  std::vector<std::vector<double>> variables;  // as of InferVariables, row-major
  bool training = true;
  uint64_t draw_seed = 0;

  // The sum over the batch of its examples' losses. Inputs end with what embedding layers yield.
  double Loss(const Rows& inputs, const std::vector<int32_t>& labels) const {
    const Rows outputs = Forward(inputs);
    double loss = 0;
    for (size_t r = 0; r < outputs.size(); ++r) {
      loss += model.loss == Loss::kSoftmaxCrossEntropy   ? CrossEntropy(outputs[r], labels[r])
              : model.loss == Loss::kSigmoidCrossEntropy ? Sigmoids(outputs[r], labels[r])
                                                         : SquaredError(outputs[r], labels[r]);
    }
    return loss;
  }

  Rows Forward(const Rows& inputs) const {
    std::map<std::string, Rows> values;
    size_t first = 0, variable = 0, node = 0;
    const auto take = [&](const std::string& name, const std::vector<int64_t>& shape) {
      size_t width = 1;
      for (int64_t dimension : shape) width *= static_cast<size_t>(dimension);
      for (const auto& row : inputs) {
        values[name].emplace_back(row.begin() + static_cast<int64_t>(first),
                                  row.begin() + static_cast<int64_t>(first + width));
      }
      first += width;
      ++node;
    };
    for (const InputSpec& input : model.inputs) take(input.name, input.shape);
    const std::vector<std::vector<int64_t>> shapes = InferShapes(model).outputs;
    for (size_t i = 0; i < model.layers.size(); ++i) {
      const LayerSpec& layer = model.layers[i];
      if (std::holds_alternative<EmbeddingSpec>(layer.op)) {
        take(layer.name, shapes[i]);
        continue;
      }
      std::vector<Rows> from;
      for (const std::string& name : layer.from) from.push_back(values.at(name));
      values[layer.name] = Apply(layer, from, node++, &variable);
    }
    return values.at(model.layers.back().name);
  }

 private:
  static double Sigmoids(const std::vector<double>& x, int32_t label) {
    double sum = 0;
    for (size_t c = 0; c < x.size(); ++c) {
      const double target = x.size() == 1 ? label : static_cast<size_t>(label) == c;
      const double share = 1 / (1 + std::exp(-x[c]));
      sum -= target * std::log(share) + (1 - target) * std::log(1 - share);
    }
    return sum / static_cast<double>(x.size());
  }
  static double CrossEntropy(const std::vector<double>& x, int32_t label) {
    double sum = 0;
    for (double v : x) sum += std::exp(v);
    return std::log(sum) - x[static_cast<size_t>(label)];
  }
  static double SquaredError(const std::vector<double>& x, int32_t label) {
    double sum = 0;
    for (size_t c = 0; c < x.size(); ++c) {
      const double target = x.size() == 1 ? label : static_cast<size_t>(label) == c;
      sum += (x[c] - target) * (x[c] - target);
    }
    return sum / static_cast<double>(x.size());
  }
  static double Activate(Activation f, double x) {
    switch (f) {
      case Activation::kNone:
        return x;
      case Activation::kRelu:
        return std::max(x, 0.0);
      case Activation::kSigmoid:
        return 1 / (1 + std::exp(-x));
      case Activation::kTanh:
        return std::tanh(x);
    }
    return 0;
  }

  Rows Apply(const LayerSpec& layer, const std::vector<Rows>& from, size_t node, size_t* variable) const {
    if (const auto* dense = std::get_if<DenseSpec>(&layer.op)) return Dense(*dense, from[0], variable);
    Rows out = from[0];
    if (const auto* activation = std::get_if<ActivationSpec>(&layer.op)) {
      for (auto& row : out) {
        for (double& v : row) v = Activate(activation->function, v);
      }
    } else if (const auto* dropout = std::get_if<DropoutSpec>(&layer.op)) {
      if (training) Drop(MixAll(draw_seed, node), dropout->rate, &out);
    } else {
      const bool multiplies = std::holds_alternative<MultiplySpec>(layer.op);
      const bool add = multiplies || std::holds_alternative<AddSpec>(layer.op);
      for (size_t i = 1; i < from.size(); ++i) {
        for (size_t r = 0; r < out.size(); ++r) {
          if (!add) out[r].insert(out[r].end(), from[i][r].begin(), from[i][r].end());
          for (size_t c = 0; add && c < out[r].size(); ++c) {
            out[r][c] = multiplies ? out[r][c] * from[i][r][c] : out[r][c] + from[i][r][c];
          }
        }
      }
      if (std::holds_alternative<DotSpec>(layer.op)) Dots(WidthOfVectors(layer), &out);
    }
    return out;
  }

  size_t WidthOfVectors(const LayerSpec& layer) const {
    for (const InputSpec& input : model.inputs) {
      if (input.name == layer.from[0]) return static_cast<size_t>(input.shape.back());
    }
    for (size_t i = 0; i < model.layers.size(); ++i) {
      if (model.layers[i].name == layer.from[0]) return static_cast<size_t>(InferShapes(model).outputs[i].back());
    }
    return 0;
  }

  static void Dots(size_t width, Rows* rows) {
    for (std::vector<double>& row : *rows) {
      std::vector<double> dots;
      for (size_t i = 0; i < row.size(); i += width) {
        for (size_t j = i + width; j < row.size(); j += width) {
          dots.push_back(0);
          for (size_t k = 0; k < width; ++k) dots.back() += row[i + k] * row[j + k];
        }
      }
      row = std::move(dots);
    }
  }

  Rows Dense(const DenseSpec& dense, const Rows& x, size_t* variable) const {
    const std::vector<double>& kernel = variables[(*variable)++];
    const size_t units = static_cast<size_t>(dense.units);
    Rows out(x.size(), dense.bias ? variables[(*variable)++] : std::vector<double>(units));
    for (size_t r = 0; r < x.size(); ++r) {
      for (size_t u = 0; u < units; ++u) {
        for (size_t i = 0; i < x[r].size(); ++i) out[r][u] += x[r][i] * kernel[i * units + u];
        out[r][u] = Activate(dense.activation, out[r][u]);
      }
    }
    return out;
  }

  // The mask is the backend's, which tests/parity holds against the paper.
  static void Drop(uint64_t seed, double rate, Rows* rows) {
    const int64_t height = static_cast<int64_t>(rows->size()), width = static_cast<int64_t>((*rows)[0].size());
    std::vector<float> ones(static_cast<size_t>(height * width), 1.0f);
    const Matrix view(ones.data(), height, width);
    if (!MakeHostBackend({})->Dropout({&seed, rate}, view, view).ok()) std::abort();
    for (size_t i = 0; i < ones.size(); ++i) {
      (*rows)[i / static_cast<size_t>(width)][i % static_cast<size_t>(width)] *= ones[i];
    }
  }
};

}  // namespace downpour
