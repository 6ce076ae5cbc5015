// LogTimes: when the lines of a job's service.log came that have no time of their own, such as those of `downpour run`
// and of the user's program.
//
//   NoteLogTime(job_dir, UnixMs());   // now and then while the job's run may write
//   LogTimes times(job_dir);
//   std::optional<int64_t> when = times.Of(end_of_line);
//
// Shapes: JOB_DIR/service/log_times holds lines of one length: how many bytes the log had, and when that was seen.
// Order: a line's time is that of the first look that found it. So it is later than all that was shown before.
// Errors: what cannot be written or read leaves the time unknown, until a later look is written.
// Cost: 34 bytes for each look in which the log had grown. A line's time takes a reading of a record for each doubling
//   of their number, or none where the look is that of the line before it.
// Tests: tests/unit/service/job_logs_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace downpour {

void NoteLogTime(const std::string& job_dir, int64_t now_ms);

class LogTimes {
 public:
  LogTimes() = default;  // of no log
  explicit LogTimes(const std::string& job_dir);
  // Of the line that ends before this byte; nothing: nobody has looked since it came.
  std::optional<int64_t> Of(int64_t end);

 private:
  std::string path_;
  int64_t records_ = 0;
  // The look that was found last (bytes, milliseconds since 1970), and the bytes of the one before it.
  std::pair<int64_t, int64_t> found_;
  int64_t before_ = 0;
};

}  // namespace downpour
