"""Which run a person means: people type the end of an id, or a name."""

from typing import TYPE_CHECKING

from analyzer.errors import LedgerError
from analyzer.text.words import plain

if TYPE_CHECKING:
    from collector.store.session import Session

CANDIDATES_SHOWN = 5
_NEAR = 0.85  # of 1: pretrian-7b for pretrain-7b is 0.98, vision-a for nlp-eval 0.5


def find_run(session: "Session", text: str) -> str:
    """Return the id of the run that a person means: the whole id, any unique end of it, a unique name, or `last`.

    Raises:
        LedgerError: no run, or several, answer to this text; the sentence names some.
    """
    if text == "last":
        newest = session.rows("SELECT run_id FROM runs ORDER BY started_at DESC NULLS LAST, run_id LIMIT 1")
        if not newest:
            raise LedgerError("the ledger knows no run yet: run gpuledger admin analyze")
        return str(newest[0][0])
    for condition in ("run_id = $text", "ends_with(run_id, '/' || $text)", "ends_with(run_id, $text)", "name = $text"):
        rows = session.rows(
            f"SELECT run_id FROM runs WHERE {condition} ORDER BY run_id LIMIT {CANDIDATES_SHOWN + 1}", {"text": text}
        )
        if len(rows) == 1:
            return str(rows[0][0])
        if rows:
            names = ", ".join(str(run_id) for (run_id,) in rows[:CANDIDATES_SHOWN])
            more = " and more" if len(rows) > CANDIDATES_SHOWN else ""
            raise LedgerError(f"several runs answer to {text!r}: {names}{more}; say more of the id")
    raise LedgerError(f"the ledger knows no run {text!r}{_nearest(session, text)}; gpuledger runs lists them")


def _nearest(session: "Session", text: str) -> str:
    """Return ", did you mean NAME?" where a run's name or the end of its id is near what was typed, else nothing."""
    near = session.rows(
        "SELECT candidate FROM "
        "(SELECT name AS candidate FROM runs UNION SELECT regexp_extract(run_id, '[^/]+$') FROM runs) "
        "WHERE jaro_winkler_similarity(lower(candidate), lower($text)) >= $least "
        "ORDER BY jaro_winkler_similarity(lower(candidate), lower($text)) DESC, candidate LIMIT 1",
        {"text": text, "least": _NEAR},
    )
    return f", did you mean {plain(str(near[0][0]))}?" if near else ""
