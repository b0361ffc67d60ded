"""What the product says of cases of tests/data/verdicts: read back from its own documents, as a person would."""

import json
import re
import runpy
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from agent.wire.units import HOUR_MS
from analyzer.ledger.coverage import TimelinePoint, timeline
from analyzer.reports.run import SPARK_POINTS
from collector.store.database import Store
from tests.operations.commands import said

CASES = Path(__file__).parents[2] / "data" / "verdicts"
_DAY = ("--since", "2026-11-17", "--until", "2026-11-17")
_PRICE = "[[price]]"
INPUT_WORDS = ("loader", "storage", "preprocessing", "host to device")


@dataclass(frozen=True)
class Site:
    """Cases side by side in one store, analysed by one pass; or one case that is alone there."""

    folder: Path
    cases: Sequence[str]

    def asked(self, *command: str) -> Any:
        """Return the JSON document of a reading command."""
        return json.loads(_said(*command, "--json", *_store(self.folder)))

    def timeline(self, run: str) -> Sequence[TimelinePoint]:
        """Return what the document of a run has as its timeline; the whole document takes ten times as long."""
        with Store.open(self.folder / "s.duckdb", read_only=True) as store, store.session() as session:
            return timeline(session, run, SPARK_POINTS)

    @cached_property
    def findings(self) -> Any:
        """The document of findings."""
        return self.asked("findings", "--all", *_DAY)

    @cached_property
    def advice(self) -> Any:
        """The document of recommendations."""
        return self.asked("recommendations", "--all", *_DAY)

    def own(self, case: str, every: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what is said of a case. Of several each entry is of one alone, which its hosts, GPUs or runs name."""
        if len(self.cases) == 1:
            return list(every)
        found = [(each, self._named(each)) for each in every]
        assert [each for each, named in found if len(named) != 1] == []
        return [each for each, named in found if named == [case]]

    def _named(self, entry: dict[str, Any]) -> list[str]:
        text = json.dumps(entry)
        return [case for case in self.cases if re.search(rf"\b{case.split('_')[0]}\d?\b", text)]


@dataclass(frozen=True)
class Judged:
    """One case in an analysed store."""

    site: Site
    case: str
    run: str

    def asked(self, *command: str) -> Any:
        """Return the JSON document of a reading command."""
        return self.site.asked(*command)

    @cached_property
    def hours(self) -> dict[str, float]:
        """GPU-hours of the run by state, and by state/cause."""
        found: dict[str, float] = defaultdict(float)
        for each in self.site.timeline(self.run):
            hours = each.milliseconds / HOUR_MS
            found[each.state] += hours
            if each.cause:
                found[f"{each.state}/{each.cause}"] += hours
        return found

    def share(self, *states: str) -> float:
        """Return percent of the run's GPU time that these states (or state/causes) take."""
        whole = sum(hours for name, hours in self.hours.items() if "/" not in name)
        return 100 * sum(self.hours[name] for name in states) / whole

    def of(self, *states: str) -> float:
        """Return the GPU-hours that these states (or state/causes) take."""
        return sum(self.hours[name] for name in states)

    def _found(self, kind: str) -> list[dict[str, Any]]:
        return self.site.own(self.case, self.site.findings[kind])

    @cached_property
    def findings(self) -> dict[str, dict[str, Any]]:
        """Findings by state/cause."""
        return {f"{each['state']}/{each['cause']}": each for each in self._found("findings")}

    @cached_property
    def suspected(self) -> str:
        """The causes and sentences of all suspicions."""
        return "\n".join(f"{each['what']}: {each['sentence']}" for each in self._found("suspicions"))

    @cached_property
    def notices(self) -> list[dict[str, Any]]:
        """Notices with their subjects and sentences."""
        return self._found("notices")

    @cached_property
    def said(self) -> str:
        """Every sentence of findings, suspicions and notices."""
        every = (*self._found("findings"), *self._found("suspicions"), *self.notices)
        return "\n".join(each.get("sentence") or json.dumps(each) for each in every).lower()

    @cached_property
    def advice(self) -> dict[str, Any]:
        """Recommendations by kind."""
        return {each["kind"]: each for each in self.site.own(self.case, self.site.advice["items"])}

    def suspects_input(self) -> bool:
        """True where a loader, storage, preprocessing or copies are named or suspected anywhere."""
        named = [each["sentence"] for each in self.notices] + [each["sentence"] for each in self._found("findings")]
        text = (self.suspected + "\n".join(named)).lower()
        return any(word in text for word in INPUT_WORDS) or any(name.startswith("starved") for name in self.findings)


def judged(cases: Sequence[str], folder: Path) -> Site:
    """Write cases, import them together and analyse them, in a folder of their own."""
    for case in cases:
        _written(case, folder / case)
    for name in sorted({path.name for path in folder.glob("*/*.parquet")}):
        parts = [parquet.read_table(path) for path in sorted(folder.glob(f"*/{name}"))]
        parquet.write_table(pyarrow.concat_tables(parts, promote_options="permissive"), folder / name)
    prices = [path.read_text().split(_PRICE) for path in sorted(folder.glob("*/prices.toml"))]
    each_once = dict.fromkeys(price.strip() for _, *of_case in prices for price in of_case)
    (folder / "prices.toml").write_text(_PRICE.join((prices[0][0], *(f"\n{price}\n" for price in each_once))))
    (folder / "gpuledger.toml").write_text((folder / cases[0] / "gpuledger.toml").read_text())
    _said("import", *(str(path) for path in sorted(folder.glob("*.parquet"))), "--store", str(folder / "s.duckdb"))
    _said("admin", "analyze", *_store(folder))
    return Site(folder, cases)


def _written(case: str, folder: Path) -> None:
    """Run the script of a case in this process: to start another takes longer than all that it writes."""
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(CASES)
        patched.setattr(sys, "argv", [f"{case}.py", str(folder)])
        runpy.run_path(str(CASES / f"{case}.py"), run_name="__main__")


def _store(folder: Path) -> tuple[str, ...]:
    return "--store", str(folder / "s.duckdb"), "--config", str(folder / "gpuledger.toml")


def _said(*command: str) -> str:
    status, out, error = said([*command])
    assert status == 0, error
    return out
