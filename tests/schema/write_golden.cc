// Writes the golden files of kinds of message that have none yet.
#include <fstream>
#include <iostream>
#include <variant>

#include "schema/codec.h"
#include "tests/schema/golden.h"
#include "tests/schema/random_message.h"

int main() {
  using namespace downpour;
  for (size_t kind = 0; kind < std::variant_size_v<MessageKinds>; ++kind) {
    Message richest;
    for (uint64_t seed = 0; seed < 100; ++seed) {
      Random random(seed);
      Message message = RandomMessage(kind, random);
      if (seed == 0 || FieldLines(message).size() > FieldLines(richest).size()) richest = std::move(message);
    }
    const std::string name = NameOf(richest);
    if (!ReadGolden(name).frames.empty()) continue;
    std::ofstream file(GoldenPath(name));
    for (const Payload& frame : Encode(richest)) file << "frame " << Hex(frame.data(), frame.size()) << "\n";
    for (const std::string& line : FieldLines(richest)) file << line << "\n";
    std::cout << GoldenPath(name) << "\n";
  }
}
