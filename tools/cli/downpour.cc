#include <iostream>

#include "tools/cli/verbs.h"

int main(int argc, char** argv) {
  return downpour::RunTool(downpour::AllVerbs(), {argv + 1, argv + argc}, {std::cout, std::cerr});
}
