// StalenessConstants: the numbers of the rule for stale gradients (ps/staleness_rule.h), each with the command that
// chose it. Such a command is run once for each value that is to be compared, and the test accuracies decide.
//
// DATA is a folder with the hard digits (`downpour data digits --hard`) and MNIST one with MNIST. FOLDER/sums is one of
// the sets that `tests/accuracy/other_digits.py MNIST FOLDER` makes, and TEACHER what `tests/accuracy/teacher.py
// TEACHER` draws. DEEP stands for eight `relu` layers of 64 units before the last one, as
// 'model.layers=[{dense: {units: 64, activation: relu}}, ...]'.
//
// Source: docs/research/staleness.md and slow_links.md have results, days, machines and what was rejected.
// Tests: tests/unit/ps/staleness_rule_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace downpour {

struct StalenessConstants {
  // Up to this s a gradient counts in full, and beyond it this / s of that. It is a compromise: with 8 deep networks
  // bear higher rates, with 12 and 16 the sums gain and deep networks swing.
  //   tests/accuracy/simulated.py build FOLDER/sums --workers 1,16 training.epochs=20
  //   tests/accuracy/simulated.py build MNIST --workers 1,16 training.epochs=6 DEEP
  static constexpr double kPaced = 10;

  // Times the root of b, the share of a gradient's whole effect that counts at once. The commands are those of kPaced.
  static constexpr double kAtOnce = 0.1;

  // A velocity spans at least so many updates in multiples of s: one that is as long as the delay damps no swing.
  //   tests/accuracy/simulated.py build MNIST --workers 1,16 training.epochs=6 DEEP
  static constexpr double kLeastSpan = 10;

  // From so many rows and columns on a slice has a largest direction. The gradient of a smaller one is hardly more than
  // that direction.
  //   tests/accuracy/simulated.py build MNIST --workers 1,4,16 training.epochs=6, with layers of 4 and of 7 units
  static constexpr size_t kLeastDirections = 4;

  // As kPaced, with local steps. It was chosen with kSteepDirections in a simulation in NumPy that was not kept. The
  // commands measure the same with real processes.
  //   tests/accuracy/learning.py build DATA --workers 1,8,16 training.localSteps=8 training.epochs=3
  //   tests/accuracy/learning.py build TEACHER --workers 1,8,16 training.localSteps=8 training.epochs=3
  static constexpr double kPacedDifferences = 16;

  // With local steps, so many directions of a difference count 1/s. With four the teacher's set was unstable.
  static constexpr size_t kSteepDirections = 8;

  // The usual staleness is a mean of so many pushes. No other value was compared. The command measures accuracy at a
  // set staleness.
  //   tests/accuracy/learning.py build DATA --workers 1,8,16 --delay 4
  static constexpr uint64_t kPushesOfMean = 64;

  // In that mean a push counts as at most twice the mean and so many updates. It was chosen by a job of which one
  // worker was stopped again and again (docs/research/staleness.md, "Some facts"), whose program was not kept. The
  // command measures a worker that is always slow.
  //   tests/accuracy/straggler.py build MNIST --epochs 3 --only async
  static constexpr uint64_t kRareFrom = 4;
};

}  // namespace downpour
