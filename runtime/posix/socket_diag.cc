#include "runtime/posix/socket_diag.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>

#include "runtime/posix/fd.h"

namespace downpour {
namespace {

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 request{};
};

}  // namespace

std::optional<int64_t> UserBySocketDiag(const std::string& peer_address, int peer_port, int own_port) {
  Question question;
  question.header.nlmsg_len = sizeof(question);
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = AF_INET;
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~0u;
  inet_diag_sockid& connection = question.request.id;  // as its other end sees it
  connection.idiag_sport = htons(static_cast<uint16_t>(peer_port));
  connection.idiag_dport = htons(static_cast<uint16_t>(own_port));
  if (inet_pton(AF_INET, peer_address.c_str(), &connection.idiag_src[0]) != 1) return std::nullopt;
  connection.idiag_dst[0] = htonl(INADDR_LOOPBACK);
  connection.idiag_cookie[0] = connection.idiag_cookie[1] = INET_DIAG_NOCOOKIE;

  const UniqueFd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  alignas(nlmsghdr) char answer[4096];
  if (!netlink.ok() || send(netlink.get(), &question, sizeof(question), 0) < 0) return std::nullopt;
  const ssize_t size = recv(netlink.get(), answer, sizeof(answer), 0);
  nlmsghdr header{};
  inet_diag_msg told{};
  if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(told)))) return std::nullopt;  // an error is shorter
  std::memcpy(&header, answer, sizeof(header));
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  std::memcpy(&told, NLMSG_DATA(answer), sizeof(told));
  // Of a listener at that port the kernel would tell as well.
  const bool is_it = told.id.idiag_sport == connection.idiag_sport && told.id.idiag_dport == connection.idiag_dport;
  const bool stands = told.idiag_state == TCP_ESTABLISHED && told.idiag_inode != 0;
  return is_it && stands ? std::optional<int64_t>(told.idiag_uid) : std::nullopt;
}

}  // namespace downpour
