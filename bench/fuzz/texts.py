"""Hostile texts for what reads settings, prices, teams, requests, plans, profiles and messages: JSON, TOML and YAML.

Half are good ones that were changed a little, the others are large, deep or long in one of the ways in which parsers
take the square of their input.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.config import load as agent_settings
from agent.errors import AgentError
from agent.progress.message import parse as message
from analyzer.api.capacity_body import parsed as capacity_body
from analyzer.capacity.gate.request_file import parsed_file
from analyzer.capacity.profile.spelling import parsed as profile
from analyzer.config import Settings
from analyzer.errors import AnalyzerError
from analyzer.planning.task_reading import read_tasks
from analyzer.planning.validator.reading import read_proposal
from analyzer.pricing.site import priced
from analyzer.teams import TeamBook, labels_of
from collector.access.enrol import asked
from collector.config import load as collector_settings
from collector.errors import CollectorError

MOST_BYTES = 1_000_000
REFUSED = (AgentError, AnalyzerError, CollectorError)
GOOD = {
    "toml": '[collector]\nlisten = "127.0.0.1:1"\n[[price]]\nsku = "H100"\nusd_per_gpu_hour = 2.5\nfrom = 2026-01-01\n',
    "json": '{"team": "a", "gpus": 8, "work": ["x", "y"], "growth": 1.5, "steps": 5, "token": "t", "node": "n"}',
    "yaml": "tasks:\n  a:\n    gpus: 8\n    duration: 3 h\nnodes:\n  n: {gpus: 8}\n",
}
PIECES = {
    "toml": (
        "a.",
        '"a".',
        "[a.b]\n",
        "[[a]]\n",
        "a={",
        "a=[",
        "1,",
        '"',
        '"""',
        "'''",
        "\\",
        "#",
        "\n",
        "a = 1\n",
        "=",
        "0x",
        "1:",
    ),
    "json": ("[", '{"a":', "1,", '"', "\\", "1", "-", "1e", "[],", '{"a":1},', "\\u0041", " ", "null,"),
    "yaml": (
        "[",
        "- ",
        "a: ",
        "? ",
        "&a ",
        "*a ",
        "!",
        "1:",
        "'",
        '"',
        "|\n",
        "a: 1\n",
        "{a: ",
        "---\n",
        "<<: ",
        "2001-01-01 ",
        "1_",
    ),
}


@dataclass(frozen=True, slots=True)
class Door:
    """What reads one kind of text that others write; `take` gets it, and a folder for those that want a file."""

    name: str
    language: str
    take: Callable[[bytes, Path], object]


def _file(folder: Path, content: bytes, name: str) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


DOORS = (
    Door("agent.toml", "toml", lambda text, folder: agent_settings(_file(folder, text, "agent.toml"), {})),
    Door("collector.toml", "toml", lambda text, folder: collector_settings(_file(folder, text, "server.toml"), {})),
    Door("analyzer.toml", "toml", lambda text, folder: Settings.read(_file(folder, text, "site.toml"))),
    Door("teams.toml", "toml", lambda text, folder: TeamBook.read(_file(folder, text, "teams.toml"))),
    Door("prices.toml", "toml", lambda text, folder: priced("prices", text, folder=folder)),
    Door("request.toml", "toml", lambda text, folder: parsed_file(_file(folder, text[:65_536], "request.toml"))),
    Door("request.json", "json", lambda text, folder: parsed_file(_file(folder, text[:65_536], "request.json"))),
    Door("request.yaml", "yaml", lambda text, folder: parsed_file(_file(folder, text[:65_536], "request.yaml"))),
    Door("plan.yaml", "yaml", lambda text, _: read_tasks(text.decode("utf-8", "replace"), 0)),
    Door("proposal", "json", lambda text, _: read_proposal(text)),
    Door("profile", "json", lambda text, _: profile(text.decode("utf-8", "replace"))),
    Door("capacity request", "json", lambda text, _: capacity_body(text)),
    Door("enrolment", "json", lambda text, _: asked(text)),
    Door("progress", "json", lambda text, _: message(text)),
    Door("labels", "json", lambda text, _: labels_of(text.decode("utf-8", "replace"))),
)


class Texts:
    """Makes one hostile text after another, for a door by turns."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._number = 0

    def next(self) -> tuple[str, Door, bytes]:
        """Return the layer that was changed, the door that it is for, and the text."""
        door = DOORS[self._number % len(DOORS)]
        self._number += 1
        layer = self._dice.choice(("bytes", "pieces", "large", "large within"))
        made = {"bytes": self._bytes, "pieces": self._pieces, "large": self._large, "large within": self._within}
        return layer, door, made[layer](door.language)[:MOST_BYTES]

    def _bytes(self, language: str) -> bytes:
        content = bytearray(GOOD[language].encode())
        for _ in range(self._dice.choice((1, 2, 8))):
            content[self._dice.randrange(len(content))] = self._dice.randrange(256)
        return bytes(content)

    def _pieces(self, language: str) -> bytes:
        return "".join(self._dice.choices(PIECES[language], k=self._dice.choice((5, 50, 2000)))).encode()

    def _large(self, language: str) -> bytes:
        piece = "".join(self._dice.choices(PIECES[language], k=self._dice.choice((1, 1, 2, 3))))
        size = self._dice.choice((10_000, 200_000, MOST_BYTES))
        return (piece * (size // len(piece))).encode()

    def _within(self, language: str) -> bytes:
        good = GOOD[language]
        at = self._dice.randrange(len(good))
        return good[:at].encode() + self._large(language) + good[at:].encode()
