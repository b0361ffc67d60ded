"""Make a record of all that the product says, or name what two records differ in: `make record ARGS="…"`.

    make record ARGS="make DIR"            about ten minutes on two cores
    make record ARGS="compare BEFORE AFTER"

A change that means to change nothing leaves no difference; of any other each difference is one that was meant. The
records lie outside the repository: they hold the demo's week and this machine's paths made neutral, nothing else.
"""

import argparse
import difflib
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.record.clock import standing
from bench.record.questions import Question, changes, forgotten, helps, reads
from bench.record.served import crawled, paths

Call = tuple[str, dict[str, Any]]  # a method of JSON-RPC and its parameters
ROOT = Path(__file__).parent.parent.parent
LAUNCH = [sys.executable, "-m", "gpuledger"]
WEEK = "2026-W46"
SUBCOMMANDS = {
    "report": ("week", "run", "traffic", "month", "units", "anomalies", "demand", "portfolio", "recording"),
    "access": ("list", "add", "rotate", "revoke", "join", "move-gpu", "erase-user", "audit"),
}
TASKS = """\
start: 2026-11-20T08:00
deadline: 2026-11-21T20:00
nodes:
  - {name: a1, slots: 8, rack: r1}
  - {name: a2, slots: 8, rack: r2}
tasks:
  - {name: prepare, duration: 2h, slots: 4}
  - {name: train, duration: 10h, slots: 8, after: [prepare]}
"""
# What differs between two records of the same code, and stands for nothing that anybody reads.
NEUTRAL = (
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), r"\1:PORT"),
    (re.compile(r"\bin \d+(\.\d+)? s\b"), "in SECONDS s"),
    (re.compile(r'nonce-?="?[\w+/=-]+'), "NONCE"),
    (re.compile(r'name="csrf" value="[^"]+"'), 'name="csrf"'),
)


