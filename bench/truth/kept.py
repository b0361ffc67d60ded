"""The raw numbers of the campaign as a file, and the README's section that is made of them."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from bench.machine import ROOT, kept
from bench.truth.scores import Scores, bars, is_sub_second
from bench.truth.tables import archetype_table, cause_table, confusion_table, score_table
from bench.truth.tally import Key, Tally

NAME = "truth"  # of its file among the results
README = ROOT / "bench" / "README.md"
BEGIN, END = "<!-- truth: made by bench/truth/kept.py -->", "<!-- truth: end -->"


@dataclass(frozen=True, slots=True)
class Campaign:
    """Everything that a campaign measured."""

    machine: Mapping[str, object]
    rules: str  # version of what judged
    seeds: Sequence[Mapping[str, object]]  # seed, runs, samples, seconds
    controls: Mapping[str, bool]
    tallies: dict[Key, Tally]

    def text(self) -> str:
        """Return the numbers as JSON, a line a cell: diffs stay readable."""
        head = {"machine": self.machine, "rules": self.rules, "seeds": self.seeds, "controls": self.controls}
        cells = ",\n".join(
            json.dumps([*key, _bare(tally)], separators=(",", ":"))
            for key, tally in sorted(self.tallies.items(), key=str)
        )
        return json.dumps(head, indent=1)[:-2] + ',\n "cells": [\n' + cells + "\n]}\n"

    @classmethod
    def read(cls, text: str | None = None) -> "Campaign":
        """Return what is in such a text, or else in the file that was recorded."""
        raw = kept(NAME) if text is None else json.loads(text)
        tallies = {}
        for *key, values in raw["cells"]:
            for name in ("findings", "causes", "confusion"):
                values[name] = Counter(values.get(name, {}))
            tallies[tuple(key)] = Tally(**values)
        return cls(raw["machine"], raw["rules"], raw["seeds"], raw["controls"], tallies)

    def held(self) -> dict[str, bool]:
        """Return every bar and control, and whether it is kept."""
        return bars(Scores.of(tally for key, tally in self.tallies.items() if not is_sub_second(key))) | dict(
            self.controls
        )

    def section(self) -> str:
        """Return the README's section of figures."""
        slow = [tally for key, tally in self.tallies.items() if not is_sub_second(key)]
        runs = sum(tally.runs for tally in self.tallies.values())
        lines = [f"- {'kept' if held else '**missed**'}: {bar}" for bar, held in self.held().items()]
        parts = (
            BEGIN,
            f"{runs:,} runs of {len({key[0] for key in self.tallies})} kinds, {len(self.seeds)} seeds, rules "
            f"{self.rules}, {self.machine['date']}:",
            score_table(self.tallies),
            "Bars, for steps of 1 s and more and runs without steps:",
            "\n".join(lines),
            "GPU-hours by what they truly were and what they are booked as (the same runs):",
            confusion_table(slow),
            "The causes of runs that are starved and were found so (all steps):",
            cause_table(self.tallies.values()),
            "By kind of run:",
            archetype_table(self.tallies),
            END,
        )
        return "\n\n".join(parts)

    def write_section(self, path: Path = README) -> None:
        """Put the section into the README, in the place of the last one."""
        text = path.read_text()
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        path.write_text(before + self.section() + after)


def _bare(tally: Tally) -> dict[str, object]:
    values = {field.name: getattr(tally, field.name) for field in fields(tally)}
    return {name: value for name, value in values.items() if value}
