"""The commands that the documents show, as people copy them."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from gpuledger import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"\s*(?:\$ )?(?:sudo -u gpuledger )?(?:/opt/gpuledger/bin/|\.venv/bin/)?gpuledger (.*)")
_INLINE = re.compile(r"`(gpuledger [^`]+)`")
_SAYS = re.compile(r"\s+#\s|\s{3,}(?!--)|\s{2,}#")  # from here on a line explains its command
_FLAG = re.compile(r"(?<!\S)--[a-z][a-z-]*")


@dataclass(frozen=True, slots=True)
class Shown:
    """One command of one page, without the word gpuledger and without what explains it."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        """Its arguments, as a shell would split them; what a shell would write to a file is left out."""
        words = shlex.split(self.text)
        return words[: words.index(">")] if ">" in words else words

    @property
    def name(self) -> str:
        """The command of ours that it calls, the longest name first, or a group alone; empty for none."""
        plain = re.split(r"[^a-z ]", f"{self.text} ")[0].split()
        names = COMMANDS if len(plain) > 1 else {*COMMANDS, *(name.split()[0] for name in COMMANDS)}
        return next((name for count in (4, 3, 2, 1) if (name := " ".join(plain[:count])) in names), "")

    @property
    def flags(self) -> set[str]:
        """The flags that it names, without those of a command that it runs."""
        return set(_FLAG.findall(self.text.partition(" -- ")[0]))


def blocks(page: Path) -> list[Shown]:
    """Return the commands in a page's blocks, in their order."""
    found = []
    for block in _BLOCK.findall(page.read_text("utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            if match := _LINE.fullmatch(line):
                for part in match[1].split(" · "):
                    text = _SAYS.split(part.removeprefix("gpuledger ").strip(), maxsplit=1)[0]
                    found.append(Shown(page.name, text))
    return found


def first_yaml(page: Path) -> str:
    """Return a page's first block of YAML, as people copy it."""
    found = re.search(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page.name} has no block of yaml"
    return found[1]


def mentions(page: Path) -> list[Shown]:
    """Return the commands that a page's sentences name."""
    text = _BLOCK.sub("", page.read_text("utf-8"))
    return [Shown(page.name, " ".join(one.split()[1:])) for one in _INLINE.findall(text)]
