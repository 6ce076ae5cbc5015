#include "tensor/apply_kernels.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/flush_subnormals.h"
#include "tests/unit/tensor/cpu_targets.h"

namespace downpour {
namespace {

constexpr float kSentinel = 12345.5f;
constexpr size_t kGuard = 16;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Floats between guards, `shift` floats away from an aligned address.
class Guarded {
 public:
  Guarded(size_t n, size_t shift, uint32_t seed) : n_(n), shift_(shift), all_(n + 2 * kGuard + shift, kSentinel) {
    for (size_t i = 0; i < n; ++i) {
      seed = seed * 1664525u + 1013904223u;
      data()[i] =
          (static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f) * std::ldexp(1.0f, static_cast<int>(seed % 40) - 30);
    }
  }
  float* data() { return all_.data() + kGuard + shift_; }
  std::vector<float> values() const {
    return std::vector<float>(all_.begin() + kGuard + shift_, all_.begin() + kGuard + shift_ + n_);
  }
  bool GuardsIntact() const {
    for (size_t i = 0; i < all_.size(); ++i) {
      if ((i < kGuard + shift_ || i >= kGuard + shift_ + n_) && all_[i] != kSentinel) return false;
    }
    return true;
  }

 private:
  size_t n_;
  size_t shift_;
  std::vector<float> all_;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), 4 * a.size()) == 0);
}

using Arrays = std::vector<std::vector<float>>;  // values, then slots

std::vector<UpdatedArray> InPlace(Arrays& arrays) {
  std::vector<UpdatedArray> updated;
  for (std::vector<float>& array : arrays) updated.push_back({array.data(), array.data()});
  return updated;
}

// One element of each array, values first, and its gradient.
struct Element {
  float g;
  std::vector<float*> a;
};

void ScalarRule(const SgdUpdate& u, float g, Element& e) { *e.a[0] = *e.a[0] - u.learning_rate * g; }
void ScalarRule(const MomentumUpdate& u, float g, Element& e) {
  float &w = *e.a[0], &v = *e.a[1];
  v = u.momentum * v + u.gain * g;
  w = w - u.learning_rate * (u.carry * v + u.fresh * g);
}
void ScalarRule(const SquaresUpdate& u, float g, Element& e) {
  float &w = *e.a[0], &s = *e.a[1];
  s = u.keep * s + (u.gain * g) * g;
  w = w - (u.learning_rate * g) / (std::sqrt(s + u.start) + u.epsilon);
}
void ScalarRule(const AdamUpdate& u, float g, Element& e) {
  float &w = *e.a[0], &m = *e.a[1], &v = *e.a[2];
  m = u.beta1 * m + u.gain * g;
  v = u.beta2 * v + (u.one_minus_beta2 * g) * g;
  w = w - ((u.step_size * (m + u.fresh * g)) / (std::sqrt(v) + u.epsilon) + u.shrink * w);
}
void ScalarRule(const FtrlUpdate& u, float g, Element& e) {
  float &w = *e.a[0], &z = *e.a[1], &n = *e.a[2];
  const float root = std::sqrt(n + g * g);
  z = z + (u.learning_rate * g - (root - std::sqrt(n)) * w);
  n = n + g * g;
  w = std::fabs(z) <= u.l1 ? 0 : (std::copysign(u.l1, z) - z) / ((u.beta + root) + u.l2);
}

// The rules as the header states them, one element after the other.
void Reference(const Update& update, const std::vector<float>& gradient, Arrays& arrays) {
  const FlushSubnormals flush;
  for (size_t i = 0; i < gradient.size(); ++i) {
    Element e{gradient[i], {}};
    for (std::vector<float>& array : arrays) e.a.push_back(&array[i]);
    std::visit([&](const auto& u) { ScalarRule(u, e.g + u.decay * *e.a[0], e); }, update);
  }
}

// Runs every case on every target this CPU has, and on the portable one.
class ApplyKernelsTest : public CpuTargetTest {};
INSTANTIATE_TEST_SUITE_P(Targets, ApplyKernelsTest, testing::ValuesIn(CpuTargets()), NameOfCpuTarget);

