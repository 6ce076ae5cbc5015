// Guess: the loss and accuracy of a guess that knows how frequent the labels of a set are, and nothing else. A model
// that does no better has learned nothing.
#pragma once

namespace downpour {

struct Guess {
  // Of classes the entropy in nats (Shannon 1948), of numbers the variance, over all outputs the mean. 0: not known
  double loss = 0;
  double accuracy = 0;  // share of the most frequent class; of numbers 0
  bool known() const { return loss > 0; }
  bool operator==(const Guess&) const = default;
};

struct Guesses {  // of the two sets of a job
  Guess train, eval;
  bool operator==(const Guesses&) const = default;
};

}  // namespace downpour
