// Loaded before a program's libraries (LD_PRELOAD), it lets the world around it go wrong when a test says so.
//
//   DOWNPOUR_ROUTES=7001=9001,7002=9002   who dials port 7001 of this machine dials 9001 instead
//   DOWNPOUR_FAULTS=FILE                  what the file says from now on, one of
//     fail CALL ERRNO PART   CALL (open, write, sync or rename) of PROGRAM:PATH with PART in it fails; a write before
//                            its last byte
//     die N PART             SIGKILL before the Nth of such calls, of any kind; the file goes, so that a successor
//                            lives
//     die-at CALL N PART     likewise before the Nth of that CALL alone, which may also be spawn or signal, or spawned
//                            or signalled, when it is just done; PART is then of the program, or of
//                            PROGRAM:SIGNAL, behind which /group stands where a whole group is told
//     clock SECONDS          what the calendar says is shifted; the clock that only goes forward is left alone
//   DOWNPOUR_TRAP_OVERFLOW=1              arithmetic that overflows ends the process by SIGFPE
#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdlib>
#include <sstream>
#include <string>

namespace {

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Read again each time, past the calls below; empty while there is none.
std::string Order() {
  const char* const file = getenv("DOWNPOUR_FAULTS");
  if (file == nullptr) return {};
  const long fd = syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::array<char, 256> text;
  const ssize_t size = read(static_cast<int>(fd), text.data(), text.size());
  close(static_cast<int>(fd));
  return {text.data(), static_cast<size_t>(size < 0 ? 0 : size)};
}

std::string Named(int fd, const char* name) {
  std::array<char, PATH_MAX> path;
  const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path.data(), path.size());
  return std::string(program_invocation_short_name) + ":" + std::string(path.data(), size < 0 ? 0 : size) + "/" + name;
}

void DieAtLast(long nth) {
  static std::atomic<long> calls = 0;
  if (++calls < nth) return;
  unlink(getenv("DOWNPOUR_FAULTS"));
  syscall(SYS_kill, getpid(), SIGKILL);
}

// The error that the call is to end with, or 0.
int Trouble(const std::string& call, const std::string& path) {
  std::istringstream order(Order());
  std::string verb, of, error, part;
  order >> verb >> of;
  if (verb == "fail" || verb == "die-at") order >> error;
  order >> part;
  if (part.empty() || path.find(part) == std::string::npos) return 0;
  if (verb == "die") DieAtLast(std::atol(of.c_str()));
  if (verb == "die-at" && of == call) DieAtLast(std::atol(error.c_str()));
  if (verb != "fail" || of != call) return 0;
  return error == "ENOSPC" ? ENOSPC : EIO;
}

bool Fails(const std::string& call, const std::string& path) {
  const int error = Trouble(call, path);
  if (error != 0) errno = error;
  return error != 0;
}

time_t Shift() {
  std::istringstream order(Order());
  std::string verb;
  time_t seconds = 0;
  order >> verb >> seconds;
  return verb == "clock" ? seconds : 0;
}

// In the thread that the others inherit it from.
[[gnu::constructor]] void TrapOverflow() {
  if (getenv("DOWNPOUR_TRAP_OVERFLOW") != nullptr) feenableexcept(FE_OVERFLOW);
}

}  // namespace

extern "C" {

int openat64(int folder, const char* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if ((flags & O_CREAT) != 0 && Fails("open", Named(folder, name))) return -1;
  return static_cast<int>(syscall(SYS_openat, folder, name, flags, mode));
}

ssize_t write(int fd, const void* data, size_t size) {
  struct stat about {};
  if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && Fails("write", Named(fd, ""))) {
    if (size < 2) return -1;
    size /= 2;
  }
  return syscall(SYS_write, fd, data, size);
}

int fsync(int fd) { return Fails("sync", Named(fd, "")) ? -1 : static_cast<int>(syscall(SYS_fsync, fd)); }

int fdatasync(int fd) { return Fails("sync", Named(fd, "")) ? -1 : static_cast<int>(syscall(SYS_fdatasync, fd)); }

int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* files,
                const posix_spawnattr_t* attributes, char* const argv[], char* const envp[]) {
  static auto* const real = Real<decltype(posix_spawn)>("posix_spawn");
  const std::string name = std::string(program_invocation_short_name) + ":" + path;
  Trouble("spawn", name);
  const int result = real(pid, path, files, attributes, argv, envp);
  Trouble("spawned", name);
  return result;
}

int kill(pid_t pid, int number) noexcept {
  const std::string name =
      std::string(program_invocation_short_name) + ":" + std::to_string(number) + (pid < 0 ? "/group" : "");
  Trouble("signal", name);
  const auto result = static_cast<int>(syscall(SYS_kill, pid, number));
  const int error = errno;
  Trouble("signalled", name);
  errno = error;
  return result;
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  if (Fails("rename", Named(to_folder, to))) return -1;
  return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
}

int rename(const char* from, const char* to) noexcept {
  if (Fails("rename", std::string(program_invocation_short_name) + ":" + to)) return -1;
  return static_cast<int>(syscall(SYS_rename, from, to));
}

int connect(int fd, const sockaddr* address, socklen_t size) {
  sockaddr_storage other{};
  const char* const routes = getenv("DOWNPOUR_ROUTES");
  if (routes == nullptr || address->sa_family != AF_INET) {
    return static_cast<int>(syscall(SYS_connect, fd, address, size));
  }
  auto& to = reinterpret_cast<sockaddr_in&>(other);
  to = reinterpret_cast<const sockaddr_in&>(*address);
  std::istringstream list(routes);
  for (std::string route; std::getline(list, route, ',');) {
    const size_t equals = route.find('=');
    if (std::atoi(route.c_str()) == ntohs(to.sin_port)) {
      to.sin_port = htons(static_cast<uint16_t>(std::atoi(route.c_str() + equals + 1)));
      break;
    }
  }
  return static_cast<int>(syscall(SYS_connect, fd, &other, size));
}

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static auto* const real = Real<int(clockid_t, timespec*)>("clock_gettime");
  const int result = real(clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += Shift();
  return result;
}

}  // extern "C"
