#include "tensor/backend.h"

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

template <typename T>
bool Sound(const MatrixView<T>& m) {
  return m.rows >= 0 && m.cols >= 0 && m.stride >= m.cols && (m.data != nullptr || m.elements() == 0);
}
template <typename A, typename B>
bool SameShape(const MatrixView<A>& a, const MatrixView<B>& b) {
  return a.rows == b.rows && a.cols == b.cols;
}

template <typename T>
std::string ShapeText(const MatrixView<T>& m) {
  std::string text = absl::StrCat("[", m.rows, ", ", m.cols, "]");
  if (m.stride < m.cols) absl::StrAppend(&text, " of stride ", m.stride);
  if (m.data == nullptr) absl::StrAppend(&text, " without memory");
  return text;
}

// Vectors are checked as matrices of one row or one column.
template <typename T>
MatrixView<T> AsRow(absl::Span<T> vector) {
  return {vector.data(), 1, static_cast<int64_t>(vector.size())};
}
template <typename T>
MatrixView<T> AsColumn(absl::Span<T> vector) {
  return {vector.data(), static_cast<int64_t>(vector.size()), 1};
}

template <typename... Views>
absl::Status Check(const char* operation, bool fits, const Views&... views) {
  if (fits && (Sound(views) && ...)) return absl::OkStatus();
  std::string shapes;
  ((absl::StrAppend(&shapes, shapes.empty() ? "" : ", ", ShapeText(views))), ...);
  return absl::InvalidArgumentError(absl::StrCat(operation, ": shapes ", shapes, " do not fit"));
}

bool LabelsFit(ConstMatrix outputs, absl::Span<const int32_t> labels) {
  return static_cast<int64_t>(labels.size()) == outputs.rows && (outputs.rows == 0 || outputs.cols > 0);
}
bool GradientFits(ConstMatrix outputs, WeightedMean mean, Matrix gradient) {
  return gradient.rows == 0 || (SameShape(outputs, gradient) && mean.examples > 0);
}

// How many vectors a row of x has, if y has a number for each two of them; else 0.
int64_t VectorsOf(ConstMatrix x, ConstMatrix y) {
  int64_t n = 2;
  while (n < x.cols && n * (n - 1) / 2 < y.cols) ++n;
  return x.rows == y.rows && x.cols > 0 && x.cols % n == 0 && n * (n - 1) / 2 == y.cols ? n : 0;
}

}  // namespace

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(data_, other.data_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) owner_->DoFree(data_);
}

absl::Status Backend::Repeat(const std::function<absl::Status()>& give, std::unique_ptr<Recording>*) { return give(); }

absl::StatusOr<Buffer> Backend::Allocate(size_t bytes, FloatFormat format) {
  if (bytes == 0) return Buffer();
  auto memory = DoAllocate(bytes, format);
  if (!memory.ok()) return memory.status();
  return Buffer(this, *memory);
}

absl::Status Backend::Gemm(Transpose op_a, Transpose op_b, ConstMatrix a, ConstMatrix b, float beta, Matrix c) {
  const bool plain_a = op_a == Transpose::kPlain;
  const bool plain_b = op_b == Transpose::kPlain;
  const int64_t inner = plain_a ? a.cols : a.rows;
  const bool fits = inner > 0 && inner == (plain_b ? b.rows : b.cols) && c.rows == (plain_a ? a.rows : a.cols) &&
                    c.cols == (plain_b ? b.cols : b.rows);
  const char* operation = plain_a ? (plain_b ? "gemm a b" : "gemm a b'") : (plain_b ? "gemm a' b" : "gemm a' b'");
  absl::Status status = Check(operation, fits, a, b, c);
  if (!status.ok() || c.elements() == 0) return status;
  return DoGemm(op_a, op_b, a, b, beta, c);
}

absl::Status Backend::AddBias(absl::Span<const float> bias, Matrix x) {
  const ConstMatrix row = AsRow(bias);
  absl::Status status = Check("add bias", row.cols == x.cols, row, x);
  if (!status.ok() || x.elements() == 0) return status;
  return DoAddBias(bias.data(), x);
}

absl::Status Backend::AddBiasActivate(absl::Span<const float> bias, std::optional<ActivationFunction> f, Matrix x) {
  if (!f) return AddBias(bias, x);
  const ConstMatrix row = AsRow(bias);
  absl::Status status = Check("add bias and activate", row.cols == x.cols, row, x);
  if (!status.ok() || x.elements() == 0) return status;
  return DoAddBiasActivate(bias.data(), *f, x);
}

absl::Status Backend::SumRows(ConstMatrix x, float beta, absl::Span<float> sums) {
  const Matrix row = AsRow(sums);
  absl::Status status = Check("sum rows", row.cols == x.cols, x, row);
  if (!status.ok() || sums.empty()) return status;
  return DoSumRows(x, beta, sums.data());
}

