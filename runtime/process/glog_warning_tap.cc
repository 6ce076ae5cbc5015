#include "runtime/process/glog_warning_tap.h"

#include <glog/logging.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace downpour {
namespace {

thread_local int roles_own = 0;

}  // namespace

class WarningTap::Sink final : public google::LogSink {
 public:
  using google::LogSink::send;
  void send(google::LogSeverity severity, const char*, const char*, int, const google::LogMessageTime&,
            const char* message, size_t bytes) override {
    if (severity < google::GLOG_WARNING || roles_own > 0) return;
    Warned warned{std::string(message, bytes)};
    std::lock_guard lock(mutex_);
    if (mailbox_ != nullptr) {
      mailbox_->Post(std::move(warned));
    } else if (kept_.size() < kMostKept) {
      kept_.push_back(std::move(warned));
    }
  }

  void DeliverTo(Mailbox* mailbox) {
    std::lock_guard lock(mutex_);
    mailbox_ = mailbox;
    for (Warned& warned : std::exchange(kept_, {})) mailbox_->Post(std::move(warned));
  }

 private:
  std::mutex mutex_;
  Mailbox* mailbox_ = nullptr;
  std::vector<Warned> kept_;
};

WarningTap::WarningTap() : sink_(std::make_unique<Sink>()) { google::AddLogSink(sink_.get()); }
WarningTap::~WarningTap() { google::RemoveLogSink(sink_.get()); }

void WarningTap::DeliverTo(Mailbox* mailbox) { sink_->DeliverTo(mailbox); }

WarningTap::RolesOwn::RolesOwn() { ++roles_own; }
WarningTap::RolesOwn::~RolesOwn() { --roles_own; }

}  // namespace downpour
