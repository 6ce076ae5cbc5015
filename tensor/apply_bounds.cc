#include "tensor/apply_bounds.h"

#include <algorithm>
#include <cmath>

namespace downpour {
namespace {

// What floats may reach before an update is looked at. Half of the largest leaves room for what doubles round here.
constexpr double kSafe = 0x1p126;

// Bounds of a sum and a product as float32 has them: above the exact ones by more than one rounding, of small numbers
// too.
double Rounded(double bound) { return bound * (1 + 0x1p-22) + 0x1p-140; }

// What magnitudes a rule can make of such ones, in the order of its operations. `most` is the largest on the way.
struct Reach {
  double gradient;
  Magnitudes now;
  double most = 0;

  double Sum(double a, double b) { return Note(Rounded(a + b)); }
  double Product(double a, double b) { return Note(Rounded(a * b)); }
  double Note(double bound) {
    most = std::max(most, bound);
    return bound;
  }

  double Corrected(double step, const RankOne& correction) { return Sum(step, Note(Rounded(correction.most))); }
  double Penalized(float decay) { return Sum(gradient, Product(decay, now[0])); }

  void operator()(const SgdUpdate& u) {
    now[0] = Sum(now[0], Product(u.learning_rate, Corrected(Penalized(u.decay), u.correction)));
  }
  void operator()(const MomentumUpdate& u) {
    const double g = Penalized(u.decay);
    now[1] = Sum(Product(u.momentum, now[1]), Product(u.gain, g));
    const double found = Sum(Product(u.carry, now[1]), Product(u.fresh, g));
    now[0] = Sum(now[0], Product(u.learning_rate, Corrected(found, u.correction)));
  }
  void operator()(const SquaresUpdate& u) {
    const double g = Penalized(u.decay);
    now[1] = Sum(Product(u.keep, now[1]), Product(Product(u.gain, g), g));
    Sum(now[1], u.start);
    // A root is of this gradient's square too, unless that was too small for a float. So |g| / (root + epsilon) is no
    // more than this, whatever the gradient.
    const double ratio = (1 + 0x1p-10 + 0x1p-50 / u.epsilon) / std::sqrt(static_cast<double>(u.gain));
    const double found = std::min(Rounded(Product(u.learning_rate, g) / u.epsilon), Product(u.learning_rate, ratio));
    now[0] = Sum(now[0], Corrected(found, u.correction));
  }
  void operator()(const AdamUpdate& u) {
    const double g = Penalized(u.decay);
    now[1] = Sum(Product(u.beta1, now[1]), Product(u.gain, g));
    now[2] = Sum(Product(u.beta2, now[2]), Product(Product(u.one_minus_beta2, g), g));
    const double sum = Sum(now[1], Product(u.fresh, g));
    const double found = Note(Rounded(Product(u.step_size, sum) / u.epsilon));  // the root is 0 or more
    now[0] = Sum(now[0], Sum(Corrected(found, u.correction), Product(u.shrink, now[0])));
  }
  void operator()(const FtrlUpdate& u) {
    const double g = Corrected(Penalized(u.decay), u.correction);
    now[2] = Sum(now[2], Product(g, g));
    const double root = Rounded(std::sqrt(now[2]));  // the root grows by no more than the gradient
    now[1] = Sum(now[1], Sum(Product(u.learning_rate, g), Product(Sum(g, 0x1p-20 * root), now[0])));
    now[0] = Note(Rounded(Sum(now[1], u.l1) / (static_cast<double>(u.beta) + u.l2)));
    Sum(Sum(u.beta, root), u.l2);
  }
};

bool AllKnown(const Magnitudes& magnitudes, size_t count) {
  return std::all_of(magnitudes.begin(), magnitudes.begin() + count, [](double m) { return m <= kSafe; });
}

}  // namespace

bool StaysSafe(const Update& update, double largest, size_t count, Magnitudes* bounds) {
  if (!AllKnown(*bounds, count)) return false;
  Reach reach{largest, *bounds};
  std::visit(reach, update);
  if (reach.most > kSafe || !AllKnown(reach.now, count)) return false;
  *bounds = reach.now;
  return true;
}

}  // namespace downpour
