"""One end of a TCP connection that moves a known number of bytes each way, and then holds still.

talker.py serve ADDRESS                     prints its port, then "done"
talker.py connect ADDRESS PORT SEND RECEIVE prints "connected", waits for a line, prints "done"

It ends when its standard input does. GPULEDGER_TEST_CGROUP names the cgroup to enter before the socket is made.
"""

import os
import socket
import sys
from pathlib import Path

HEADER = 16  # two lengths: what the client sends, and what it gets back


def serve(address: str) -> None:
    """Take one connection, read what was announced, and send what was asked for."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listener:
        say(str(listener.getsockname()[1]))
        connection, _ = listener.accept()
    with connection:
        header = read(connection, HEADER)
        read(connection, int.from_bytes(header[:8], "big"))
        connection.sendall(bytes(int.from_bytes(header[8:], "big")))
        hold()


def connect(address: str, port: int, send: int, receive: int) -> None:
    """Send and receive so many bytes, the header among those sent."""
    with socket.create_connection((address, port)) as connection:
        say("connected")
        sys.stdin.readline()
        connection.sendall((send - HEADER).to_bytes(8, "big") + receive.to_bytes(8, "big") + bytes(send - HEADER))
        read(connection, receive)
        hold()


def read(connection: socket.socket, length: int) -> bytes:
    """Return exactly so many bytes; of many, only the last piece."""
    piece = b""
    while length > 0:
        piece = connection.recv(min(length, 1 << 20))
        assert piece, "the other end has gone"
        length -= len(piece)
    return piece


def hold() -> None:
    """Say that all is moved, and keep the connection until the test is through."""
    say("done")
    sys.stdin.read()


def say(word: str) -> None:
    """Tell the test."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if cgroup := os.environ.get("GPULEDGER_TEST_CGROUP"):
        (Path(cgroup) / "cgroup.procs").write_text(str(os.getpid()))
    role, where, *numbers = sys.argv[1:]
    if role == "serve":
        serve(where)
    else:
        connect(where, *(int(number) for number in numbers))