constexpr AdamUpdate Decaying(AdamUpdate update, float shrink, float decay, float fresh = 0) {
  update.shrink = shrink;
  update.decay = decay;
  update.fresh = fresh;
  return update;
}

const std::vector<Update>& Updates() {
  static const AdamUpdate adam = MakeAdamUpdate(0.001, 0.9, 0.999, 1e-8, 3);
  static const std::vector<Update> updates = {SgdUpdate{0.1f},
                                              SgdUpdate{0.1f, 0.01f},
                                              MomentumUpdate{0.02f, 0.9f},
                                              MomentumUpdate{0.02f, 0.99f, 0.3f, 0.6f, 0.9f, 0.01f},
                                              SquaresUpdate{0.01f, 1, 1, 0.1f, 1e-10f, 0.01f},
                                              SquaresUpdate{0.01f, 0.99f, 0.01f, 0, 1e-8f},
                                              adam,
                                              Decaying(adam, 1e-4f, 0),
                                              Decaying(adam, 0, 0.01f),
                                              FtrlUpdate{0.1f, 1, 0.05f, 0.01f},
                                              FtrlUpdate{0.1f, 1, 0, 0, 0.01f}};
  return updates;
}

const size_t kSizes[] = {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 1000, 4099};

TEST_P(ApplyKernelsTest, ChosenTargetIsTheOneUnderTest) { EXPECT_STREQ(CpuTargetName(), hwy::TargetName(GetParam())); }

// `shared` has a bit per array: set where the result goes to another array.
TEST_P(ApplyKernelsTest, SameBitsAsTheScalarRule) {
  for (const Update& update : Updates()) {
    const size_t count = 1 + SlotsOf(update);
    for (size_t n : kSizes) {
      for (size_t shift : {0, 1, 3}) {
        for (unsigned shared = 0; shared < 1u << count; ++shared) {
          Guarded gradient(n, shift, 7);
          std::vector<Guarded> in, out;
          std::vector<UpdatedArray> arrays;
          Arrays expected, before;
          for (size_t a = 0; a < count; ++a) {
            in.emplace_back(n, 2 * a, static_cast<uint32_t>(100 + a));
            out.emplace_back(n, a, 5);
            if (a > 0 && a + 1 == count) {  // squares, as of Adam's v; a velocity may be of either sign
              for (size_t i = 0; i < n; ++i) in[a].data()[i] = std::fabs(in[a].data()[i]);
            }
            expected.push_back(in[a].values());
          }
          before = expected;
          for (size_t a = 0; a < count; ++a) {
            arrays.push_back({in[a].data(), shared >> a & 1 ? out[a].data() : in[a].data()});
          }
          Reference(update, gradient.values(), expected);
          ASSERT_TRUE(ApplyUpdate(update, {gradient.data(), n}, arrays));
          for (size_t a = 0; a < count; ++a) {
            const bool apart = shared >> a & 1;
            EXPECT_TRUE(SameBits((apart ? out[a] : in[a]).values(), expected[a])) << "array " << a << " of " << n;
            EXPECT_TRUE(!apart || SameBits(in[a].values(), before[a])) << "array " << a << " of " << n;
            EXPECT_TRUE(in[a].GuardsIntact() && out[a].GuardsIntact());
          }
        }
      }
    }
  }
}

TEST_P(ApplyKernelsTest, AGradientThatIsNotFiniteChangesNothingInPlace) {
  for (const Update& update : Updates()) {
    for (size_t n : {1, 17, 100}) {
      for (size_t at : {size_t{0}, n / 2, n - 1}) {
        for (float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
          Guarded gradient(n, 1, 7);
          gradient.data()[at] = bad;
          std::vector<Guarded> in(1 + SlotsOf(update), Guarded(n, 0, 9));
          const std::vector<float> before = in[0].values();
          Guarded apart(n, 0, 5);
          std::vector<UpdatedArray> arrays;
          for (Guarded& array : in) arrays.push_back({array.data(), array.data()});
          EXPECT_FALSE(ApplyUpdate(update, {gradient.data(), n}, arrays));
          arrays[0].out = apart.data();
          EXPECT_FALSE(ApplyUpdate(update, {gradient.data(), n}, arrays));
          for (const Guarded& array : in) EXPECT_TRUE(SameBits(array.values(), before));
          EXPECT_TRUE(apart.GuardsIntact());
        }
      }
    }
  }
}

