"""The portfolio: the word follows what the GPUs did, and what was not measured gets none."""

from analyzer.finops.portfolio import Workload, portfolio, portfolio_text, review
from analyzer.period import Calendar
from analyzer.text.layout import TextLayout
from tests.analyzer.finops.unit_cost_written import HOUR, MONDAY, WEEK, Written

HOUR_MS = 3_600_000


def workload(useful: int = 0, avoidable: int = 0, idle: int = 0, unobserved: int = 0, other: int = 0) -> Workload:
    """Return a workload of so many hours of each; what is idle is avoidable too."""
    hours = useful + avoidable + unobserved + other
    parts = (hours, useful, avoidable, idle, unobserved)
    whole, *rest = (part * HOUR_MS for part in parts)
    return Workload("train", "nlp", "training", 1, ("H100",), whole, None, *rest)


def word(each: Workload, *kinds: str) -> str:
    """Return the word on it, where changes of these kinds are recommended."""
    advice: dict[tuple[str, str | None], list[tuple[str, str]]] = {
        ("train", "nlp"): [(f"r-{n}", kind) for n, kind in enumerate(kinds)]
    }
    return review([each], {}, advice)[0].word


def test_the_word_follows_what_the_gpus_did() -> None:
    """Each bar from either side: a review is argued over at its edges."""
    assert word(workload(useful=50, avoidable=50, idle=50)) == "retire?"
    assert word(workload(useful=51, avoidable=49, idle=49)) == "fix first"
    assert word(workload(useful=81, avoidable=19)) == "earns"
    assert word(workload(useful=80, avoidable=20)) == "fix first"
    assert word(workload(useful=59, avoidable=1, other=40)) == "look"


def test_a_smaller_place_goes_before_praise() -> None:
    """It works well, on a GPU of which it uses a tenth."""
    assert word(workload(useful=95, other=5), "share_mig") == "shrink"
    assert word(workload(useful=95, other=5), "reorder_ranks") == "earns"


def test_what_was_not_measured_gets_no_word_but_look() -> None:
    """Silence is neither waste nor work."""
    assert word(workload(useful=10, unobserved=11)) == "look"
    assert word(workload(unobserved=5)) == "look"


def test_a_ledger_is_read_by_name() -> None:
    """Runs of one name are one workload, dearest first; the sentence sums them."""
    written = Written()
    written.know(MONDAY, MONDAY + WEEK)
    for number in range(3):
        written.run(f"slurm/a/{number}", "sweep", "vision")
        written.book(f"slurm/a/{number}", range(MONDAY, MONDAY + 10 * HOUR, HOUR), lambda _: 2.0)
    written.run("slurm/a/9", "forgotten", None)
    written.book("slurm/a/9", range(MONDAY, MONDAY + 30 * HOUR, HOUR), lambda _: 1.0, "held_idle")
    calendar = Calendar("UTC")
    with written.store.session() as session:
        found = portfolio(session, calendar.week_of(MONDAY), calendar, "USD", [])
    assert [(one.workload.name, one.workload.runs, one.word) for one in found.reviewed] == [
        ("sweep", 3, "earns"),
        ("forgotten", 1, "retire?"),
    ]
    text = portfolio_text(found, TextLayout(80))
    assert '2 workloads: 1 "retire?" ($60), 1 "earns" ($120).' in text
    assert [line.split() for line in text.splitlines() if line.startswith("  total")] == [["total", "90", "180"]]
    assert text.index("forgotten") < text.index("sweep")
    assert all(len(line) <= 80 for line in text.splitlines())
    fewer = portfolio_text(found, TextLayout(80), top=1).splitlines()
    (rest,) = (line for line in fewer if "1 other" in line)
    assert rest.split()[-1] == "60", "with the rest in a row of its own, the column sums to the first line"
