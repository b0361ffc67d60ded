"""Recommendations as people and programs get them: screens, lines to paste, tickets, tables, one JSON schema."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.cli.report import recommendations
from analyzer.interfaces.questions.registry import answer, of_request
from analyzer.interfaces.text.recommendation_files import schema_text
from analyzer.interfaces.text.savings_text import bill_words, saving_column
from analyzer.ledger.coverage import Sku
from analyzer.recommendations.recommendation import (
    Artefact,
    Constraint,
    Latency,
    Move,
    Moving,
    Outlook,
    Placement,
    Range,
    Recommendation,
    RestartPart,
    Saved,
)
from analyzer.reports.reader import Reader
from analyzer.reports.recommendation_words import split_words
from analyzer.reports.request import Request
from collector.store.session import Session
from tests.analyzer.reports import example_week
from tests.analyzer.reports.test_reading import BERLIN, EXAMPLE

HOUR_MS = 3_600_000
DOLLAR = 1_000_000
SCHEMA = Path("docs/recommendation.schema.json")


def _money(*dollars: int) -> Range:
    return Range(*(amount * DOLLAR for amount in dollars))


def _hours(*hours: int) -> Range:
    return Range(*(amount * HOUR_MS for amount in hours))


def move() -> Recommendation:
    """Return a change with all that one can have: a service beside a training run is moved to hosts of its own."""
    (base,) = [one for one in example_week.recommendations() if one.id == "r-9td4"]
    here = Placement(("n14", "n15"), ("rack-2", "rack-2"), 16, "H100-80GB")
    there = Placement(("n06", "n07"), ("rack-1", "rack-1"), 16, "H100-80GB")
    parts = (
        RestartPart(
            "checkpoint_age", 600, measured=True, told="10 min of work, half of the time between its checkpoints"
        ),
        RestartPart("reload", 240, measured=True, told="4 min to load, as its own starts took"),
        RestartPart("queue", 600, measured=False, told="10 min in the queue, assumed"),
    )
    return replace(
        base,
        id="r-mvmvm",
        kind="split_serving",
        title="hosts of its own for ranker-serve",
        from_="2 hosts shared with pretrain-7b",
        to="n06, n07 (rack-1), which nobody shares",
        why="its requests wait while the ring of pretrain-7b is busy",
        saves_milliseconds=_hours(100, 150, 170),
        saves_micros=_money(260, 390, 442),
        freed=Saved(_hours(40, 60, 68), _money(104, 156, 177)),
        billed=Saved(_hours(60, 90, 102), _money(156, 234, 265)),
        cost_to_move="one restart of 16 GPUs: " + "; ".join(part.told for part in parts),
        cost_to_move_milliseconds=16 * 24 * 60_000,
        cost_to_move_micros=16_640_000,
        takes_effect="now",
        moving=Moving(16, parts),
        outlook=Outlook(running=True, remaining_seconds=9 * 86_400, recurs=0, told="until its time limit"),
        move=Move(here, there),
        constraints=(
            Constraint("GPUs", True, "16 H100-80GB wanted, 16 free on n06 and n07"),
            Constraint("rack", None, "rack-1: how much its uplink carries is not known"),
        ),
        latency=Latency(1.42, 0.85, 1.0, "as it was on Sunday, while the ring rested"),
        confidence="medium",
        sure_because="the loss is of high confidence; the share saved is assumed (ours), none realized yet",
        winners="both",
        losers="who would take n06 and n07 next",
        notice_ids=("n-abcde",),
        run_ids=("slurm/alpha/81001",),
        artefacts=(
            Artefact("slurm", "#SBATCH --exclusive\n#SBATCH --nodelist=n06,n07"),
            Artefact("kubernetes", "spec:\n  nodeSelector:\n    rack: rack-1"),
            Artefact("python", "serve(max_batch=8)"),
        ),
    )


@pytest.fixture
def reader(session: Session) -> Reader:
    """Return a reader of the example week with that change and three more: one rejects itself, one is a double."""
    few = [one for one in example_week.recommendations() if one.id in ("r-3mx8", "r-h5w1")]
    broken = replace(few[1], id="r-bkbkb", constraints=(Constraint("cores", False, "96 wanted, 64 there"),))
    double = replace(few[0], id="r-dbdbd", saves_micros=_money(1, 2, 3))
    loss_source = replace(EXAMPLE, recommendations=lambda *_: [move(), *few, broken, double])
    return Reader(session, BERLIN, loss_source)


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("recommend_few.txt", Request("recommend", ascii=True)),
        ("recommend_all.txt", Request("recommend", everything=True, ascii=True)),
        ("recommend.md", Request("recommend", everything=True, format="markdown")),
        ("recommend.csv", Request("recommend", everything=True, format="csv")),
        ("show_move.txt", Request("show", "r-mvmvm", ascii=True)),
        ("show_move.md", Request("show", "r-mvmvm", format="markdown")),
        ("show_move.json", Request("show", "r-mvmvm", format="json")),
        ("show_move.slurm", Request("show", "r-mvmvm", format="slurm")),
        ("show_move.yaml", Request("show", "r-mvmvm", format="kubernetes")),
        ("show_held_back.txt", Request("show", "r-bkbkb", ascii=True)),
    ],
)
def test_every_form_is_read_as_a_diff(
    reader: Reader, golden: Callable[[str, str], None], name: str, request_: Request
) -> None:
    """What people paste and file is the product's face too."""
    text = answer(reader, request_)
    if name.endswith(".txt"):
        assert max(map(len, text.splitlines())) <= request_.width
        assert text.isascii()
    golden(f"report/{name}", text)