constexpr float kBf16Overflows = 0x1.ffp127f;  // the least that bfloat16 rounds to infinity

bool Fits(const Arrays& arrays) {
  for (const std::vector<float>& array : arrays) {
    for (const float x : array) {
      if (!(std::fabs(x) < kBf16Overflows)) return false;
    }
  }
  return true;
}

// In place, apart, and in place after a life that made the bounds known.
TEST_P(ApplyKernelsTest, AnUpdateThatWouldNotBeFiniteChangesNothing) {
  struct Case {
    Update update;
    std::vector<float> state;  // of each array
    float gradient;
  };
  const Update adam = MakeAdamUpdate(0.001, 0.9, 0.999, 1e-8, 3);
  const std::vector<Case> cases = {{SgdUpdate{1}, {-3e38f}, 1e38f},
                                   {SgdUpdate{2}, {0}, 3e38f},
                                   {SgdUpdate{1, 1}, {3e38f}, 3e38f},
                                   {SquaresUpdate{1, 1, 1, 0, 1e-8f}, {0, 0}, 3e19f},
                                   {SquaresUpdate{3e38f, 1, 1, 0, 1e-8f}, {-3e38f, 0}, 1},
                                   {FtrlUpdate{1, 1, 0, 0}, {0, 0, 0}, 3e19f},
                                   {FtrlUpdate{1, 1e-37f, 0, 0}, {0, 100, 0}, 1e-30f},
                                   {FtrlUpdate{1, 1, 0, 0}, {1e30f, 0, 0}, 1e10f},
                                   {SgdUpdate{1}, {0}, kBf16Overflows},
                                   {MomentumUpdate{0.02f, 0.9f}, {0, 3e38f}, 3e38f},
                                   {MomentumUpdate{4, 0.9f}, {0, 1e38f}, 1},
                                   {adam, {0, 0, 0}, 3e21f},
                                   {adam, {3e38f, 1e38f, 0}, 1e-20f},
                                   {adam, {kNan, 0, 0}, 1}};
  for (const Case& c : cases) {
    for (const size_t n : {size_t{1}, size_t{19}, size_t{5000}}) {
      std::vector<float> gradient(n);
      Arrays before(c.state.size(), std::vector<float>(n, 0));
      const size_t at = n / 2;
      for (size_t a = 0; a < before.size(); ++a) before[a][at] = c.state[a];
      Arrays in = before, out = before;
      std::vector<UpdatedArray> in_place, apart;
      for (size_t a = 0; a < in.size(); ++a) {
        in_place.push_back({in[a].data(), in[a].data()});
        apart.push_back({in[a].data(), out[a].data()});
      }
      Magnitudes bounds = kUnknownMagnitudes;
      if (Fits(before)) bounds = {4e38, 4e38, 4e38};
      const Magnitudes bounds_before = bounds;
      gradient[at] = c.gradient;
      EXPECT_FALSE(ApplyUpdate(c.update, absl::MakeConstSpan(gradient), in_place, &bounds));
      EXPECT_FALSE(ApplyUpdate(c.update, absl::MakeConstSpan(gradient), apart, &bounds));
      for (size_t a = 0; a < in.size(); ++a) EXPECT_TRUE(SameBits(in[a], before[a])) << a << " of " << n;
      EXPECT_EQ(bounds, bounds_before);
    }
  }
}

// What a rule makes of a value by a step.
float Stepped(const SgdUpdate& u, float value, float step) { return value - u.learning_rate * step; }
float Stepped(const MomentumUpdate& u, float value, float step) { return value - u.learning_rate * step; }
float Stepped(const SquaresUpdate&, float value, float step) { return value - step; }
float Stepped(const AdamUpdate& u, float value, float step) { return value - (step + u.shrink * value); }

