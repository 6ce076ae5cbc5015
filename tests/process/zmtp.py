"""Just enough of ZeroMQ's wire protocol (ZMTP 3.0, NULL mechanism) to say the wrong thing properly."""

import socket
import struct

GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
MORE, LONG, COMMAND = 1, 2, 4
PATIENCE = 30  # seconds


def frame(body, flags=0):
    if len(body) > 255:
        return struct.pack(">BQ", flags | LONG, len(body)) + body
    return struct.pack(">BB", flags, len(body)) + body


def ready(socket_type=b"DEALER"):
    return frame(b"\x05READY" + b"\x0bSocket-Type" + struct.pack(">I", len(socket_type)) + socket_type, COMMAND)


def dial(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def speak(port, *messages):
    """Greets, then sends each message, a list of frames, and hangs up once all of it is on its way."""
    with dial(port) as link:
        link.sendall(GREETING + ready())
        greeting = b""
        while len(greeting) < len(GREETING):
            got = link.recv(len(GREETING) - len(greeting))
            if not got:
                raise ConnectionError("the other side did not greet")
            greeting += got
        for frames in messages:
            last = len(frames) - 1
            link.sendall(b"".join(frame(body, MORE if i < last else 0) for i, body in enumerate(frames)))
        hang_up(link)


def hang_up(link):
    """Waits until the other side has read all, or has had enough."""
    try:
        link.shutdown(socket.SHUT_WR)
        while link.recv(4096):
            pass
    except OSError:
        pass


def speak_raw(port, data):
    """Bytes that are no ZeroMQ at all."""
    with dial(port) as link:
        try:
            link.sendall(data)
        except OSError:
            return  # it hung up on us before the end
        hang_up(link)
