"""What is said and pasted of changes: the rows of changes.toml, filled with figures whose units are format specs.

`{gpus:#GPU}` counts, `{memory:gib}`, `{idle:length}`, `{share:percent}` and `{hosts:some}` write a figure or names as
every sentence does. In lines to paste a text stands as one line, whatever a user called a run; `:word`, `:words` and
`:names` quote it for a shell, and `:text` takes lines that were made elsewhere as they are.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

from analyzer.recommendations.artefacts import joined_names, remark, scheduler, shell_word, shell_words
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.recommendation import Artefact, Form
from analyzer.recommendations.site import Placed, Site
from analyzer.recommendations.types.checks import latency
from analyzer.text.words import brief_percent, counted, gib, length_of_time, shipped_words, some

_TABLE = Path(__file__).with_name("changes.toml")
_FIELDS = {"from": "from_", "cost": "cost_to_move"}
_PLACES = ("moved", "moved_away")  # rows of every move to other hosts, whatever its kind
_SCHEDULERS = ("slurm", "kubernetes", "rankfile")
_UNITS: Mapping[str, Callable[[Any], str]] = {
    "gib": gib,
    "length": length_of_time,
    "percent": brief_percent,
    "some": lambda names: some(list(names)),
    "listed": ",".join,
    "word": shell_word,
    "words": shell_words,
    "names": joined_names,
    "text": str,
}


class _Sentences(Formatter):
    """Fills sentences."""

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401 - as Formatter has it
        if format_spec.startswith("#"):
            return counted(value, format_spec[1:])
        unit = _UNITS.get(format_spec)
        return str(super().format_field(value, format_spec)) if unit is None else unit(value)


class _Lines(_Sentences):
    """Fills lines to paste: no text writes a line of its own."""

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401 - as Formatter has it
        told = super().format_field(value, format_spec)
        return remark(told) if format_spec in ("", "some", "listed") else told


def rows(table: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of a table of changes.toml by name: "change", or "lines"."""
    return shipped_words(_TABLE)[table]


def kinds() -> frozenset[str]:
    """Return all kinds of change that a finding, a notice, a plan or a look at the fleet proposes (docs/changes.md)."""
    return frozenset(row.get("kind", name) for name, row in rows("change").items() if name not in _PLACES)


def proposal_of(
    *names: str,
    facts: Mapping[str, object],
    served: tuple[Site, Sequence[Placed]] | None = None,
    after_seconds: float | None = None,
    **more: Any,  # noqa: ANN401 - fields of Proposal
) -> Proposal:
    """Return the proposal that rows word, the first that has a field; `more` are its other fields.

    Where a row has words for `latency`, and the runs `served` by it serve requests, their wait is told as well.
    """
    row: dict[str, Any] = {}
    for name in reversed(names):
        row |= rows("change")[name]
    told = {
        _FIELDS.get(name, name): _Sentences().vformat(value, (), facts) if isinstance(value, str) else value
        for name, value in row.items()
    }
    expected = told.pop("latency", None)
    if served is not None and expected is not None:
        more["latency"] = latency(*served, after_seconds, expected)
    return Proposal(**{"kind": names[0]} | told | more)


def lines(name: str, of: Placed | Iterable[str], **facts: object) -> tuple[Artefact, ...]:
    """Return the texts to paste of a row: those of the run's own scheduler (or of these), and those of no scheduler."""
    known = {scheduler(of.run_id)} if isinstance(of, Placed) else set(of)
    facts["placed"] = of
    return tuple(
        Artefact(form, _Lines().vformat(text, (), facts))
        for form, text in _forms(rows("lines")[name]).items()
        if form not in _SCHEDULERS or ("slurm" if form == "rankfile" else form) in known
    )


def _forms(row: Mapping[str, Any]) -> Mapping[Form, str]:
    return {form: text.strip("\n") for form, text in row.items()}  # type: ignore[misc]  # a test holds the table
