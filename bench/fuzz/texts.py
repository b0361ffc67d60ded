"""Hostile texts for one door: the good one changed a little, or one that is large, deep or long in one of the ways in
which parsers take the square of their input.
"""

import random

from bench.fuzz.doors import Door

MOST_BYTES = 1_000_000
TOML_PIECES = (
    "a.", '"a".', "[a.b]\n", "[[a]]\n", "a={", "a=[", "1,", '"', '"""', "'''", "\\", "#", "\n", "a = 1\n", "=", "0x",
    "1:",
)  # fmt: skip
YAML_PIECES = (
    "[", "- ", "a: ", "? ", "&a ", "*a ", "!", "1:", "'", '"', "|\n", "a: 1\n", "{a: ", "---\n", "<<: ",
    "2001-01-01 ", "1_",
)  # fmt: skip
PIECES = {
    "toml": TOML_PIECES,
    "yaml": YAML_PIECES,
    "json": ("[", '{"a":', "1,", '"', "\\", "1", "-", "1e", "[],", '{"a":1},', "\\u0041", " ", "null,", "\n"),
    "csv": (",", '"', '""', "\n", "\r", "a,", "1,", "1e9", "9" * 40, "2026-11-01T00:00:00Z,", "\0", "10.0.0.0/8,n\n"),
    "form": ("&", "=", "%", "%2", "%00", "+", "a=1&", ";", "a" * 50),
    "cursor": ("W", "1", "=", "-", "_", "WyJ", "bnVsbA", "\n", "é"),
    "page": (" ", "{", "}", '"', "\\", "vllm:num_requests_running", 'a="b",', "1\n", "NaN\n", "# ", "\n", "1e999\n"),
    "head": ("\r\n", " ", ":", "a: b\r\n", "\0", "GET ", "HTTP/1.1", "a" * 50),
    "environment": ("\0", "=", "RANK=", "SLURM_JOB_ID=1\0", "GPULEDGER_RUN_ID=", "/", "a", "9", "--cluster-id=", " "),
}  # fmt: skip


class Texts:
    """Makes one hostile text after another."""

    def __init__(self, door: Door, dice: random.Random) -> None:
        self._good = door.good.encode()
        self._pieces = PIECES[door.language]
        self._dice = dice

    def next(self) -> bytes:
        """Return the next text, of a megabyte at most."""
        made = self._dice.choice((self._bytes, self._spliced, self._many, self._large, self._within))
        return made()[:MOST_BYTES]

    def _bytes(self) -> bytes:
        content = bytearray(self._good)
        for _ in range(self._dice.choice((1, 2, 8))):
            content[self._dice.randrange(len(content))] = self._dice.randrange(256)
        return bytes(content)

    def _spliced(self) -> bytes:
        """Return the good text with parts of it left out, doubled, or a piece between."""
        content = self._good
        for _ in range(self._dice.choice((1, 2, 8))):
            start, end = sorted(self._dice.randrange(len(content) + 1) for _ in range(2))
            between = self._dice.choice((b"", content[start:end] * 2, self._dice.choice(self._pieces).encode()))
            content = content[:start] + between + content[end:] or self._good
        return content

    def _many(self) -> bytes:
        return "".join(self._dice.choices(self._pieces, k=self._dice.choice((5, 50, 2000)))).encode()

    def _large(self) -> bytes:
        piece = "".join(self._dice.choices(self._pieces, k=self._dice.choice((1, 1, 2, 3))))
        return (piece * (self._dice.choice((10_000, 200_000, MOST_BYTES)) // len(piece))).encode()

    def _within(self) -> bytes:
        at = self._dice.randrange(len(self._good))
        return self._good[:at] + self._large() + self._good[at:]
