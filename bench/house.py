"""How large the code is, how its names spread, and which rooms one week's report goes through.

`python -m bench.house STORE`, where `gpuledger demo --once --store STORE` has made one. Counted from the files as they
lie; the way of the report is what one `gpuledger report` really calls.
"""

import ast
import contextlib
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parent.parent
PACKAGES = ("agent", "simulator", "collector", "analyzer", "dashboards")
# One of each kind that CONTRIBUTING.md tells how to add: where are all the files that name it?
EXAMPLES = {
    "a cause of an existing state": r"\bsmall_kernels\b",
    "a question (command, route, document)": r"\bPORTFOLIO\b|\bportfolio_text\b",
    "a column of the ledger": r"\bwould_be\b",
}


def product() -> list[Path]:
    """Return every Python file that is shipped."""
    files = [ROOT / "gpuledger.py", *(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))]
    return sorted(path for path in files if "__pycache__" not in path.parts)


def public_names(path: Path) -> Iterator[str]:
    """Yield the names that a module gives to others."""
    for node in ast.parse(path.read_text("utf-8")).body:
        names = [node.name] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else []
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        yield from (name for name in names if not name.startswith("_"))


def naming(pattern: str) -> list[str]:
    """Return the files of the product that name something; the simulator's truth is the demo's."""
    places = [path for name in PACKAGES if name != "simulator" for path in (ROOT / name).rglob("*")]
    own = [path for path in places if path.suffix in (".py", ".sql")]
    return sorted(path.relative_to(ROOT).as_posix() for path in own if re.search(pattern, path.read_text("utf-8")))


def way_of(argv: Sequence[str]) -> list[str]:
    """Return the rooms that one command goes through, in order, as package/room; to stay in one is one step."""
    from gpuledger import main

    steps: list[str] = []

    def step(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and (room := _room_of(code.co_filename)) is not None:
            steps.append(room)

    kept = sys.argv
    try:
        sys.argv = ["gpuledger", *argv]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            sys.setprofile(step)
            main()
    finally:
        sys.setprofile(None)
        sys.argv = kept
    return [room for room, _ in groupby(steps)]


def _room_of(file: str) -> str | None:
    try:
        package, *rest = Path(file).relative_to(ROOT).parts
    except ValueError:
        return None
    return None if package not in PACKAGES else f"{package}/{rest[0] if len(rest) > 1 else ''}".rstrip("/")


def main(argv: list[str]) -> int:
    """Print the figures."""
    files = product()
    lines = {path: path.read_text("utf-8").count("\n") for path in files}
    names = Counter(name for path in files for name in set(public_names(path)))
    print(f"lines of Python: {sum(lines.values()):,} in {len(files):,} modules")
    heads = sum(path.name == "__init__.py" for path in files)
    small = sum(count < 60 for count in lines.values()) - heads
    print(f"  of them {heads} __init__.py, and {small:,} others of fewer than 60 lines")
    print(f"entries of analyzer/: {len([e for e in (ROOT / 'analyzer').iterdir() if not e.name.startswith('__')])}")
    tests = [path for name in ("tests", "bench") for path in (ROOT / name).rglob("*.py")]
    print(f"tests and bench: {sum(path.read_text('utf-8').count(chr(10)) for path in tests):,} lines")
    print(f"distinct public names: {len(names):,}; most often given: {names.most_common(5)}")
    for what, pattern in EXAMPLES.items():
        found = naming(pattern)
        print(f"files that name {what}: {len(found)}: {', '.join(found)}")
    if not argv:
        return 0
    way = way_of(["report", "--store", argv[0]])
    visits = Counter(way)
    own = sorted(room for room in visits if room.startswith("analyzer/"))
    print(f"rooms of the analyzer that `report` goes through: {len(own)}: {', '.join(own)}")
    print(f"  and of others: {', '.join(sorted(visits.keys() - set(own)))}")
    print(f"  steps from room to room: {sum(1 for _ in pairwise(way)):,}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
