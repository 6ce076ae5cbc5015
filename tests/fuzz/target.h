// A fuzz target: one decoder fed with whatever bytes. Built twice: with libFuzzer (tools/dev/fuzz), and with
// replay_main.cc, which runs the kept corpus as a test in every build.
//
// Adding one: NAME.cc that defines LLVMFuzzerTestOneInput, its name in meson.build, and inputs worth starting from in
// corpus/NAME. An input that once broke something is kept there for ever.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