// Over several blocks and parts of rows, in place and apart.
template <class Rule>
void ExpectCorrected(Rule update, const GradientSpan& numbers, const Arrays& state) {
  constexpr size_t kColumns = 37, kLead = 5;
  const size_t n = numbers.size();
  Guarded step(n, 1, 2), left(n / kColumns + 2, 1, 5), right(kColumns, 2, 6);
  Arrays plain = state, corrected = state, out = state;
  const std::vector<UpdatedArray> in_place = InPlace(corrected);
  std::vector<UpdatedArray> apart;
  for (size_t a = 0; a < state.size(); ++a) apart.push_back({corrected[a].data(), out[a].data()});
  FindStep(update, numbers, in_place, step.data());
  ASSERT_TRUE(ApplyUpdate(update, numbers, InPlace(plain)));
  for (size_t i = 0; i < n; ++i) ASSERT_EQ(plain[0][i], Stepped(update, state[0][i], step.data()[i])) << i;
  update.correction = {{.columns = kColumns, .lead = kLead}, left.data(), right.data(), 4};
  ASSERT_TRUE(ApplyUpdate(update, numbers, apart));
  Magnitudes known = {4, 4, 4};
  ASSERT_TRUE(ApplyUpdate(update, numbers, in_place, &known));
  EXPECT_TRUE(SameBits(corrected[0], out[0]));
  for (size_t a = 1; a < state.size(); ++a) EXPECT_TRUE(SameBits(corrected[a], plain[a])) << "the slots are the rule's";
  for (size_t i = 0; i < n; ++i) {
    const float added = left.data()[(kLead + i) / kColumns] * right.data()[(kLead + i) % kColumns];
    ASSERT_EQ(out[0][i], Stepped(update, state[0][i], step.data()[i] + added)) << i;
  }
}

TEST_P(ApplyKernelsTest, ACorrectionIsAddedToTheStepThatTheRuleFinds) {
  constexpr size_t kN = 10'000;
  Guarded gradient(kN, 3, 1);
  const std::vector<float> values = Guarded(kN, 0, 3).values(), slot = Guarded(kN, 0, 4).values();
  std::vector<float> squares(kN);
  std::transform(slot.begin(), slot.end(), squares.begin(), [](float x) { return x * x; });
  std::vector<Bf16> halves(kN);
  RoundToBf16({gradient.data(), kN}, halves.data());
  const AdamUpdate adam = Decaying(MakeAdamUpdate(0.001, 0.9, 0.999, 1e-8, 3), 0.01f, 0.02f, 0.05f);
  for (const GradientSpan numbers : {GradientSpan(gradient.data(), kN), GradientSpan(absl::MakeConstSpan(halves))}) {
    ExpectCorrected(SgdUpdate{0.1f}, numbers, {values});
    ExpectCorrected(SgdUpdate{0.1f, 0.01f}, numbers, {values});
    ExpectCorrected(MomentumUpdate{0.02f, 0.99f, 0.3f, 0.6f, 0.9f, 0.01f}, numbers, {values, slot});
    ExpectCorrected(SquaresUpdate{0.01f, 1, 1, 0.1f, 1e-10f, 0.01f}, numbers, {values, squares});
    ExpectCorrected(SquaresUpdate{0.01f, 0.99f, 0.01f, 0, 1e-8f}, numbers, {values, squares});
    ExpectCorrected(adam, numbers, {values, slot, squares});
  }
}

