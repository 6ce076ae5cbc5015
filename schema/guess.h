// What a guess has that knows how the labels of a set are spread, and nothing else. Who has no more learned nothing.
#pragma once

namespace downpour {

struct Guess {
  double loss = 0;      // of classes the entropy in nats (Shannon 1948), of numbers the variance. 0: not known
  double accuracy = 0;  // share of the most frequent class; of numbers 0
  bool known() const { return loss > 0; }
  bool operator==(const Guess&) const = default;
};

struct Guesses {  // of the two sets of a job
  Guess train, eval;
  bool operator==(const Guesses&) const = default;
};

}  // namespace downpour