def test_what_does_not_stand_is_neither_listed_nor_added_up_and_can_be_asked_for(reader: Reader) -> None:
    """A guard is not silent, and a double is not counted twice."""
    listed = answer(reader, Request("recommend", ascii=True))
    assert "3 recommendations" in listed
    assert "1 held back by a guard, 1 instead of a better one: --all says why" in listed
    assert "r-bkbkb" not in listed
    period = reader.period(None)
    assert [one.id for one in reader.advice(reader.findings(period), period)] == ["r-h5w1", "r-3mx8", "r-mvmvm"]
    assert "instead of r-h5w1" in answer(reader, Request("recommend", everything=True, ascii=True))
    assert "NOT NOW. Instead of r-h5w1" in answer(reader, Request("show", "r-dbdbd"))


def test_a_team_lead_asks_for_what_is_hers(reader: Reader) -> None:
    """Her list has its own sum; a team that the ledger has not is told so."""
    request = Request("recommend", team="team-nlp", ascii=True)
    with of_request(reader, request) as own:
        text = answer(own, request)
    assert text.startswith("2 recommendations for team team-nlp, week 2026-W46")
    assert "Together $1,412 per week" in text
    with pytest.raises(LedgerError, match="no run of team team-x"), of_request(reader, replace(request, team="team-x")):
        pass


def test_the_columns_and_the_parts_of_the_sum_add_up_on_the_page() -> None:
    """$1,022 and $390: $1,178 of it frees GPUs, and $234 leave the bill."""
    shown = [one for one in example_week.recommendations() if one.id == "r-3mx8"] + [move()]
    assert saving_column(shown, "USD") == (["$1,022", "$390"], "$1,412")
    fleet = (Sku("H100-80GB", "reserved", 128, example_week.W46.end), Sku("A100-80GB", "on_demand", 64))
    assert bill_words(shown, fleet, "USD", "Europe/Berlin") == (
        "$1,178 of it in GPUs freed for other work; the bill falls by $234 once they are handed back "
        "(64 A100 on demand). What is paid for either way stays: 128 H100 reserved until 15 Nov 2026."
    )
    assert bill_words(shown[:1], fleet[:1], "USD", "UTC") == (
        "GPUs freed for other work. The bill itself stays as it is (128 H100 reserved until 15 Nov 2026)."
    )


def test_what_a_saving_does_to_the_bill_is_the_same_for_every_reader() -> None:
    """A team may not see how the fleet is paid for: that is not known to it, and no reason to promise a lower bill."""
    fleet = (Sku("H100-80GB", "reserved", 128), Sku("A100-80GB", "owned", 64))
    for count in range(1, 6):
        shown = example_week.recommendations()[:count]
        whole, teams = (bill_words(shown, seen, "USD", "UTC") for seen in (fleet, ()))
        assert whole == "GPUs freed for other work. The bill itself stays as it is (128 H100 reserved, 64 A100 owned)."
        assert teams == (
            "GPUs freed for other work. The bill itself stays as it is; how the GPUs are paid for is not known to you."
        )
    assert "$234 once they are handed back." in bill_words([move()], (), "USD", "UTC")


