"""An endpoint on loopback that gives recorded answers, and keeps what it was asked."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Recorded:
    """One answer. `pieces` are sent one by one, with a pause before each but the first."""

    status: int = 200
    pieces: Sequence[bytes] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    pause_seconds: float = 0.0


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    body: str


def completion(text: object, finish_reason: str = "stop") -> Recorded:
    """Return an answer in the shape of OpenAI's API."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}
    return Recorded(pieces=[json.dumps({"object": "chat.completion", "choices": [choice]}).encode()])


class Endpoint:
    """Answers in the order of what is recorded; the last answer is given again."""

    def __init__(self, *answers: Recorded) -> None:
        self.asked: list[Asked] = []
        self.over = threading.Event()  # ends pauses
        left = list(answers)
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                endpoint.asked.append(Asked(self.path, dict(self.headers), body.decode()))
                endpoint.give(self, left.pop(0) if len(left) > 1 else left[0])

            do_GET = do_POST  # noqa: N815 - where a redirect would lead

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def give(self, handler: BaseHTTPRequestHandler, answer: Recorded) -> None:
        """Send an answer, as slowly as it was recorded."""
        try:
            if not answer.pieces and answer.pause_seconds:
                self.over.wait(answer.pause_seconds)
                return
            handler.send_response(answer.status)
            for name, value in answer.headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            for number, piece in enumerate(answer.pieces):
                if number and answer.pause_seconds:
                    self.over.wait(answer.pause_seconds)
                handler.wfile.write(piece)
                handler.wfile.flush()
        except OSError:  # whoever asked has gone, as they should
            return

    def close(self) -> None:
        """Answer no more."""
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def endpoint(*answers: Recorded) -> Iterator[Endpoint]:
    """Yield an endpoint that gives these answers."""
    one = Endpoint(*answers)
    try:
        yield one
    finally:
        one.close()