// Numbers of all sizes, in one life: what is applied, and to what, is as without any bounds.
TEST_P(ApplyKernelsTest, BoundsAreAboveWhatThereIsAndDecideNothing) {
  uint32_t seed = 1;
  const auto draw = [&seed](int least, int most) {  // a magnitude, the exponents as likely as each other
    seed = seed * 1664525u + 1013904223u;
    const float sign = seed >> 31 == 0 ? 1.0f : -1.0f;
    const int exponent = least + static_cast<int>((seed >> 8) % static_cast<uint32_t>(most - least + 1));
    return sign * std::ldexp(1 + static_cast<float>(seed >> 9 & 0xffff) * 0x1p-16f, exponent);
  };
  int skipped = 0, applied = 0;
  for (int life = 0; life < 500; ++life) {
    const size_t rule = static_cast<size_t>(life) % 5;
    const double rate = std::fabs(draw(-40, rule == 0 ? 100 : 4));
    const float decay = life % 4 < 2 ? 0 : 0.01f;
    const size_t n = 1 + static_cast<size_t>(life) % 20;
    const std::vector<Update> rules = {
        SgdUpdate{static_cast<float>(rate), decay},
        MomentumUpdate{static_cast<float>(rate), 0.9f, 0.5f, life % 2 == 0 ? 0.0f : 4.0f, 1, decay}, AdamUpdate{},
        life % 2 == 0 ? SquaresUpdate{static_cast<float>(rate), 0.99f, 0.01f, 0, 1e-8f, decay}
                      : SquaresUpdate{static_cast<float>(rate), 1, 1, 0, 1e-30f, decay},
        FtrlUpdate{static_cast<float>(rate), 1, 0.01f, 0.01f, decay}};
    Arrays arrays(1 + SlotsOf(rules[rule]), std::vector<float>(n, 0));
    Magnitudes bounds = kUnknownMagnitudes;
    for (uint64_t push = 1; push <= 40; ++push) {
      const Update update =
          rule == 2 ? Decaying(MakeAdamUpdate(rate, 0.9, 0.999, 1e-8, push), decay, decay, life % 3 == 0 ? 0.0f : 4.0f)
                    : rules[rule];
      const int largest = push % 10 == 0 ? 127 : life % 100;
      std::vector<float> gradient(n);
      for (float& g : gradient) g = draw(-149, largest);
      Arrays expected = arrays;
      Reference(update, gradient, expected);
      const std::vector<UpdatedArray> in_place = InPlace(arrays);
      const Arrays before = arrays;
      const bool fits = Fits(expected);
      ASSERT_EQ(ApplyUpdate(update, absl::MakeConstSpan(gradient), in_place, &bounds), fits) << life << " " << push;
      (fits ? applied : skipped) += 1;
      for (size_t a = 0; a < arrays.size(); ++a) {
        ASSERT_TRUE(SameBits(arrays[a], fits ? expected[a] : before[a])) << life << " " << push << " array " << a;
        for (const float x : arrays[a]) ASSERT_LE(std::fabs(x), bounds[a]) << life << " " << push;
      }
    }
  }
  EXPECT_GT(skipped, 500);
  EXPECT_GT(applied, 8000);
}

// Without a look at the results: after the first update the bounds are enough, for very long. Where a gradient grows
// with the values, so do bounds, which have no signs: results are looked at from time to time.
TEST(ApplyKernelsBoundsTest, BoundsOfUsualNumbersStayFarBelowOverflow) {
  for (const Update& update : Updates()) {
    const bool feeds_back = std::visit([](const auto& u) { return u.decay > 0; }, update);
    if ((feeds_back && !std::holds_alternative<SquaresUpdate>(update)) || std::holds_alternative<FtrlUpdate>(update)) {
      continue;
    }
    std::vector<float> w(1, 0.5f), m(1, 0), v(1, 0);
    std::vector<UpdatedArray> arrays = {{w.data(), w.data()}, {m.data(), m.data()}, {v.data(), v.data()}};
    arrays.resize(1 + SlotsOf(update));
    Magnitudes bounds = kUnknownMagnitudes;
    for (int push = 0; push < 100000; ++push) {
      const float g = push % 2 == 0 ? 10.0f : -10.0f;
      ASSERT_TRUE(ApplyUpdate(update, {&g, 1}, arrays, &bounds));
    }
    for (size_t a = 0; a < arrays.size(); ++a) EXPECT_LT(bounds[a], 1e20);
  }
}

TEST_P(ApplyKernelsTest, FiniteMeansEveryElement) {
  for (size_t n : kSizes) {
    Guarded x(n, 1, 3);
    EXPECT_TRUE(AllFinite({x.data(), n})) << n;
    for (size_t at = 0; at < n; at += 1 + n / 37) {
      const float kept = x.data()[at];
      for (float bad : {kNan, kInfinity, -kInfinity}) {
        x.data()[at] = bad;
        EXPECT_FALSE(AllFinite({x.data(), n})) << at << " of " << n;
      }
      for (float good : {std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(),
                         std::numeric_limits<float>::denorm_min(), -0.0f}) {
        x.data()[at] = good;
        EXPECT_TRUE(AllFinite({x.data(), n})) << at << " of " << n;
      }
      x.data()[at] = kept;
    }
  }
}

}  // namespace
}  // namespace downpour