def test_a_bill_of_gpus_that_nobody_says_how_they_are_paid_for_is_not_known() -> None:
    """To the platform team and to a team alike; what is known of it is at least so much."""
    shown = [replace(example_week.recommendations()[0], billed=None)]
    fleet = (Sku("H100-80GB", None, 29), Sku("A100-80GB", "on_demand", 64))
    for seen, named in ((fleet, " (29 H100 of unknown purchase)"), ((), "")):
        assert bill_words(shown, seen, "USD", "UTC") == (
            f"GPUs freed for other work. Whether the bill falls is not known, nor how they are paid for{named}."
        )
    assert bill_words([*shown, move()], fleet, "USD", "UTC") == (
        "the bill falls by at least $234 once they are handed back (64 A100 on demand); by how much more is not known, "
        "nor how the others are paid for (29 H100 of unknown purchase)."
    )
    assert "whether the bill falls is not known" in split_words(shown[0], "USD")


def test_lines_for_a_scheduler_are_nothing_but_lines(reader: Reader) -> None:
    """They are piped: whatever is no line of the scheduler's is a comment, whatever a user called the run."""
    evil = replace(move(), subject="x\nrm -rf /", title="y\x1b[2J")
    own = Reader(reader.session, BERLIN, replace(EXAMPLE, recommendations=lambda *_: [evil]))
    text = answer(own, Request("show", "r-mvmvm", format="slurm"))
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == []
    assert "\x1b" not in text
    with pytest.raises(LedgerError, match="has no lines for kubernetes; it has slurm"):
        answer(reader, Request("show", "r-3mx8", format="kubernetes"))
    with pytest.raises(ConfigError, match="has no form slurm; these have: show"):
        answer(reader, Request("week", format="slurm"))


def test_names_in_a_ticket_are_text(reader: Reader) -> None:
    """A run's name must not close a table, open a link or end a fence."""
    evil = replace(move(), subject="a | [x](http://y) <b>`", artefacts=(Artefact("slurm", "echo ```\n# done"),))
    own = Reader(reader.session, BERLIN, replace(EXAMPLE, recommendations=lambda *_: [evil]))
    text = answer(own, Request("show", "r-mvmvm", format="markdown"))
    assert r"a \| \[x\](http://y) \<b\>\`" in text
    assert "\n````bash\necho ```\n# done\n````\n" in text


def test_cells_are_no_formulas(reader: Reader) -> None:
    """A spreadsheet that opens the list must not compute what a user wrote."""
    evil = replace(move(), subject='=HYPERLINK("http://x")', team="@sum")
    own = Reader(reader.session, BERLIN, replace(EXAMPLE, recommendations=lambda *_: [evil]))
    (row,) = csv.DictReader(io.StringIO(answer(own, Request("recommend", format="csv"))))
    assert (row["subject"], row["team"]) == ('\'=HYPERLINK("http://x")', "'@sum")
    assert row["saves_micros_p50"] == str(390 * DOLLAR)


def test_the_json_is_what_the_schema_says(reader: Reader) -> None:
    """One model, field by field, for the list, for one of it, for the API and for the schema."""
    listed = json.loads(answer(reader, Request("recommend", everything=True, format="json")))
    made = {one.id: one for one in reader.offer(reader.period(None)).advice}
    head = ["schema", "version", "currency", "timezone", "period"]
    assert [*listed] == [*head, "items"]
    for item in listed["items"]:
        document = json.loads(answer(reader, Request("show", item["id"], format="json")))
        assert [*document] == [*head, "recommendation"]
        assert document["period"] == listed["period"]
        assert document["recommendation"] == item
        assert json.loads(TypeAdapter(Recommendation).dump_json(made[item["id"]])) == item
        assert set(item) == set(json.loads(SCHEMA.read_text())["properties"])


def test_the_published_schema_is_the_model_s(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs are written against the file; the command prints the same."""
    if request.config.getoption("--update-golden"):
        SCHEMA.write_text(schema_text())
    assert SCHEMA.read_text() == schema_text()
    assert recommendations(["--schema"]) == 0
    assert capsys.readouterr().out == schema_text()


def test_what_is_not_predicted_is_no_row_of_zeros(reader: Reader) -> None:
    """$0 / $0 / $0 would say that it saves nothing; nobody knows."""
    nothing = Range(0, 0, 0, 0, 0)
    here = Placement(("n14",), ("rack-2",), 8, "H100-80GB")
    unknown = replace(move(), saves_milliseconds=nothing, saves_micros=nothing, move=Move(here, here))
    own = Reader(reader.session, BERLIN, replace(EXAMPLE, recommendations=lambda *_: [unknown]))
    text = answer(own, Request("show", "r-mvmvm"))
    assert "saves         not predicted: try it and compare" in text
    assert "$0" not in text
    assert "MOVES         nothing; it stays: 8 H100-80GB on n14 (rack-2)" in text
