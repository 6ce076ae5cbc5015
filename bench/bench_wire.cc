// How fast slices go to a ps and back, against bare ZeroMQ over the same sockets and raw sockets of the same kind.
//
//   bench_wire [--runs N] [--only TEXT]
//
// A unit is the push of one slice and the pull of its new values right behind it, as a worker does; goodput counts both
// slices. Server and client are processes of their own. The three kinds take turns in every run, so that whatever else
// the machine does meets all of them. Beside the rate stands the CPU time of both sides, which a busy machine changes
// less.
#include <glog/logging.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/bench_series.h"
#include "bench/wire_sides.h"
#include "bench/wire_transfer.h"
#include "runtime/posix/process.h"

namespace downpour {
namespace {

struct Case {
  WireLoad load;
  size_t units;                  // of one measurement
  double per_unit;               // what of `counted` is in it
  const char* counted;           // GB
  std::vector<WireSides> sides;  // the last one is held against the others
};

// Rates of all kinds, in turn, `runs` times.
void Measure(const Case& c, bool ipc, size_t in_flight, int runs) {
  std::vector<Series> rates(c.sides.size()), costs(c.sides.size()), ratios(c.sides.size());
  std::string folder = (std::filesystem::temp_directory_path() / "bench-wire-XXXXXX").string();
  PCHECK(mkdtemp(folder.data()) != nullptr);
  {
    std::vector<std::unique_ptr<ServerProcess>> servers;  // all of them before the first thread of a client
    for (const WireSides& sides : c.sides) {
      const std::string listen = ipc ? "ipc://" + folder + "/" + std::to_string(servers.size()) : "127.0.0.1:0";
      servers.push_back(std::make_unique<ServerProcess>(sides, c.load, listen));
    }
    std::vector<std::unique_ptr<WireClient>> clients;
    for (size_t i = 0; i < servers.size(); ++i) clients.push_back(c.sides[i].dial(c.load, servers[i]->endpoint()));
    for (int run = -1; run < runs; ++run) {  // the first one warms up
      const double amount = static_cast<double>(c.units) * c.per_unit;
      for (size_t i = 0; i < clients.size(); ++i) {
        const auto cpu_seconds = [&] { return SecondsOf(CLOCK_PROCESS_CPUTIME_ID) + servers[i]->CpuSeconds(); };
        const double begin = SecondsOf(CLOCK_MONOTONIC), cpu_begin = cpu_seconds();
        Transfer(*clients[i], c.load, c.units, in_flight);
        if (run < 0) continue;
        rates[i].values.push_back(amount / (SecondsOf(CLOCK_MONOTONIC) - begin));
        costs[i].values.push_back((cpu_seconds() - cpu_begin) / amount * 1e3);
      }
    }
  }
  std::filesystem::remove_all(folder);
  for (size_t run = 0; run < static_cast<size_t>(runs); ++run) {
    for (size_t i = 0; i < ratios.size(); ++i) {
      ratios[i].values.push_back(rates.back().values[run] / rates[i].values[run]);
    }
  }
  for (size_t i = 0; i < c.sides.size(); ++i) {
    std::printf("    %-12s %8.2f %s/s  [%.2f, %.2f]   CPU %6.4g ms/%s", c.sides[i].name, rates[i].Median(), c.counted,
                rates[i].Smallest(), rates[i].Largest(), costs[i].Median(), c.counted);
    if (i + 1 < c.sides.size()) {
      std::printf("   %s is %.2f of it  [%.2f, %.2f]", c.sides.back().name, ratios[i].Median(), ratios[i].Smallest(),
                  ratios[i].Largest());
    }
    std::printf("\n");
  }
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  CLI::App app("Goodput of push and pull against bare ZeroMQ and raw sockets", "bench_wire");
  int runs = 9;
  app.add_option("--runs", runs, "measurements of each; their median and range are printed")
      ->check(CLI::PositiveNumber);
  std::string only;
  app.add_option("--only", only, "measure what has this in its title");
  CLI11_PARSE(app, argc, argv);
  KeepFreedMemory();

  constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;
  const std::vector<WireSides> transfers = {RawSides(), BareZmqSides(), DownpourSides()};
  const auto transfer = [&](size_t slice_bytes, size_t slices, size_t units) {
    return Case{{slice_bytes, slices}, units, 2e-9 * static_cast<double>(slice_bytes), "GB", transfers};
  };
  const std::vector<std::pair<const char*, Case>> cases = {
      {"16 slices of 64 KiB", transfer(64 * kKiB, 16, 4096)},
      {"16 slices of 1 MiB", transfer(kMiB, 16, 512)},
      {"64 slices of 1 MiB", transfer(kMiB, 64, 512)},
  };
  const Case probes{{64 * kKiB, 16}, 20'000, 1e-3, "thousand", {BareZmqProbeSides(), DownpourProbeSides()}};

  const auto between = [](Case c, const WireSides& one, const WireSides& other) {
    c.sides = {one, other};
    return c;
  };

  std::printf("medians of %d runs [smallest, largest]\n", runs);
  const auto measure = [&](const std::string& title, const Case& c, bool ipc, size_t in_flight) {
    if (title.find(only) == std::string::npos) return;
    std::printf("  %s\n", title.c_str());
    Measure(c, ipc, in_flight, runs);
  };
  for (const bool ipc : {false, true}) {
    const std::string transport = ipc ? "ipc, " : "loopback TCP, ";
    for (const auto& [name, c] : cases) {
      for (const size_t in_flight : {1, 4}) {
        measure(transport + name + ", push and pull, " + std::to_string(in_flight) + " in flight", c, ipc, in_flight);
      }
    }
    if (!ipc) {
      for (const auto& [name, c] : cases) {
        measure(transport + name + ", the price of CURVE, 4 in flight",
                between(c, DownpourSides(), DownpourCurveSides()), ipc, 4);
      }
      measure(transport + cases[0].first + ", strangers at the door, 4 in flight",
              between(cases[0].second, DownpourCurveSides(), FloodedSides()), ipc, 4);
    }
    for (const size_t in_flight : {1, 64}) {
      measure(transport + "small requests, " + std::to_string(in_flight) + " in flight", probes, ipc, in_flight);
    }
  }
  return 0;
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) { return downpour::Main(argc, argv); }
