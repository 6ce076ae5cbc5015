#include "model/parameter_loader.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tensor/apply_kernels.h"
#include "tensor/host_backend.h"
#include "tests/parity/deferred_backend.h"
#include "tests/unit/model/model_cases.h"

namespace downpour {
namespace {

// Keeps kernels as bfloat16, and of what comes up in frames the bytes and where they were to go.
class RoundingBackend final : public DeferredBackend {
 public:
  struct Begun {
    std::vector<char> bytes;
    const float* to = nullptr;
  };
  bool keeps_rounded(FloatFormat format) const override { return format == FloatFormat::kFactor; }
  absl::Status BeginUpload(const void* host, size_t bytes, void* to) override {
    const auto* from = static_cast<const char*>(host);
    begun.push_back({{from, from + bytes}, static_cast<const float*>(to)});
    return absl::OkStatus();
  }
  std::vector<Begun> begun;
};

// Counts, and may fail to pin or to synchronize.
class CountingBackend final : public DeferredBackend {
 public:
  absl::Status Upload(const void* host, size_t bytes, void* to) override {
    ++copied;
    return DeferredBackend::Upload(host, bytes, to);
  }
  absl::Status BeginUpload(const void* host, size_t bytes, void* to) override {
    ++begun;
    return DeferredBackend::BeginUpload(host, bytes, to);
  }
  absl::Status Synchronize() override {
    ++synchronized;
    return is_lost ? absl::InternalError("lost") : DeferredBackend::Synchronize();
  }
  absl::StatusOr<std::shared_ptr<void>> AllocateHost(size_t bytes) override {
    if (!cannot_pin.ok()) return cannot_pin;
    return DeferredBackend::AllocateHost(bytes);
  }
  int copied = 0, begun = 0, synchronized = 0;
  bool is_lost = false;
  absl::Status cannot_pin;
};

ModelSpec TwoLayers() { return Model({Layer("a", {"x"}, Dense(6, Activation::kTanh)), Layer("b", {"a"}, Dense(3))}); }

Payload Values(const SliceGrid& grid, SliceId id, int number) {
  std::vector<float> floats(static_cast<size_t>(grid.at(id).elements));
  for (size_t i = 0; i < floats.size(); ++i) {
    floats[i] = static_cast<float>((31 * i + 17 * static_cast<size_t>(number)) % 1009) / 1009 - 0.5f;
  }
  Payload values = Payload::Allocate(grid.WireBytes(id));
  if (grid.wire == WireFormat::kBf16) {
    RoundToBf16(floats, values.mutable_as<Bf16>().data());
  } else {
    std::memcpy(values.mutable_data(), floats.data(), values.size());
  }
  return values;
}

template <class UnderTest>
class Fixture {
 public:
  explicit Fixture(const ModelSpec& model = TwoLayers(), WireFormat wire = WireFormat::kFp32)
      : grid(GridOf(model, wire).value()), graph(std::move(*Graph::Create(model, kMaxBatch, backend))) {}
  absl::Status Open() { return loader.Open(grid, *graph, backend); }
  std::vector<Payload> All(int number) {
    std::vector<Payload> all;
    for (const Slice& slice : grid.slices) all.push_back(Values(grid, slice.id, number));
    return all;
  }
  void StageAll(const std::vector<Payload>& values) {
    for (const Slice& slice : grid.slices) loader.Pack(slice.id, values[ToNumber(slice.id)]);
  }
  void LoadAll(const std::vector<Payload>& values) {
    for (const Slice& slice : grid.slices) EXPECT_TRUE(loader.Load(slice.id, values[ToNumber(slice.id)]).ok());
  }

  UnderTest backend;
  const SliceGrid grid;
  std::unique_ptr<Graph> graph;
  ParameterLoader loader;
};

class ParameterLoaderTest : public testing::Test, protected Fixture<CountingBackend> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Open().ok());
    Reset();
  }
  void Reset() { backend.copied = backend.begun = backend.synchronized = 0; }
  // How many slices were packed in time, of a step that loads these and ends well.
  int Step(const std::vector<Payload>& values) {
    Reset();
    LoadAll(values);
    EXPECT_EQ(backend.copied + backend.begun, all);
    EXPECT_TRUE(backend.DeferredBackend::Synchronize().ok());
    loader.EndStep(/*awaited=*/true);
    return backend.begun;
  }
  const int all = static_cast<int>(grid.size());
};

