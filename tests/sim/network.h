// The simulated network: connections between lives of processes, and everything that can happen to a message.
//
//   network.Listen(chief, "chief:1");
//   network.Dial(worker, PeerId{1}, "chief:1");
//   network.Send(worker, PeerId{1}, Join{...});      // arrives as Received at the chief, unless it does not
//
// Order: as ZeroMQ's DEALER and ROUTER have it. A dialler keeps its PeerId over resets and restarts of the other side;
//   the listener sees a new one each time. What is sent to nobody, or to a connection of before, is lost.
// Faults: loss, duplication, delay, reordering, cuts of one direction, resets, and messages that outlive the process
//   they were sent to and reach its successor at the same endpoint.
// Errors: a message that does not survive Encode and Decode is a finding.
// Tests: tests/sim/network_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/prng.h"
#include "runtime/role.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/fault_counts.h"
#include "tests/sim/findings.h"

namespace downpour {

// One life of one process within a run; never reused.
enum class Life : uint32_t { kNone = 0 };

struct NetworkFaults {
  Duration delay = std::chrono::microseconds(200);  // least time on the way
  Duration spread = 1ms;                            // drawn on top, uniformly
  double straggle = 0;                              // chance that a message takes up to 100 times as long
  double loss = 0;
  double duplicate = 0;
  double echo = 0;       // chance that a listener's words come again within ten seconds, whatever was said meanwhile
  bool in_order = true;  // messages of one connection and direction do not overtake each other
  bool codec = true;     // every message goes through Encode and Decode
  bool outlive = false;  // messages may reach the next process at an endpoint
  std::string ToString() const;
};

class Network {
 public:
  using Deliver = std::function<void(Life, Input)>;  // Received, or Reconnected to a dialler
  Network(NetworkFaults faults, uint64_t seed, EventQueue* events, Findings* findings, Deliver deliver);

  void Listen(Life server, const std::string& endpoint);
  // Its host has another address: nobody reaches it at the old one, and what it dialled is reset.
  void Move(Life server, const std::string& endpoint);
  void Dial(Life dialer, PeerId peer, const std::string& endpoint);
  void HangUp(Life dialer, PeerId peer);
  void Send(Life from, PeerId to, Message message, uint64_t run = 0);
  // Under which that listener hears that dialler; kNone: it does not.
  PeerId PeerOf(Life server, Life dialer) const;
  // Whom that listener hears, or heard, under that number; kNone: nobody.
  Life DialerOf(Life server, PeerId accepted) const;
  void Vanish(Life gone);  // its connections end; what it sent is on its way

  // One direction, both ends named by their endpoint or dialler's life. Messages wait for the end of the cut or are
  // lost.
  void Cut(Life from, Life to, Duration length, bool loses);
  void ResetOne();  // a connection, drawn; its dialler hears at once that it stands again
  void Calm();      // no more faults, but for delays

  const FaultCounts& faults_dealt() const { return faults_dealt_; }

 private:
  struct Connection {
    Life dialer{};
    PeerId dialed{};
    std::string endpoint;
    Life server{};
    PeerId accepted{};
    uint64_t generation = 0;  // rises with each reset
    bool open = true;
    Time last_arrival[2];  // per direction, for in_order
  };
  using ConnectionId = size_t;
  struct Parcel {  // a message on its way
    ConnectionId connection = 0;
    uint64_t generation = 0;
    bool to_server = false;
    Life server{};
    PeerId accepted{};
    std::shared_ptr<const Message> message;
    uint64_t run = 0;
  };
  struct CutState {
    Time until;
    bool loses = false;
  };

  void Reset(ConnectionId id);
  void Accept(Connection& connection, Life listener);
  Life ListenerAt(const std::string& endpoint) const;
  std::shared_ptr<const Message> OverTheWire(Message message, uint64_t run);
  void Post(const Parcel& parcel, Life from, Life to);
  void Arrive(const Parcel& parcel);
  bool Deal(double chance, const char* kind);

  NetworkFaults faults_;
  Prng prng_;
  EventQueue* events_;
  Findings* findings_;
  Deliver deliver_;
  std::vector<Connection> connections_;
  std::map<std::pair<Life, PeerId>, ConnectionId> ends_;  // both ends of each
  std::map<std::string, Life> listeners_;
  std::map<Life, uint64_t> accepted_;  // count by listener
  std::map<std::pair<Life, Life>, CutState> cuts_;
  FaultCounts faults_dealt_;
};

}  // namespace downpour
