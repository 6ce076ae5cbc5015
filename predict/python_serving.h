// PythonServing: how the user's code is run to answer predictions.
#pragma once

#include <chrono>
#include <string>

namespace downpour {

struct PythonServing {
  std::string interpreter = "python3";
  std::string code_folder = {};                // of CodeCache; empty: DefaultCodeFolder()
  std::string log = {};                        // gets what the code prints, if it can be opened; empty: stderr does
  int processes = 1;                           // of a model
  std::chrono::milliseconds call{30'000};      // that one question may take
  std::chrono::milliseconds start{2'100'000};  // up to the model; pip alone may take 30 minutes of it
};

}  // namespace downpour
