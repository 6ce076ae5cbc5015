// PythonComputer: the user's Python code behind the Computer interface. Role and protocol know nothing of it.
//
//   PythonComputer computer({.interpreter = "python3"});
//
// Shapes: the child sees each variable as float32, row-major, at a multiple of 64 bytes; first all parameters, then,
//   each from the next multiple of 4,096, sets of all gradients in the same order. A step says which set is to be
//   written. A batch is the numbers of its examples in the user's data set, and the seed of its random draws
//   (runtime/plan.h). A step also names the batch that will probably come next.
//   Rows of tables lie in memory of their own (child_rows.h).
// Order: as of Trainer: Prepare first, which starts another child; every slice comes in some request before a step.
// Cost: beyond the C++ trainer one copy of the parameters a step, one of the gradients within the child, and two short
//   messages. Gradients leave from the shared memory (gradient_sets.h), but none before all are there. With
//   training.localSteps each batch takes these copies and messages. The child makes the next batch once it has
//   answered.
// Errors: of Prepare: INVALID_ARGUMENT where the code differs from what it was when the job was submitted (variables,
//   examples, metrics), or refuses; of all: those of PythonChild. Where the code raised in a step, its examples are
//   named. A failed step ends the child.
// Threads: one.
// Tests: tests/unit/worker/python_computer_test.cc, tests/process/test_python.py.
#pragma once

#include <memory>

#include "runtime/compute.h"
#include "worker/python/python_child.h"

namespace downpour {

class PythonComputer final : public Computer {
 public:
  explicit PythonComputer(PythonOptions options);
  ~PythonComputer() override;
  void Run(const ComputeRequest& request, const Done& done) override;

 private:
  class Session;  // what Prepare made

  const PythonOptions options_;
  std::unique_ptr<Session> session_;
};

}  // namespace downpour
