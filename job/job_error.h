// JobError: what is wrong with a job file, and where.
#pragma once

#include <string>

namespace downpour {

inline constexpr const char* kSetByHand = "--set";

struct JobError {
  std::string file;         // or kSetByHand for an override
  int line = 0;             // from 1; 0 where there is no place (a missing key)
  int column = 0;           // from 1
  std::string key;          // dotted path, such as training.optimizer.name
  std::string what;         // what is wrong and what is allowed
  std::string remedy = {};  // what to do, or what was probably meant; empty: nothing more is known
  bool of_itself = false;   // whatever else the job says: an unknown key, a value that the key never has
};
std::string PlaceOf(const JobError& error);   // file:line:column
std::string ToString(const JobError& error);  // file:line:column: key: what; remedy

}  // namespace downpour
