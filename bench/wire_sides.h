// The two sides of bench_wire's transfers, in three kinds: this project's own, bare ZeroMQ, raw sockets.
//
// Order: a unit of work is the push of one slice and the pull of the same slice right behind it; answers come in the
//   order of the units.
// Threads: a server serves on the caller's thread, for ever; a client is used from one thread.
// Errors: a transfer that goes wrong ends the process: there is nothing to measure then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace downpour {

// A variable cut into equal slices.
struct WireLoad {
  size_t slice_bytes = 0;
  size_t slices = 0;
};

class WireClient {
 public:
  virtual ~WireClient() = default;
  // Sends a unit without waiting for its answer.
  virtual void Begin(size_t slice) = 0;
  // Waits for the answer of the oldest unit that has none.
  virtual void End() = 0;
};

struct WireSides {
  const char* name;
  // Calls `listening` with the endpoint once it can be dialled.
  void (*serve)(const WireLoad& load, const std::string& listen,
                const std::function<void(const std::string&)>& listening);
  std::unique_ptr<WireClient> (*dial)(const WireLoad& load, const std::string& endpoint);
};

// A ps under its driver; its counterpart speaks as a worker does.
WireSides DownpourSides();
// The same with keys: what CURVE costs. And while strangers knock at the ps's door all the time; in units of several in
// flight, since they knock only while some are.
WireSides DownpourCurveSides();
WireSides FloodedSides();
// One message per slice over the same sockets, lent on sending: what ZeroMQ itself can do.
WireSides BareZmqSides();
// One stream, a fixed header before each slice: what the kernel can do.
WireSides RawSides();

// A unit of these is one small request and its small answer: a probe of one slice, or a message of 64 bytes.
WireSides DownpourProbeSides();
WireSides BareZmqProbeSides();

}  // namespace downpour