@dataclass(frozen=True, slots=True)
class Recorder:
    """Where a record is made. `env` is that of the children, whose wall clock stands."""

    folder: Path
    env: dict[str, str]

    def keep(self, kind: str, name: str, text: str) -> None:
        """Write one answer below its kind, with what is of this machine made neutral."""
        text = text.replace(str(self.folder), "FOLDER").replace(str(ROOT), "ROOT")
        for pattern, instead in NEUTRAL:
            text = pattern.sub(instead, text)
        path = self.folder / "answers" / kind / (re.sub(r"[^\w.=-]+", "_", name).strip("_")[:180] or "root")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def ask(self, words: Iterable[str]) -> str:
        """Return the exit code and what a command printed on either stream."""
        done = subprocess.run(
            [*LAUNCH, *words],
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        errors = f"--- errors\n{done.stderr}" if done.stderr else ""
        return f"exit {done.returncode}\n{done.stdout}{errors}"


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
    _commands(recorder, store, names)
    _server(recorder, store, names)
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
    store = recorder.folder / "site" / "demo.duckdb"
    if not store.exists():
        store.parent.mkdir(exist_ok=True)
        answer = recorder.ask(["demo", "--once", "--port", "0", "--store", str(store)])
        recorder.keep("commands", "demo", answer)
    return store


def _names(recorder: Recorder, store: Path) -> dict[str, str]:
    """Return what the braces of the questions stand for."""

    def ids(command: str, kind: str) -> list[str]:
        listed = recorder.ask([*command.split(), "--json", "--store", str(store)])
        return list(dict.fromkeys(re.findall(rf'"id": "({kind}-\w+)"', listed)))

    findings, recommendations = ids("findings --all", "f"), ids("recommend --all", "r")
    return {
        "folder": str(recorder.folder),
        "finding": findings[0],
        "recommendation": recommendations[0],
        "other_recommendation": recommendations[1],
    }


def _commands(recorder: Recorder, store: Path, names: dict[str, str]) -> None:
    asked = list(helps(SUBCOMMANDS))
    with ThreadPoolExecutor(2) as pool:
        helped = dict(zip(asked, pool.map(lambda question: recorder.ask(question.words), asked), strict=True))
        for question, answer in helped.items():
            recorder.keep("commands", question.name, answer)
        texts = {question.name.removeprefix("help ").strip(): answer for question, answer in helped.items()}
        readings = list(reads(texts))
        for question, answer in zip(
            readings, pool.map(lambda one: recorder.ask(_filled(one, store, names)), readings), strict=True
        ):
            recorder.keep("commands", question.name, answer)
    for written in sorted(recorder.folder.glob("*.csv")):
        recorder.keep("exports", written.name, written.read_text())


def _changes(recorder: Recorder, store: Path, names: dict[str, str]) -> None:
    target = recorder.folder / "changed"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(store.parent, target)
    for question in changes():
        recorder.keep("changes", question.name, recorder.ask(_filled(question, target / store.name, names)))


def _filled(question: Question, store: Path, names: dict[str, str]) -> list[str]:
    return [*(word.format(**names) for word in question.words), "--store", str(store)]


@contextmanager
def _serving(recorder: Recorder, store: Path) -> Iterator[httpx.Client]:
    command = [*LAUNCH, "serve", "--store", str(store), "--listen", "127.0.0.1:0", "--analyze-every", "100000"]
    log = (recorder.folder / "server.log").open("w")
    server = subprocess.Popen(command, env=recorder.env, cwd=recorder.folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        with httpx.Client(base_url=_address(recorder.folder / "server.log", server), timeout=120) as client:
            yield client
    finally:
        server.terminate()
        server.wait(60)
        log.close()


def _address(log: Path, server: "subprocess.Popen[bytes]") -> str:
    for _ in range(1200):
        if found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text()):
            return found[0]
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit(f"the server did not say where it listens: {log.read_text()}")


def _server(recorder: Recorder, store: Path, names: dict[str, str]) -> None:
    """Ask a server on a copy of the store: its upkeep may write."""
    target = recorder.folder / "served"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(store.parent, target)
    with _serving(recorder, target / store.name) as client:
        spec = client.get("/v1/openapi.json").json()
        recorder.keep("api", "openapi", json.dumps(spec, indent=1, sort_keys=True))
        run = client.get("/v1/runs", params={"limit": 1, "since": WEEK}).json()["items"][0]["id"]
        ids = {
            "run_id": run,
            "finding_id": names["finding"],
            "advice_id": names["recommendation"],
            "request_id": "q-nothere",
        }
        for method, path in paths(spec, ids):
            answer = client.request(method, path) if method == "GET" else client.request(method, path, json={})
            recorder.keep("api", f"{method} {path}", _answer(answer))
        for path, answer in crawled(
            client, ["/", f"/?week={WEEK}", "/runs", "/money", "/placement", "/requests", "/health"]
        ):
            recorder.keep("pages", path, _answer(answer))


def _answer(answer: httpx.Response) -> str:
    kind = answer.headers.get("content-type", "")
    body = answer.text if "text" in kind or "json" in kind or "javascript" in kind else f"{len(answer.content)} bytes"
    return f"{answer.status_code} {kind}\n{body}"


def _tools(recorder: Recorder, store: Path, names: dict[str, str]) -> None:
    """Ask the assistant for its tools, and call each that needs no more than a finding's id."""
    calls: list[Call] = [
        (
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "r", "version": "1"}},
        )
    ]
    calls += [("tools/list", {})]
    listed = _spoken(recorder, store, calls)[-1]["result"]["tools"]
    for tool in listed:
        needed = tool["inputSchema"].get("required", [])
        given = {"finding_id": names["finding"], "by": "team"}
        arguments = {name: given[name] for name in needed if name in given}
        answers = _spoken(recorder, store, [calls[0], ("tools/call", {"name": tool["name"], "arguments": arguments})])
        recorder.keep("tools", tool["name"], json.dumps([tool, answers[-1]], indent=1, sort_keys=True))


def _spoken(recorder: Recorder, store: Path, calls: list[Call]) -> list[Any]:
    """Return the answers of one child of the assistant to calls in JSON-RPC, one a line."""
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": given})
        for n, (method, given) in enumerate(calls)
    ]
    lines.insert(1, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    command = [*LAUNCH, "assistant", "--store", str(store)]
    child = subprocess.Popen(
        command, env=recorder.env, cwd=recorder.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        answers = []
        for line in lines:
            child.stdin.write(line + "\n")
            child.stdin.flush()
            if '"id"' in line:
                answers.append(json.loads(child.stdout.readline()))
        child.stdin.close()
    return answers


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
