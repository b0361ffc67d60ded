"""An API server of our own: real HTTP, with lists in pieces, watches from a version on, discovery, and rights."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from collector.schedulers.kubernetes.api import Server
from tests.waiting import PATIENCE_SECONDS

Thing = dict[str, Any]
PAGE_MAX = 2  # so that a list of three comes in pieces


class Cluster:
    """What is in a cluster. Every change has a version; `forgotten` are the versions that can no longer be watched."""

    def __init__(self) -> None:
        self.things: dict[str, dict[str, Thing]] = {"/api/v1/pods": {}, "/api/v1/nodes": {}}
        self.changes: list[tuple[int, str, str, Thing]] = []
        self.kinds: dict[str, list[Thing]] = {"/api/v1": [_kind("Pod", "pods"), _kind("Node", "nodes", False)]}
        self.refused: dict[str, int] = {}
        self.asked: list[str] = []
        self.tokens: set[str] = set()
        self.forgotten = 0
        self.version = 100

    def serve(self, root: str, kind: str, plural: str) -> None:
        """Serve one more kind, as a controller of one's own does."""
        self.kinds.setdefault(root, []).append(_kind(kind, plural))
        self.things.setdefault(f"{root}/{plural}", {})

    def put(self, path: str, thing: Thing) -> None:
        """Make an object, or make it anew."""
        uid = thing["metadata"]["uid"]
        self._changed("MODIFIED" if uid in self.things[path] else "ADDED", path, thing)
        self.things[path][uid] = thing

    def delete(self, path: str, thing: Thing) -> None:
        """Delete an object: its last state is told."""
        self._changed("DELETED", path, thing)
        self.things[path].pop(thing["metadata"]["uid"], None)

    def _changed(self, what: str, path: str, thing: Thing) -> None:
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        self.changes.append((self.version, what, path, deepcopy(thing)))

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, Thing | list[Thing]]:
        """Return the status and what is said: a list of events where something is watched."""
        refused = next((status for prefix, status in self.refused.items() if path.startswith(prefix)), None)
        if refused is not None or (query.get("watch") and "watch" in self.refused):
            status = refused or self.refused["watch"]
            return status, {"kind": "Status", "message": f"{path} is forbidden", "code": status}
        if path in self.kinds:
            return 200, {"kind": "APIResourceList", "resources": self.kinds[path]}
        if path in self.things:
            return self._watched(path, query) if query.get("watch") else self._listed(path, query)
        return self._one(path)

    def _listed(self, path: str, query: dict[str, str]) -> tuple[int, Thing]:
        every, start = list(self.things[path].values()), int(query.get("continue") or 0)
        size = min(PAGE_MAX, int(query["limit"]))
        more = str(start + size) if start + size < len(every) else ""
        meta = {"resourceVersion": str(self.version), **({"continue": more} if more else {})}
        return 200, {"metadata": meta, "items": deepcopy(every[start : start + size])}

    def _watched(self, path: str, query: dict[str, str]) -> tuple[int, list[Thing]]:
        since = int(query["resourceVersion"])
        if since < self.forgotten:
            return 200, [{"type": "ERROR", "object": {"kind": "Status", "code": 410}}]
        told = [
            {"type": what, "object": thing} for at, what, where, thing in self.changes if at > since and where == path
        ]
        return 200, [*told, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}]

    def _one(self, path: str) -> tuple[int, Thing]:
        root, _, rest = path.partition("/namespaces/")
        parts = rest.split("/")
        if len(parts) == 3:
            for thing in self.things.get(f"{root}/{parts[1]}", {}).values():
                if (thing["metadata"]["namespace"], thing["metadata"]["name"]) == (parts[0], parts[2]):
                    return 200, deepcopy(thing)
        return 404, {"kind": "Status", "message": f"{path} not found", "code": 404}


def _kind(kind: str, plural: str, namespaced: bool = True) -> Thing:
    return {"kind": kind, "name": plural, "namespaced": namespaced}


@contextmanager
def served(cluster: Cluster, token: Path | None = None, certificate: Path | None = None) -> Iterator[Server]:
    """Serve a cluster on a port of its own; yield how it is reached."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer in one piece: else each costs the kernel's 40 ms of patience

        def do_GET(self) -> None:
            cluster.asked.append(self.path)
            parts = urlsplit(self.path)
            shown = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if cluster.tokens and shown not in cluster.tokens:
                self._say(401, {"kind": "Status", "message": "Unauthorized", "code": 401})
                return
            status, said = cluster.answer(parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()})
            self._tell(said) if isinstance(said, list) else self._say(status, said)

        def _say(self, status: int, said: Thing) -> None:
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _tell(self, events: list[Thing]) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in events:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    scheme = "http"
    if certificate is not None:
        scheme, context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield Server(f"{scheme}://127.0.0.1:{server.server_port}", token, certificate, timeout_seconds=PATIENCE_SECONDS)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
