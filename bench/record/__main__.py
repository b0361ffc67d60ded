"""Make a record of all that the product says, or name what two records differ in: `make record ARGS="…"`.

    make record ARGS="make DIR"            about eight minutes on two cores
    make record ARGS="compare BEFORE AFTER"

A change that means to change nothing leaves no difference; of any other each difference is one that was meant. The
records lie outside the repository: they hold the demo's week and this machine's paths made neutral, nothing else.
"""

import argparse
import difflib
import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from bench.record.clock import standing
from bench.record.questions import Question, changes, forgotten, helps, of_a_server, reads
from bench.record.served import UNDOCUMENTED, crawled, paths

ROOT = Path(__file__).parent.parent.parent
CHILD = [sys.executable, "-E", "-X", "no_debug_ranges", str(ROOT / "agent" / "child.py")]
LAUNCH = [*CHILD, "gpuledger"]
WEEK = "2026-W46"
CLIENT = {"name": "record", "version": "1"}
CORES = 2
PATIENCE_SECONDS = 1200  # of a machine that has other work; two quiet cores need a tenth
SEEDS = ["/", f"/?week={WEEK}", "/runs", "/money", "/placement", "/requests", "/health"]
SUBCOMMANDS: dict[str, tuple[str, ...]] = {
    "admin access": ("list", "add", "rotate", "revoke", "join", "move-gpu", "erase-user", "audit"),
}
TASKS = """\
start: 2026-11-27T05:00
finish_by: 2026-11-27T19:30
network: {path: storage}
nodes:
  gpuA: {rack: A, group: A, cpus: 16, memory: 128 GB, gpus: 1, hbm: 80 GB, price_per_hour: 3.20}
  cpuB: {rack: B, group: B, cpus: 32, memory: 128 GB, price_per_hour: 0.80}
tasks:
  prepare: {cpus: 16, memory: 64 GB, gpu: none, output: 80 GB, duration: {p10: 2 h, p50: 3 h, p90: 4 h}}
  train: {cpus: 8, memory: 32 GB, gpu: 1, after: [prepare], duration: {p10: 5 h, p50: 6 h, p90: 7 h}}
"""
PROPOSAL = '{"placements": [{"task": "prepare", "node": "cpuB", "start_seconds": 0}]}'
# What differs between two records of the same code, and stands for nothing that anybody reads: in which answers, by
# their names, what, and what stands there instead.
NEUTRAL = (
    ("", r"(127\.0\.0\.1|localhost):\d+", r"\1:PORT"),
    ("demo", r"\b(telemetry|analysis|report) \d+(\.\d+)? s\b", r"\1 SECONDS s"),
    ("", r"\bin \d+(\.\d+)? s\b", "in SECONDS s"),
    ("", r'(generation|cursor)(\\*"): ?(\\*")[\w-]+', r"\1\2: \3STATE"),  # of the rows and files that there are
    ("", r'nonce-?="?[\w+/=-]+', "NONCE"),
    ("", r'name="csrf" value="[^"]+"', 'name="csrf"'),
    ("doctor", r"\n {7,}", " "),  # a line goes on where what is before it is as long
    ("doctor|health|readyz", r"\b\d[\d,.]* (bytes|kB|MB|GB|ms|files|snapshots)\b", "SIZE"),
    ("doctor|health", r"most of it: [^<\"\n]+", "most of it: TABLES"),
    ("metrics", r"(?m)^((gpuledger_(analysis|collector|server|upkeep)|process|python)\w*(\{.*\})?) \S+$", r"\1 VALUE"),
)


@dataclass(frozen=True, slots=True)
class Recorder:
    """Where a record is made. `env` is that of the children, whose wall clock stands."""

    folder: Path
    env: dict[str, str]

    def keep(self, kind: str, name: str, text: str) -> None:
        """Write one answer below its kind, with what is of this machine made neutral."""
        text = text.replace(str(self.folder), "FOLDER").replace(str(ROOT), "ROOT")
        for names, pattern, instead in NEUTRAL:
            text = re.sub(pattern, instead, text) if re.search(names, name) else text
        path = self.folder / "answers" / kind / (re.sub(r"[^\w.=-]+", "_", name).strip("_")[:180] or "root")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def ask(self, *questions: list[str]) -> list[str]:
        """Return the exit code and what a command printed on either stream, of each, from one process."""
        done = subprocess.run(
            [*CHILD, "bench.record.asking"], env=self.env, cwd=self.folder, input=json.dumps(questions),
            capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True,
        )  # fmt: skip
        answers: list[str] = json.loads(done.stdout)
        return answers


