#include "runtime/process/spot_notice.h"

#include <glog/logging.h>
#include <httplib.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/world_time.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr Duration kStopAgain = 20ms;
constexpr auto kToConnect = std::chrono::seconds(1);
constexpr auto kToAnswer = std::chrono::seconds(5);
constexpr size_t kLongestAnswer = 4096;
constexpr size_t kLongestQuote = 100;
constexpr int kOk = 200;
constexpr int kUnauthorized = 401;

struct Answer {
  int status = 0;  // 0: none came
  httplib::Headers headers;
  std::string body;
};

}  // namespace

// Whoever waits for an answer is told by Stop, from another thread, that none comes.
class MetadataClient {
 public:
  explicit MetadataClient(const std::string& server) : http_(server) {
    http_.set_connection_timeout(kToConnect);
    http_.set_read_timeout(kToAnswer);
    http_.set_write_timeout(kToAnswer);
  }
  void Stop() {
    stopped_ = true;
    http_.stop();
  }
  Answer Get(const std::string& path, const httplib::Headers& headers) {
    if (stopped_) return Answer();
    std::string body;
    const httplib::Result result = http_.Get(path, headers, [&body](const char* data, size_t size) {
      body.append(data, size);
      return body.size() <= kLongestAnswer;
    });
    return result ? Answer{result->status, result->headers, std::move(body)} : Answer();
  }
  Answer Put(const std::string& path, const httplib::Headers& headers) {
    if (stopped_) return Answer();
    const httplib::Result result = http_.Put(path, headers, "", "text/plain");
    return result ? Answer{result->status, result->headers, result->body.substr(0, kLongestAnswer)} : Answer();
  }

 private:
  httplib::Client http_;
  std::atomic<bool> stopped_{false};
};

namespace {

// One machine's metadata server.
class Cloud {
 public:
  virtual ~Cloud() = default;
  virtual const char* name() const = 0;
  virtual bool Answers() = 0;                          // whether the server is this cloud's
  virtual std::optional<std::string> AskNotice() = 0;  // why the machine goes, if it does
};

class Gce final : public Cloud {
 public:
  explicit Gce(MetadataClient& client) : client_(client) {}
  const char* name() const override { return "GCE"; }
  bool Answers() override {
    const Answer answer = Instance("preempted");
    const auto flavor = answer.headers.find("Metadata-Flavor");
    return answer.status == kOk && flavor != answer.headers.end() && flavor->second == "Google";
  }
  std::optional<std::string> AskNotice() override {
    if (Instance("preempted").body == "TRUE") return "it preempts this machine";
    if (Instance("maintenance-event").body == "TERMINATE_ON_HOST_MAINTENANCE") {
      return "it stops this machine for maintenance";
    }
    return std::nullopt;
  }

 private:
  Answer Instance(const std::string& what) {
    return client_.Get("/computeMetadata/v1/instance/" + what, {{"Metadata-Flavor", "Google"}});
  }
  MetadataClient& client_;
};

class Ec2 final : public Cloud {
 public:
  explicit Ec2(MetadataClient& client) : client_(client) {}
  const char* name() const override { return "EC2"; }
  bool Answers() override {
    const Answer answer = client_.Put("/latest/api/token", {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}});
    token_ = answer.body;
    return answer.status == kOk;
  }
  // 404 while there is none.
  std::optional<std::string> AskNotice() override {
    const Answer answer = client_.Get("/latest/meta-data/spot/instance-action", {{"X-aws-ec2-metadata-token", token_}});
    if (answer.status == kUnauthorized) Answers();  // the token is too old
    if (answer.status != kOk) return std::nullopt;
    return absl::StrCat("it takes this spot machine away: ", CleanText(answer.body, kLongestQuote));
  }

 private:
  MetadataClient& client_;
  std::string token_;
};

std::unique_ptr<Cloud> FindCloud(MetadataClient& client) {
  if (auto gce = std::make_unique<Gce>(client); gce->Answers()) return gce;
  if (auto ec2 = std::make_unique<Ec2>(client); ec2->Answers()) return ec2;
  return nullptr;
}

}  // namespace

absl::Status SpotNotice::Check(const std::string& server) {
  if (server.rfind("http://", 0) == 0 && httplib::Client(server).is_valid()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a metadata server is http://HOST:PORT, not \"", server, "\""));
}

SpotNotice::SpotNotice(const std::string& server, Pace pace, std::function<void(const std::string&)> notify)
    : pace_(pace), notify_(std::move(notify)), client_(std::make_unique<MetadataClient>(server)), thread_([this] {
        Watch();
        std::lock_guard lock(mutex_);
        ended_ = true;
        changed_.notify_all();
      }) {}

SpotNotice::~SpotNotice() {
  {
    std::unique_lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
    // Again and again: a request that was about to begin does not notice the first one.
    do client_->Stop();
    while (!changed_.wait_for(lock, kStopAgain, [this] { return ended_; }));
  }
  thread_.join();
}

void SpotNotice::Watch() {
  const auto give_up = std::chrono::steady_clock::now() + pace_.patience;
  std::unique_ptr<Cloud> cloud;
  while ((cloud = FindCloud(*client_)) == nullptr) {
    if (std::chrono::steady_clock::now() >= give_up || Ending()) return;
  }
  LOG(INFO) << "this is a machine of " << cloud->name() << ": its notices are followed";
  do {
    if (const std::optional<std::string> what = cloud->AskNotice()) {
      return notify_(absl::StrCat("a notice of ", cloud->name(), ": ", *what));
    }
  } while (!Ending());
}

bool SpotNotice::Ending() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, pace_.every, [this] { return ending_; });
}

}  // namespace downpour