TEST_F(ParameterLoaderTest, WhatWasStagedIsOnlyCopiedStepAfterStep) {
  for (int step = 0; step < 5; ++step) {
    const std::vector<Payload> values = All(step);
    StageAll(values);
    EXPECT_EQ(Step(values), all) << step;
  }
  EXPECT_EQ(Step(All(5)), 0) << "what was not packed goes up all the same";
  EXPECT_EQ(backend.synchronized, 0);
}

TEST_F(ParameterLoaderTest, ItCountsForThePayloadThatItWasMadeOfAndOnce) {
  const std::vector<Payload> values = All(1), same_numbers = All(1);
  StageAll(values);
  EXPECT_EQ(Step(same_numbers), 0);
  EXPECT_EQ(Step(values), all) << "a step that does not know of it leaves it";
  EXPECT_EQ(Step(values), 0);
}

TEST_F(ParameterLoaderTest, OfEachSliceTheNewestStays) {
  const std::vector<Payload> old = All(1), fresh = All(2);
  StageAll(old);
  StageAll(fresh);
  LoadAll(old);
  EXPECT_EQ(backend.begun, 0);
  EXPECT_EQ(Step(fresh), all);
}

// The values of a payload that is still noted are not changed by who gave it, nor is its memory used again.
TEST_F(ParameterLoaderTest, WhatIsNotedIsHeldAndWhatIsReplacedOrLoadedIsNot) {
  std::vector<Payload> values = All(1);
  StageAll(values);
  EXPECT_FALSE(values[0].unique());
  std::vector<Payload> fresh = All(2);
  StageAll(fresh);
  EXPECT_TRUE(values[0].unique());
  EXPECT_EQ(Step(fresh), all);
  EXPECT_TRUE(fresh[0].unique());
}

TEST_F(ParameterLoaderTest, WhileAStepsAreCopiedTheNextOnesAreStaged) {
  const std::vector<Payload> first = All(1), second = All(2), third = All(3);
  StageAll(first);
  LoadAll(first);
  StageAll(second);
  StageAll(third);  // in place of the second: there are two frames
  EXPECT_TRUE(backend.DeferredBackend::Synchronize().ok());
  loader.EndStep(true);
  EXPECT_EQ(Step(third), all);
}

TEST_F(ParameterLoaderTest, FramesOfStepsThatFailedAreUsedAgainOnceTheDeviceWasAwaited) {
  std::vector<Payload> values = All(1);
  StageAll(values);
  LoadAll(values);
  backend.is_lost = true;
  loader.EndStep(/*awaited=*/false);
  EXPECT_EQ(backend.synchronized, 1);
  values = All(2);
  StageAll(values);
  LoadAll(values);
  EXPECT_EQ(backend.begun, 2 * all);
  loader.EndStep(true);
  EXPECT_EQ(backend.synchronized, 2) << "the copies of the step before may still be under way";
  values = All(3);
  StageAll(values);
  EXPECT_EQ(Step(values), 0) << "no frame is free";
  backend.is_lost = false;
  loader.EndStep(true);
  EXPECT_EQ(backend.synchronized, 2) << "the step before had tried, too";
  StageAll(values);
  EXPECT_EQ(Step(values), all);
  EXPECT_EQ(backend.synchronized, 0);
}