def make(folder: Path) -> int:
    """Ask everything and keep every answer; return 1 where a command is in no table."""
    if unasked := forgotten():
        print(f"say in bench/record/questions.py how these are asked: {', '.join(unasked)}", file=sys.stderr)
        return 1
    shutil.rmtree(folder / "answers", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tasks.yaml").write_text(TASKS)
    recorder = Recorder(folder.resolve(), standing(folder.resolve()))
    store = _demo(recorder)
    names = _names(recorder, store)
    began = time.monotonic()
    helped = _commands(recorder, store, names)
    _server(recorder, store, names, helped)
    _tools(recorder, store, names)
    _changes(recorder, store, names)
    for file in sorted([*(ROOT / "dashboards").rglob("*.json"), *(ROOT / "dashboards").rglob("*.yml")]):
        recorder.keep("files", str(file.relative_to(ROOT)), file.read_text())
    count = sum(1 for path in (folder / "answers").rglob("*") if path.is_file())
    print(f"{count} answers in {time.monotonic() - began:.0f} s: {folder / 'answers'}")
    return 0


def compare(before: Path, after: Path) -> int:
    """Print each difference between two records, its first lines; return 1 where there is one."""
    old, new = (_texts(folder / "answers") for folder in (before, after))
    differing = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    for name in differing:
        lines = difflib.unified_diff(
            old.get(name, "").splitlines(), new.get(name, "").splitlines(), f"before/{name}", f"after/{name}", "", "", 1
        )
        print(*(line.rstrip()[:200] for line, _ in zip(lines, range(24), strict=False)), sep="\n")
    print(f"{len(old)} answers before, {len(new)} after, {len(differing)} differ")
    return 1 if differing else 0


def _texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def _demo(recorder: Recorder) -> Path:
    """Return the demo's store, made where there is none: what made it stays beside it, for the next record here."""
    store, said = recorder.folder / "site" / "demo.duckdb", recorder.folder / "demo.txt"
    if not said.exists():
        shutil.rmtree(store.parent, ignore_errors=True)
        store.parent.mkdir()
        (answer,) = recorder.ask(["demo", "--once", "--port", "0", "--store", str(store)])
        key = Ed25519PrivateKey.from_private_bytes(b"k" * 32)  # the same each time: profiles are signed by it
        file = store.with_name(f"{store.name}.profile.key")
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        file.chmod(0o600)
        said.write_text(answer)
    recorder.keep("commands", "demo", said.read_text())
    return store


def _names(recorder: Recorder, store: Path) -> dict[str, str]:
    """Return what the braces of the questions stand for."""

    def ids(command: str, kind: str) -> list[str]:
        (listed,) = recorder.ask([*command.split(), "--json", "--store", str(store)])
        return list(dict.fromkeys(re.findall(rf'"id": "({kind}-\w+)"', listed)))

    findings, recommendations = ids("findings --all", "f"), ids("recommendations --all", "r")
    return {
        "folder": str(recorder.folder),
        "finding": findings[0],
        "recommendation": recommendations[0],
        "other_recommendation": recommendations[1],
    }


def _commands(recorder: Recorder, store: Path, names: dict[str, str]) -> dict[str, str]:
    """Ask every command for its help and for what it reads; return the helps by the words of their commands."""
    helped = _asked(recorder, "commands", helps(SUBCOMMANDS), names, [])
    texts = {name.removeprefix("help ").strip(): answer for name, answer in helped.items()}
    shutil.rmtree(recorder.folder / "written", ignore_errors=True)
    _asked(recorder, "commands", reads(texts), names, ["--store", str(store)])
    for path in sorted((recorder.folder / "written").rglob("*.*")):
        body = path.read_bytes()
        text = sha256(body).hexdigest() if path.suffix == ".parquet" else body.decode()
        recorder.keep("written", path.relative_to(recorder.folder / "written").as_posix(), text)
    return texts


def _asked(
    recorder: Recorder, kind: str, questions: Iterable[Question], names: dict[str, str], more: list[str]
) -> dict[str, str]:
    """Ask, in a process for each group of questions, and keep the answers; return them by the questions' names."""
    groups: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        groups[question.group].append(question)

    def answers(group: list[Question]) -> list[str]:
        return recorder.ask(*([*(word.format(**names) for word in each.words), *more] for each in group))

    with ThreadPoolExecutor(CORES) as pool:
        found = list(zip(groups.values(), pool.map(answers, groups.values()), strict=True))
    told = {each.name: answer for group, of_it in found for each, answer in zip(group, of_it, strict=True)}
    for name, answer in told.items():
        recorder.keep(kind, name, answer)
    return told


def _changes(recorder: Recorder, store: Path, names: dict[str, str]) -> None:
    target = recorder.folder / "changed"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(store.parent, target)
    _asked(recorder, "changes", changes(), names, ["--store", str(target / store.name)])


@contextmanager
def _serving(recorder: Recorder, store: Path) -> Iterator[httpx.Client]:
    """Serve a copy of the store: a server writes."""
    target = recorder.folder / "served"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(store.parent, target)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [*LAUNCH, "serve", "--store", str(target / store.name), "--listen", address]
    with (recorder.folder / "server.log").open("w") as log:
        server = subprocess.Popen(command, env=recorder.env, cwd=recorder.folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        with httpx.Client(base_url=f"http://{address}", timeout=PATIENCE_SECONDS) as client:
            _until_settled(client, server)
            yield client
    finally:
        server.terminate()
        server.wait(PATIENCE_SECONDS)


def _until_settled(client: httpx.Client, server: "subprocess.Popen[bytes]") -> None:
    """Wait until the server has taken the store into its lake, and made its first pass and each job of its upkeep.

    None of them has a second turn, since the clock stands.
    """
    until = time.monotonic() + PATIENCE_SECONDS
    while server.poll() is None and time.monotonic() < until:
        time.sleep(1)
        with suppress(httpx.TransportError):
            page = client.get("/metrics").text
            due = re.findall(r"^gpuledger_upkeep_due_timestamp_seconds\{.*\} (\S+)$", page, re.MULTILINE)
            if due and all(map(float, due)) and "gpuledger_analysis_passes_total 1.0" in page:
                return
    raise SystemExit("the server did not settle: server.log says why")


def _server(recorder: Recorder, store: Path, names: dict[str, str], helped: dict[str, str]) -> None:
    """Ask a server its routes and its pages, and the commands that read of one."""
    with _serving(recorder, store) as client:
        spec = client.get("/v1/openapi.json").json()
        recorder.keep("api", "openapi", json.dumps(spec, indent=1, sort_keys=True))
        ids = {
            "run_id": client.get("/v1/runs", params={"limit": 1, "since": WEEK}).json()["items"][0]["run_id"],
            "finding_id": names["finding"],
            "advice_id": names["recommendation"],
            "request_id": "q-nothere",
        }
        for method, path in [*paths(spec, ids), *UNDOCUMENTED]:
            answer = client.request(method, path) if method == "GET" else client.request(method, path, json={})
            recorder.keep("api", f"{method} {path}", _answer(answer))
        for path, answer in crawled(client, SEEDS):
            recorder.keep("pages", path, _answer(answer))
        of_it = of_a_server(helped, str(client.base_url).rstrip("/"))
        _asked(recorder, "remote", of_it, names, [])


def _answer(answer: httpx.Response) -> str:
    kind = answer.headers.get("content-type", "")
    body = answer.text if "text" in kind or "json" in kind or "javascript" in kind else f"{len(answer.content)} bytes"
    return f"{answer.status_code} {kind}\n{body}"


def _tools(recorder: Recorder, store: Path, names: dict[str, str]) -> None:
    """Ask the assistant for its tools, and call each."""
    with _assistant(recorder, store) as call:
        for tool in call("tools/list", {})["tools"]:
            given = {"finding_id": names["finding"], "tasks": TASKS, "proposal": PROPOSAL}
            arguments = {name: given[name] for name in tool["inputSchema"].get("required", []) if name in given}
            answer = call("tools/call", {"name": tool["name"], "arguments": arguments})
            recorder.keep("tools", tool["name"], json.dumps([tool, answer], indent=1, sort_keys=True))


@contextmanager
def _assistant(recorder: Recorder, store: Path) -> Iterator[Callable[[str, dict[str, Any]], Any]]:
    """Yield what asks one child of the assistant in JSON-RPC, a line a call."""
    child = subprocess.Popen(
        [*LAUNCH, "assistant", "--store", str(store)], env=recorder.env, cwd=recorder.folder,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip

    def say(message: dict[str, Any]) -> None:
        assert child.stdin is not None
        child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        child.stdin.flush()

    def call(method: str, params: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever JSON can say
        assert child.stdout is not None
        say({"id": 1, "method": method, "params": params})
        answer = json.loads(child.stdout.readline())
        return answer.get("result", answer)

    with child:
        call("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT})
        say({"method": "notifications/initialized"})
        yield call
        assert child.stdin is not None
        child.stdin.close()


def main() -> int:
    """Read the arguments and make or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    what.add_parser("make").add_argument("folder", type=Path)
    both = what.add_parser("compare")
    both.add_argument("before", type=Path)
    both.add_argument("after", type=Path)
    options = parser.parse_args()
    return make(options.folder) if options.what == "make" else compare(options.before, options.after)


if __name__ == "__main__":
    sys.exit(main())
