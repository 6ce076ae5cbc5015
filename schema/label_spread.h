// How labels are spread over classes: what a guess that knows nothing else has of loss and accuracy.
#pragma once

namespace downpour {

struct LabelSpread {
  double entropy = 0;  // in nats: the loss of that guess (Shannon 1948). 0: not known
  double largest = 0;  // share of the most frequent class: what it has right
  bool known() const { return entropy > 0; }
  bool operator==(const LabelSpread&) const = default;
};

struct LabelSpreads {  // of the two sets of a job
  LabelSpread train, eval;
  bool operator==(const LabelSpreads&) const = default;
};

}  // namespace downpour
