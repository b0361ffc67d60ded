"""Hold every file, the wheel and every pinned package to a licence: python .ci/licences.py [WHEEL]; `make licences`.

REUSE.toml says whose a file is, NOTICE names the others, LICENSES/ has the texts, and .ci/packages.toml says what
packages do not say of themselves. Ends with 1 and names what has none, or what is named and is not there.
"""

import re
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

OURS = "2026 the gpuledger authors"
SHIPPED = "gpuledger/rooms/"
# What older metadata say, in SPDX's words. "BSD" alone is none: .ci/packages.toml says which.
WORDS = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
SPDX = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC-BY-4.0", "MIT", "MPL-2.0"}


@dataclass(frozen=True)
class Annotation:
    """An entry of REUSE.toml."""

    patterns: tuple[re.Pattern[str], ...]
    holders: tuple[str, ...]
    licence: str

    def names(self, file: str) -> bool:
        """Say whether it is of a file."""
        return any(pattern.fullmatch(file) for pattern in self.patterns)


def annotations(root: Path) -> list[Annotation]:
    """Return the entries in their order."""
    found = tomllib.loads((root / "REUSE.toml").read_text("utf-8"))["annotations"]
    return [
        Annotation(
            tuple(_pattern(glob) for glob in _several(one["path"])),
            _several(one["SPDX-FileCopyrightText"]),
            one["SPDX-License-Identifier"],
        )
        for one in found
    ]


def _several(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _pattern(glob: str) -> re.Pattern[str]:
    parts = (
        ".*" if part == "**" else "[^/]*" if part == "*" else re.escape(part) for part in re.split(r"(\*\*?)", glob)
    )
    return re.compile("".join(parts).replace(".*/", "(?:.*/)?"))


def ids(licence: str) -> set[str]:
    """Return the licences of an expression."""
    return set(re.split(r"[()\s]+|\bAND\b|\bOR\b|\bWITH\b", licence)) - {""}


def of_file(entries: Iterable[Annotation], file: str) -> Annotation | None:
    """Return the entry that counts for a file: the last that names it."""
    return next((entry for entry in reversed(list(entries)) if entry.names(file)), None)


def tracked(root: Path) -> list[str]:
    """Return every file of the repository, new ones too."""
    words = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own words
    return sorted({file for file in listed.split("\0") if file and (root / file).exists()})


def file_faults(root: Path, files: list[str], entries: list[Annotation]) -> Iterator[str]:
    """Yield what is wrong with files and with what is said of them."""
    yield from (f"{file}: no entry of REUSE.toml names it" for file in files if of_file(entries, file) is None)
    notice = (root / "NOTICE").read_text("utf-8")
    texts = {path.stem for path in (root / "LICENSES").glob("*.txt")}
    used = {name for entry in entries for name in ids(entry.licence)}
    yield from (f"LICENSES/{name}.txt: is not there" for name in sorted(used - texts))
    yield from (f"LICENSES/{name}.txt: nothing is under it" for name in sorted(texts - used))
    for entry in entries:
        for pattern in entry.patterns:
            if not any(pattern.fullmatch(file) for file in files):
                yield f"REUSE.toml: {pattern.pattern} names no file"
        yield from (f"NOTICE: does not name {holder}" for holder in entry.holders if holder not in notice)


def wheel_faults(wheel: Path, entries: list[Annotation]) -> Iterator[str]:
    """Yield what is wrong with a built wheel: files of nobody, and texts or words of licences that it lacks."""
    inside = zipfile.ZipFile(wheel)
    names = [name for name in inside.namelist() if not name.endswith("/")]
    needed: set[str] = set()
    for name in names:
        if ".dist-info/" in name:
            continue
        is_made = (name.startswith("gpuledger/") and not name.startswith(SHIPPED)) or ".data/data/share/" in name
        source = "gpuledger.py" if is_made else name.removeprefix(SHIPPED)  # share/ is made of its parsers
        entry = of_file(entries, source)
        if entry is None:
            yield f"{wheel.name}: {name}: no entry of REUSE.toml names it"
        else:
            needed |= ids(entry.licence)
    kept = {name.partition(".dist-info/licenses/")[2] for name in names}
    texts = {"LICENSE", "NOTICE", *(f"LICENSES/{name}.txt" for name in needed - {"Apache-2.0"})}
    yield from (f"{wheel.name}: {text} is not in it" for text in sorted(texts - kept))
    (about,) = [name for name in names if name.endswith(".dist-info/METADATA")]
    said = HeaderParser().parsestr(inside.read(about).decode())["License-Expression"] or ""
    if ids(said) != needed:
        yield f"{wheel.name}: says {said!r}, and its files are under {', '.join(sorted(needed))}"


def packages(root: Path, locks: str = "requirements*.lock") -> dict[str, str]:
    """Return the version of every package that the locks pin."""
    text = "".join(path.read_text("utf-8") for path in sorted(root.glob(locks)))
    return dict(sorted(set(re.findall(r"^([a-z0-9._-]+)==([^\s;]+)", text, re.MULTILINE))))


def licence_of(name: str, told: dict[str, str]) -> str | None:
    """Return a package's licence, by what was read of it or what it says itself; None where neither is one."""
    if name in told:
        return told[name]
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return None
    if expression := about.get_all("License-Expression"):
        return str(expression[0])
    classifiers = [each for each in about.get_all("Classifier") or [] if each.startswith("License")]
    said = [*(about.get_all("License") or []), *(each.rpartition(" :: ")[2] for each in classifiers)]
    found = {WORDS.get(word, word) for word in said} & SPDX
    return found.pop() if len(found) == 1 else None


def main(argv: list[str]) -> int:
    """Print what has no licence, or how many files and packages are under which."""
    root = Path(__file__).resolve().parents[1]
    entries, files = annotations(root), tracked(root)
    told = tomllib.loads((root / ".ci" / "packages.toml").read_text("utf-8"))
    pinned = packages(root)
    licences = {name: licence_of(name, told) for name in pinned}
    faults = [*file_faults(root, files, entries)]
    for wheel in argv:
        faults += wheel_faults(Path(wheel), entries)
    faults += [
        f"{name} {pinned[name]}: no licence; read it, and write it into .ci/packages.toml"
        for name, said in licences.items()
        if said is None
    ]
    faults += [f".ci/packages.toml: {name} is in no lock" for name in sorted(told.keys() - pinned.keys())]
    if faults:
        print("\n".join(faults))
        return 1
    for what, counted in (
        ("files", Counter(entry.licence for file in files if (entry := of_file(entries, file)))),
        ("packages", Counter(said for said in licences.values() if said)),
    ):
        print(
            f"{sum(counted.values()):,} {what}: "
            + ", ".join(f"{count:,} {name}" for name, count in counted.most_common())
        )
    print(f"{len(argv)} wheel, {len(list((root / 'LICENSES').glob('*.txt')))} texts; unresolved: 0")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