absl::Status Backend::Activate(ActivationFunction f, ConstMatrix x, Matrix y) {
  absl::Status status = Check("activate", SameShape(x, y), x, y);
  if (!status.ok() || y.elements() == 0) return status;
  return DoActivate(f, x, y);
}

absl::Status Backend::ActivateBackward(ActivationFunction f, ConstMatrix y, ConstMatrix dy, Matrix dx) {
  absl::Status status = Check("activate backward", SameShape(y, dy) && SameShape(y, dx), y, dy, dx);
  if (!status.ok() || dx.elements() == 0) return status;
  return DoActivateBackward(f, y, dy, dx);
}

absl::Status Backend::Dropout(DropoutMask mask, ConstMatrix x, Matrix y) {
  if (!(mask.rate >= 0 && mask.rate < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("dropout: rate ", mask.rate, " is not in [0, 1)"));
  }
  absl::Status status = Check("dropout", SameShape(x, y), x, y);
  if (!status.ok() || y.elements() == 0) return status;
  return DoDropout(mask, x, y);
}

absl::Status Backend::WidenBytes(ConstByteMatrix bytes, float divisor, Matrix to) {
  absl::Status status = Check("widen bytes", SameShape(bytes, to), bytes, to);
  if (!status.ok() || to.elements() == 0) return status;
  return DoWidenBytes(bytes, divisor, to);
}

absl::Status Backend::Copy(ConstMatrix from, Matrix to) {
  absl::Status status = Check("copy", SameShape(from, to), from, to);
  if (!status.ok() || to.elements() == 0) return status;
  return DoCopy(from, to);
}

absl::Status Backend::Accumulate(ConstMatrix from, Matrix to) {
  absl::Status status = Check("accumulate", SameShape(from, to), from, to);
  if (!status.ok() || to.elements() == 0) return status;
  return DoAccumulate(from, to);
}

absl::Status Backend::Multiply(ConstMatrix a, ConstMatrix b, float beta, Matrix y) {
  absl::Status status = Check("multiply", SameShape(a, b) && SameShape(a, y), a, b, y);
  if (!status.ok() || y.elements() == 0) return status;
  return DoMultiply(a, b, beta, y);
}

absl::Status Backend::PairDots(ConstMatrix x, Matrix y) {
  const int64_t n = VectorsOf(x, y);
  absl::Status status = Check("pair dots", n > 0, x, y);
  if (!status.ok() || y.rows == 0) return status;
  return DoPairDots(x, n, y);
}

absl::Status Backend::PairDotsBackward(ConstMatrix x, ConstMatrix dy, float beta, Matrix dx) {
  const int64_t n = VectorsOf(x, dy);
  absl::Status status = Check("pair dots backward", n > 0 && SameShape(x, dx), x, dy, dx);
  if (!status.ok() || dx.rows == 0) return status;
  return DoPairDotsBackward(x, n, dy, beta, dx);
}

absl::Status Backend::SoftmaxCrossEntropy(ConstMatrix logits, absl::Span<const int32_t> labels, WeightedMean mean,
                                          Matrix d_logits, BatchTotals* totals) {
  const bool fits = LabelsFit(logits, labels) && GradientFits(logits, mean, d_logits);
  absl::Status status = Check("softmax cross-entropy", fits, logits, AsColumn(labels), d_logits);
  if (!status.ok() || logits.rows == 0) return status;
  return DoSoftmaxCrossEntropy(logits, labels.data(), mean, d_logits, totals);
}

absl::Status Backend::MeanSquaredError(ConstMatrix outputs, ConstMatrix targets, WeightedMean mean, Matrix d_outputs,
                                       BatchTotals* totals) {
  const bool fits = SameShape(outputs, targets) && GradientFits(outputs, mean, d_outputs);
  absl::Status status = Check("mean squared error", fits, outputs, targets, d_outputs);
  if (!status.ok() || outputs.elements() == 0) return status;
  return DoMeanSquaredError(outputs, targets, mean, d_outputs, totals);
}

absl::Status Backend::SigmoidCrossEntropy(ConstMatrix logits, ConstMatrix targets, WeightedMean mean, Matrix d_logits,
                                          BatchTotals* totals) {
  const bool fits = SameShape(logits, targets) && GradientFits(logits, mean, d_logits);
  absl::Status status = Check("sigmoid cross-entropy", fits, logits, targets, d_logits);
  if (!status.ok() || logits.elements() == 0) return status;
  return DoSigmoidCrossEntropy(logits, targets, mean, d_logits, totals);
}

absl::Status Backend::CountCorrect(ConstMatrix outputs, absl::Span<const int32_t> labels, BatchTotals* totals) {
  absl::Status status = Check("count correct", LabelsFit(outputs, labels), outputs, AsColumn(labels));
  if (!status.ok() || outputs.rows == 0) return status;
  return DoCountCorrect(outputs, labels.data(), totals);
}

}  // namespace downpour
