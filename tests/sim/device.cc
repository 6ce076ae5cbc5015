#include "tests/sim/device.h"

#include <algorithm>
#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "schema/checkpoint_format.h"

namespace downpour {
namespace {

constexpr Duration kLongestIndexing = 3s;

}  // namespace

Device::Device(const Oracle* oracle, const FaultPlan* plan, int worker, uint64_t seed, EventQueue* events,
               Findings* findings, Done done)
    : oracle_(oracle),
      plan_(plan),
      worker_(worker),
      prng_(seed),
      events_(events),
      findings_(findings),
      done_(std::move(done)),
      has_code_(plan->code.empty() || prng_.Chance(0.5)) {}

void Device::Run(Compute compute) {
  waiting_.push_back(std::move(compute));
  if (!busy_) Begin();
}

void Device::Begin() {
  if (waiting_.empty()) return;
  busy_ = true;
  const Compute compute = std::move(waiting_.front());
  waiting_.pop_front();
  std::visit([&](const auto& request) { Carry(compute.ticket, request); }, compute.request);
}

Duration Device::TimeOfOne() {
  const Duration time =
      plan_->device.least + Duration(prng_.Below(static_cast<uint64_t>(plan_->device.spread.count()) + 1));
  return worker_ == 0 ? std::chrono::duration_cast<Duration>(time * plan_->device.slow_worker) : time;
}

void Device::Finish(Duration after, ComputeDone last) {
  events_->After(after, [this, last = std::move(last)] {
    busy_ = false;
    done_(last);
    if (!busy_) Begin();
  });
}

void Device::Load(const SliceValues& updates) {
  if (spent_) findings_->Add("a device is to compute behind the end of its program");
  size_t buckets = 0;
  for (const auto& [slice, values] : updates) {
    if (oracle_->grid().Contains(slice) && oracle_->grid().IsBucket(slice)) {
      ++buckets;
      LoadRows(slice, values);
      continue;
    }
    if (!oracle_->grid().Contains(slice) || values.size() != oracle_->grid().WireBytes(slice)) {
      findings_->Add(absl::StrCat("a device is given ", values.size(), " bytes for slice ", ToNumber(slice)));
    }
    loaded_[slice] = Crc32c(values.bytes());
  }
  if (loaded_.size() != oracle_->grid().dense()) findings_->Add("a device computes before every slice has values");
  CheckAllRowsCame(buckets);
}

void Device::CheckAllRowsCame(size_t buckets) {
  if (buckets != found_.size()) findings_->Add("a device computes without rows that it asked for");
  found_.clear();
}

void Device::LoadRows(SliceId bucket, const Payload& rows) {
  const auto keys = found_.find(bucket);
  if (keys == found_.end() || rows.size() != AnswerBytes(keys->second, oracle_->grid().row_widths)) {
    findings_->Add(absl::StrCat("a device is given ", rows.size(), " bytes of rows of slice ", ToNumber(bucket)));
  }
}

Device::Keys Device::KeysOf(const FindKeys& of) const {
  Keys all;
  for (size_t slice = oracle_->grid().dense(); slice < oracle_->grid().size(); ++slice) {
    const SliceId bucket{static_cast<uint32_t>(slice)};
    const Payload keys = of.step ? oracle_->KeysOf(of.step->first, of.step->second, bucket)
                                 : oracle_->KeysOfBatch(of.first_batch, bucket);
    if (!keys.empty()) all[bucket] = keys;
  }
  return all;
}

void Device::Carry(Ticket ticket, const FindKeys& request) {
  found_ = plan_->device.asks_amid ? Keys() : KeysOf(request);
  Finish(TimeOfOne(), {ticket, absl::OkStatus(), KeysFound{{found_.begin(), found_.end()}}});
}

// All at once, or every other key of each bucket first.
void Device::AskAmid(Ticket ticket, const FindKeys& of, std::variant<TrainStep, EvalStep> step) {
  amid_ = Amid{.step = std::move(step), .to_ask = {KeysOf(of)}};
  if (prng_.Chance(0.5)) {
    for (const bool odd : {true, false}) {
      Keys some;
      for (const auto& [bucket, frame] : amid_->to_ask.front()) {
        const RowKeys all = UnpackKeys(frame, oracle_->grid().row_widths).value();
        RowKeys half;
        size_t key = 0;
        for (const uint32_t count : all.counts) {
          half.counts.push_back(0);
          for (uint32_t i = 0; i < count; ++i, ++key) {
            if ((i % 2 == 1) != odd) continue;
            ++half.counts.back();
            half.keys.push_back(all.keys[key]);
          }
        }
        if (!half.keys.empty()) some[bucket] = PackKeys(half);
      }
      amid_->to_ask.push_back(std::move(some));
    }
    amid_->to_ask.pop_front();
  }
  GoOn(ticket);
}

void Device::GoOn(Ticket ticket) {
  if (amid_->to_ask.empty()) {
    const Amid done = *std::exchange(amid_, std::nullopt);
    return std::visit([&](const auto& step) { End(ticket, step); }, done.step);
  }
  found_ = std::move(amid_->to_ask.front());
  amid_->to_ask.pop_front();
  Finish(TimeOfOne(), {ticket, absl::OkStatus(), KeysFound{{found_.begin(), found_.end()}}});
}

void Device::Carry(Ticket ticket, const MoreRows& request) {
  if (!amid_) return findings_->Add("a device is given rows amid no step");
  for (const auto& [bucket, rows] : request.rows) LoadRows(bucket, rows);
  request.in_vain ? found_.clear() : CheckAllRowsCame(request.rows.size());
  GoOn(ticket);
}

void Device::Carry(Ticket ticket, const Prepare& request) {
  loaded_.clear();
  found_.clear();
  amid_.reset();
  spent_ = false;
  const bool no_room = events_->now().time_since_epoch() < plan_->device.no_room_for && prng_.Chance(0.8);
  if (no_room) return Finish(TimeOfOne(), {ticket, absl::UnavailableError("drawn to have no room"), Prepared{}});
  if (!request.code.empty()) TakeCode(request.code);
  if (!has_code_) return Finish(TimeOfOne(), {ticket, absl::OkStatus(), Prepared{.needs_code = true}});
  const Duration time = TimeOfOne();
  for (uint64_t i = plan_->code.empty() ? 0 : prng_.Below(3); i > 0; --i) {  // what the code needs is installed
    events_->After(time / static_cast<int64_t>(i + 1), [this, ticket] {
      done_({ticket, absl::OkStatus(), Preparing{"installs packages", "packages"}});
    });
  }
  const Duration indexing = std::max(time, std::min<Duration>(time * plan_->device.indexing, kLongestIndexing));
  Finish(indexing, {ticket, absl::OkStatus(),
                    Prepared{.train_examples = plan_->train_examples,
                             .eval_examples = plan_->eval_examples,
                             .fingerprint = FingerprintFor(request.job),
                             .guesses = kGuesses,
                             .eval_fingerprint = kEvalFingerprint,
                             .files = FilesFor(request.job)}});
}

// One day's file, and then a second one. More examples of the plan's are in that.
std::vector<DataFile> Device::FilesFor(const JobSpec& job) const {
  const bool odd = plan_->odd_data && worker_ + 1 == plan_->job.cluster.worker_count;
  const uint32_t name = Crc32c({reinterpret_cast<const std::byte*>(job.name.data()), job.name.size()});
  const uint64_t first = plan_->first_examples == 0 ? plan_->train_examples : plan_->first_examples;
  std::vector<DataFile> files = {{"day-1", first, MixAll(job.seed, first, plan_->eval_examples, odd, name)}};
  if (first < plan_->train_examples) {
    files.push_back({"day-2", plan_->train_examples, MixAll(files[0].fingerprint, plan_->train_examples)});
  }
  return files;
}

uint64_t Device::FingerprintFor(const JobSpec& job) const {
  return MixAll(FilesFor(job).back().fingerprint, kEvalFingerprint);
}

bool Device::HasReadFor(const JobSpec& job, uint64_t fingerprint) const {
  return std::ranges::any_of(FilesFor(job), [fingerprint](const DataFile& file) {
    return MixAll(file.fingerprint, kEvalFingerprint) == fingerprint;
  });
}

void Device::TakeCode(const std::vector<Payload>& blocks) {
  std::string code;
  for (const Payload& block : blocks) code.append(reinterpret_cast<const char*>(block.data()), block.size());
  if (code != plan_->code) findings_->Add("a device is given code that is not the job's");
  has_code_ = true;
}

void Device::Carry(Ticket ticket, const TrainStep& request) {
  if (!has_code_) findings_->Add("a device computes without the job's code");
  Load(request.updates);
  computed_on_[{request.lease, request.step}].push_back(loaded_);
  const bool asks = plan_->device.asks_amid;
  asks ? AskAmid(ticket, {.step = std::pair(request.lease, request.step)}, request) : End(ticket, request);
}

void Device::End(Ticket ticket, const TrainStep& request) {
  // As backward does: the last slices leave first, in some number of parts.
  std::vector<Gradients> parts(static_cast<size_t>(plan_->device.parts));
  const size_t slices = oracle_->grid().size();
  for (size_t i = 0; i < slices; ++i) {
    const SliceId slice{static_cast<uint32_t>(slices - 1 - i)};
    Payload gradient = oracle_->Gradient(request.lease, request.step, slice);
    if (gradient.empty()) continue;  // the worker pushes an empty one by itself
    if (!oracle_->grid().IsBucket(slice)) gradient = oracle_->OnWire(gradient);
    parts[i * parts.size() / slices].slices.emplace_back(slice, std::move(gradient));
  }
  parts.back().last = true;
  parts.back().examples = oracle_->plan().ExamplesOf(request.lease, request.step);
  parts.back().loss_sum = static_cast<double>(parts.back().examples);
  const Duration time = TimeOfOne();
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    events_->After(time * static_cast<int64_t>(i + 1) / static_cast<int64_t>(parts.size()),
                   [this, ticket, part = std::move(parts[i])] {
                     done_({ticket, absl::OkStatus(), part});
                   });
  }
  Finish(time, {ticket, absl::OkStatus(), std::move(parts.back())});
}

