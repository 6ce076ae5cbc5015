// PatientClient: an HTTP client for tests, which no slow machine makes give up. httplib's own waits 5 s for an answer.
#pragma once

#include <httplib.h>

#include <chrono>
#include <string>

namespace downpour {

class PatientClient : public httplib::Client {
 public:
  template <typename... Place>
  explicit PatientClient(const Place&... place) : httplib::Client(place...) {
    set_connection_timeout(kLong);
    set_read_timeout(kLong);
    set_write_timeout(kLong);
  }

 private:
  static constexpr std::chrono::minutes kLong{5};
};

}  // namespace downpour
