"""What the product says of a case of tests/data/verdicts: read back from its own documents, as a person would."""

import io
import json
import runpy
import sys
from collections import defaultdict
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import gpuledger
from agent.wire.units import HOUR_MS

CASES = Path(__file__).parents[2] / "data" / "verdicts"
_DAY = ("--since", "2026-11-17", "--until", "2026-11-17")
INPUT_WORDS = ("loader", "storage", "preprocessing", "host to device")


@dataclass(frozen=True)
class Judged:
    """One case in a store of its own, analysed."""

    folder: Path
    run: str

    def asked(self, *command: str) -> Any:
        """Return the JSON document of a reading command."""
        return json.loads(_said(*command, "--json", *_store(self.folder)))

    @cached_property
    def hours(self) -> dict[str, float]:
        """GPU-hours of the run by state, and by state/cause."""
        found: dict[str, float] = defaultdict(float)
        for each in self.asked("report", "run", self.run)["timeline"]:
            hours = each["milliseconds"] / HOUR_MS
            found[each["state"]] += hours
            if each["cause"]:
                found[f"{each['state']}/{each['cause']}"] += hours
        return found

    def share(self, *states: str) -> float:
        """Return percent of the run's GPU time that these states (or state/causes) take."""
        whole = sum(hours for name, hours in self.hours.items() if "/" not in name)
        return 100 * sum(self.hours[name] for name in states) / whole

    def of(self, *states: str) -> float:
        """Return the GPU-hours that these states (or state/causes) take."""
        return sum(self.hours[name] for name in states)

    @cached_property
    def _findings(self) -> Any:
        return self.asked("findings", "--all", *_DAY)

    @cached_property
    def findings(self) -> dict[str, dict[str, Any]]:
        """Findings by state/cause."""
        return {f"{each['state']}/{each['cause']}": each for each in self._findings["findings"]}

    @cached_property
    def suspected(self) -> str:
        """The causes and sentences of all suspicions."""
        return "\n".join(f"{each['what']}: {each['sentence']}" for each in self._findings["suspicions"])

    @cached_property
    def notices(self) -> list[dict[str, Any]]:
        """Notices with their subjects and sentences."""
        return list(self._findings["notices"])

    @cached_property
    def said(self) -> str:
        """Every sentence of findings, suspicions and notices."""
        every = (*self._findings["findings"], *self._findings["suspicions"], *self.notices)
        return "\n".join(each.get("sentence") or json.dumps(each) for each in every).lower()

    @cached_property
    def advice(self) -> dict[str, Any]:
        """Recommendations by kind."""
        return {each["kind"]: each for each in self.asked("recommendations", "--all", *_DAY)["items"]}

    def suspects_input(self) -> bool:
        """True where a loader, storage, preprocessing or copies are named or suspected anywhere."""
        named = [each["sentence"] for each in self.notices] + [each["sentence"] for each in self._findings["findings"]]
        text = (self.suspected + "\n".join(named)).lower()
        return any(word in text for word in INPUT_WORDS) or any(name.startswith("starved") for name in self.findings)


def judged(case: str, run: str, folder: Path) -> Judged:
    """Write a case, import and analyse it, in a folder of its own."""
    _written(case, folder)
    _said("import", *(str(path) for path in sorted(folder.glob("*.parquet"))), "--store", str(folder / "s.duckdb"))
    _said("admin", "analyze", *_store(folder))
    return Judged(folder, run)


def _written(case: str, folder: Path) -> None:
    """Run the script of a case in this process: to start another takes longer than all that it writes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(CASES)
        patched.setattr(sys, "argv", [f"{case}.py", str(folder)])
        runpy.run_path(str(CASES / f"{case}.py"), run_name="__main__")


def _store(folder: Path) -> tuple[str, ...]:
    return "--store", str(folder / "s.duckdb"), "--config", str(folder / "gpuledger.toml")


def _said(*command: str) -> str:
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        status = gpuledger.main(list(command))
    assert status == 0, error.getvalue()
    return out.getvalue()