void Device::Carry(Ticket ticket, const EvalStep& request) {
  Load(request.updates);
  const bool asks = plan_->device.asks_amid;
  asks ? AskAmid(ticket, {.step = {}, .first_batch = request.first_batch, .batches = 1}, request)
       : End(ticket, request);
}

void Device::End(Ticket ticket, const EvalStep& request) {
  uint32_t values = 0;
  for (const auto& [slice, checksum] : loaded_) values = static_cast<uint32_t>(MixAll(values, checksum));
  evaluated_on_[request.first_batch] = values;
  const uint64_t batch = static_cast<uint64_t>(plan_->job.training.batch_size);
  const uint64_t first = std::min(request.first_batch * batch, plan_->eval_examples);
  const uint64_t examples = std::min(request.batches * batch, plan_->eval_examples - first);
  const bool diverges = plan_->diverges && values % 3 == 0;
  const double loss = diverges ? std::numeric_limits<double>::infinity() : 0.5 + values % 64 / 64.0;  // by the values
  Finish(TimeOfOne(),
         {ticket, absl::OkStatus(), Evaluated{loss * static_cast<double>(examples), examples / 2, examples}});
}

void Device::Carry(Ticket ticket, const EpilogueStep& request) {
  if (std::exchange(has_run_epilogue_, true)) findings_->Add("a device is to run the rest of the program twice");
  if (request.values.size() != oracle_->grid().dense()) findings_->Add("the rest of the program lacks slices");
  spent_ = true;
  Finish(TimeOfOne() * static_cast<int64_t>(1 + prng_.Below(20)), {ticket, absl::OkStatus(), EpilogueEnded{}});
}

bool Device::ComputedOn(LeaseId lease, Step step, SliceId slice, uint32_t checksum) const {
  const auto found = computed_on_.find({lease, step});
  if (found == computed_on_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](const auto& loaded) {
    const auto at = loaded.find(slice);
    return at != loaded.end() && at->second == checksum;
  });
}

uint32_t Device::EvaluatedOn(uint64_t first_batch) const {
  const auto found = evaluated_on_.find(first_batch);
  return found == evaluated_on_.end() ? 0 : found->second;
}

}  // namespace downpour
