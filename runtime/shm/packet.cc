#include "runtime/shm/packet.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/shm/closing.h"

namespace downpour {
namespace {

constexpr size_t kMostText = 64;
constexpr size_t kMostDescriptors = 253;  // of a packet, to the kernel: what does not fit it closes, which may wait

bool IsKind(char kind) { return std::string_view("wctm").find(kind) != std::string_view::npos; }

// The first one. Whoever sends more is none of ours.
UniqueFd TakeDescriptor(msghdr& message) {
  UniqueFd first;
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) return first;
  for (size_t at = CMSG_LEN(0); at + sizeof(int) <= head->cmsg_len; at += sizeof(int)) {
    int fd = -1;
    std::memcpy(&fd, reinterpret_cast<const char*>(head) + at, sizeof(fd));
    UniqueFd taken(fd);
    if (!first.ok()) {
      first = std::move(taken);
    } else {
      CloseElsewhere(std::move(taken));
    }
  }
  return first;
}

}  // namespace

bool SendPacket(int socket, Packet kind, std::string_view text, int fd) {
  char first = static_cast<char>(kind);
  iovec parts[] = {{&first, 1}, {const_cast<char*>(text.data()), text.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = space;
    message.msg_controllen = sizeof(space);
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &fd, sizeof(fd));
  }
  ssize_t sent = 0;
  do sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

ReceivedPacket ReceivePacket(int socket) {
  char bytes[1 + kMostText];
  iovec part = {bytes, sizeof(bytes)};
  alignas(cmsghdr) char space[CMSG_SPACE(kMostDescriptors * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof(space);
  ssize_t got = 0;
  do got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
  ReceivedPacket packet{.kind = Packet::kEnd};
  if (got < 0) return packet;
  packet.fd = TakeDescriptor(message);
  if (got == 0 || (message.msg_flags & MSG_TRUNC) != 0 || !IsKind(bytes[0])) return packet;
  packet.kind = static_cast<Packet>(bytes[0]);
  packet.text.assign(bytes + 1, static_cast<size_t>(got - 1));
  return packet;
}

}  // namespace downpour