TEST_F(ParameterLoaderTest, WhatIsNoSliceIsRefusedAndNotStaged) {
  const Payload four = Payload::Zeros(4), most = Payload::Zeros(1 << 20);
  for (const auto& [id, values] : {std::pair(SliceId{0}, &four), {SliceId{0}, &most}, {SliceId{99}, &four}}) {
    loader.Pack(id, *values);
    EXPECT_TRUE(values->unique());
    EXPECT_EQ(loader.Load(id, *values).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(backend.copied + backend.begun, 0);
}

TEST_F(ParameterLoaderTest, WhereNothingMoreCanBePinnedStepsGoOnWithout) {
  const std::vector<Payload> values = All(1);
  backend.cannot_pin = absl::UnavailableError("the host is full");
  EXPECT_TRUE(Open().ok());
  StageAll(values);
  EXPECT_EQ(Step(values), 0);
  backend.cannot_pin = absl::InternalError("lost");
  EXPECT_EQ(Open().code(), absl::StatusCode::kInternal);
}

TEST_F(ParameterLoaderTest, NothingStaysWhereItIsOpenedAnew) {
  const std::vector<Payload> values = All(1);
  StageAll(values);
  loader.Close();
  StageAll(values);
  EXPECT_TRUE(Open().ok());
  EXPECT_EQ(Step(values), 0);
}

TEST(ParameterLoaderOnHostTest, NothingIsStaged) {
  const ModelSpec model = TwoLayers();
  const std::unique_ptr<Backend> backend = MakeHostBackend({});
  const std::unique_ptr<Graph> graph = std::move(*Graph::Create(model, kMaxBatch, *backend));
  const SliceGrid grid = GridOf(model).value();
  ParameterLoader loader;
  ASSERT_TRUE(loader.Open(grid, *graph, *backend).ok());
  const Payload values = Values(grid, SliceId{0}, 1);
  loader.Pack(SliceId{0}, values);
  EXPECT_TRUE(values.unique());
  EXPECT_TRUE(loader.Load(SliceId{0}, values).ok());
}

// Bit for bit what rounding them as they go up would give, also of a NaN that no rounding would write.
TEST(ParameterLoaderFormTest, FramesHoldNumbersAsTheDeviceKeepsThem) {
  const ModelSpec model = Model({Layer("a", {"x"}, Dense(100000)), Layer("b", {"a"}, Dense(3))});
  for (WireFormat wire : {WireFormat::kFp32, WireFormat::kBf16}) {
    Fixture<RoundingBackend> f(model, wire);
    ASSERT_TRUE(f.Open().ok());
    std::vector<Payload> all = f.All(1);
    for (Payload& values : all) {
      if (wire == WireFormat::kFp32) {
        values.mutable_as<uint32_t>()[1] = 0x7f800001;
      } else {
        values.mutable_as<uint16_t>()[1] = 0x7f81;
      }
    }
    f.StageAll(all);
    f.LoadAll(all);
    ASSERT_EQ(f.backend.begun.size(), all.size());
    const float* variable = nullptr;  // where the one at hand begins
    int64_t last_offset = 0;
    for (const Slice& slice : f.grid.slices) {
      const RoundingBackend::Begun& begun = f.backend.begun[ToNumber(slice.id)];
      if (slice.offset == 0) variable = begun.to;
      EXPECT_EQ(begun.to - variable, slice.offset) << "slice " << ToNumber(slice.id);
      last_offset = std::max(last_offset, slice.offset);
      const Payload& values = all[ToNumber(slice.id)];
      std::vector<float> floats(static_cast<size_t>(slice.elements));
      if (wire == WireFormat::kBf16) {
        WidenBf16(values.as<Bf16>(), floats.data());
      } else {
        std::memcpy(floats.data(), values.data(), values.size());
      }
      const bool kernel = f.grid.variables[slice.variable].shape.size() > 1;
      std::vector<char> want(floats.size() * (kernel ? sizeof(Bf16) : sizeof(float)));
      if (kernel) {
        RoundToBf16(floats, reinterpret_cast<Bf16*>(want.data()));
      } else {
        std::memcpy(want.data(), floats.data(), want.size());
      }
      EXPECT_EQ(begun.bytes, want) << "slice " << ToNumber(slice.id);
    }
    EXPECT_GT(last_offset, 0) << "no variable has several slices";
  }
}

// Whose host memory ends the process where it is touched after it was freed.
class GuardedBackend final : public DeferredBackend {
 public:
  absl::StatusOr<std::shared_ptr<void>> AllocateHost(size_t bytes) override {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return absl::UnavailableError("no pages");
    return std::shared_ptr<void>(memory, [bytes](void* freed) { mprotect(freed, bytes, PROT_NONE); });
  }
};

TEST(ParameterLoaderThreadsTest, ItMayBeOpenedAndClosedAndLoadedFromWhileItStages) {
  const ModelSpec model = Model({Layer("a", {"x"}, Dense(400)), Layer("b", {"a"}, Dense(400))});
  Fixture<GuardedBackend> f(model);
  const std::vector<std::vector<Payload>> rounds = {f.All(1), f.All(2), f.All(3)};
  std::atomic<bool> over = false;
  std::thread stages([&] {
    for (size_t i = 0; !over; ++i) f.StageAll(rounds[i % rounds.size()]);
  });
  for (int session = 0; session < 100; ++session) {
    ASSERT_TRUE(f.Open().ok());
    for (int step = 0; step < 3; ++step) {
      f.LoadAll(rounds[static_cast<size_t>(step)]);
      EXPECT_TRUE(f.backend.Synchronize().ok());
      f.loader.EndStep(true);
    }
    f.loader.Close();
  }
  over = true;
  stages.join();
}

}  // namespace
}  // namespace downpour
