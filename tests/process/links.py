"""A network that can be cut, slowed and reset, in user space: connections through ports of its own."""

import socket
import struct
import threading

CHUNK = 1 << 16
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: whoever closes sends RST


class Link:
    """Stands between those who dial its port and the one who listens at another; may keep what the diallers say."""

    def __init__(self, test, port, keep=False):
        self.keep, self.heard = keep, b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open = {"out": threading.Event(), "in": threading.Event()}  # as the diallers see it
        self.never = threading.Event()
        self.delay = 0.0  # seconds, each way
        self.bytes_per_second = float("inf")
        self.moved = {"out": 0, "in": 0}  # bytes; of one connection at a time
        self.sockets = []
        self.heal()
        test.addCleanup(self.close)
        threading.Thread(target=self._accept, args=(port,), daemon=True).start()

    def cut(self, *ways):
        """Holds what is on its way, and what comes after it, until the link is healed."""
        for way in ways or self.open:
            self.open[way].clear()

    def heal(self):
        for way in self.open.values():
            way.set()

    def reset(self):
        """Ends the connections that there are, and what is on its way in them."""
        while self.sockets:
            self._end(self.sockets.pop())

    def close(self):
        self.listener.close()
        self.heal()
        self.reset()

    @staticmethod
    def _end(end):
        try:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            end.shutdown(socket.SHUT_RDWR)  # wakes who reads from it
        except OSError:
            pass
        end.close()

    def _accept(self, port):
        try:
            while True:
                near, _ = self.listener.accept()
                threading.Thread(target=self._connect, args=(near, port), daemon=True).start()
        except OSError:
            return

    def _connect(self, near, port):
        try:
            far = socket.create_connection(("127.0.0.1", port))
        except OSError:
            return self._end(near)
        self.sockets += [near, far]
        threading.Thread(target=self._pump, args=(near, far, "out"), daemon=True).start()
        threading.Thread(target=self._pump, args=(far, near, "in"), daemon=True).start()

    def _pump(self, source, sink, way):
        try:
            while data := source.recv(CHUNK):
                if self.keep and way == "out":
                    self.heard += data
                self.moved[way] += len(data)
                self.never.wait(self.delay + len(data) / self.bytes_per_second)
                self.open[way].wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, sink):
                self._end(end)
