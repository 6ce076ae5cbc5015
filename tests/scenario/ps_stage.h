// A ps that has joined, the test being its chief and its workers. The job is tiny_job.h's.
//
//   assign 0@1.1 1@1.1/checkpoint             drop                    (the chief no longer knows it)
//   push lease=0 step=1 0@1.1                 welcome incarnation=11 [term=2] [epochs=3] [seed=9] [images=FILE]
//        [gradient=1|empty|nan|short] [from=1.1v3] [worker=5]
//   probe lease=0 0@1.1                       show 0                  (what the slice holds)
//   pull request=1 0@1.1 [have=1.1v3]         stats
//   snapshot round=1-1 0@1.1 [as=NAME]        stop                    (SIGTERM)
//   restore 0@1.2 record=NAME round=1-1       let_go                  (the chief says that it may leave)
//   pass 500                                  (milliseconds, with a Tick at each 100)
// Whatever is said may be said in another run than the one that the ps is in: run=2, of welcome too.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ps/ps_role.h"
#include "tests/scenario/script.h"

namespace downpour {

class PsStage : public Stage {
 public:
  PsStage();
  std::vector<std::string> Do(const Command& command) override;

 private:
  Message FromWorker(const Command& command) const;
  Message FromChief(const Command& command);
  std::vector<std::string> Show(SliceId slice) const;
  std::string Stats() const;
  std::vector<std::string> Give(Input input);
  std::vector<std::string> Deliver(PeerId from, Message message, const Command& command);
  std::vector<std::string> Pass(Duration duration);

  PsRole role_;
  Time now_{};
  uint64_t join_ = 0;                                    // the number of its newest one
  std::string saving_;                                   // the name under which the next record is kept
  std::map<std::string, std::vector<Payload>> records_;  // by name
};

}  // namespace downpour
