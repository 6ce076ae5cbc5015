// JobComputer: computes a job by what it is made of: layers by Trainer, the user's Python code by PythonComputer.
//
// Order: as of Computer; each Prepare chooses.
// Tests: tests/process/test_python.py.
#pragma once

#include <memory>
#include <utility>
#include <variant>

#include "runtime/compute.h"

namespace downpour {

class JobComputer final : public Computer {
 public:
  JobComputer(std::unique_ptr<Computer> layers, std::unique_ptr<Computer> python)
      : layers_(std::move(layers)), python_(std::move(python)) {}

  void Run(const ComputeRequest& request, const Done& done) override {
    if (const auto* prepare = std::get_if<Prepare>(&request)) is_python_ = prepare->job.model.is_own();
    (is_python_ ? python_ : layers_)->Run(request, done);
  }
  bool loads_ahead() const override { return layers_->loads_ahead(); }
  void PrefetchParameters(const SliceValues& values) override { layers_->PrefetchParameters(values); }  // beside Run

 private:
  const std::unique_ptr<Computer> layers_;
  const std::unique_ptr<Computer> python_;
  bool is_python_ = false;
};

}  // namespace downpour
