"""The services file: what is wrong is said in one sentence, and what is right is counted from its date."""

import re
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.ledger.causes.serving_policy import PolicyBook, in_force
from analyzer.ledger.teams import RunIdentity

DAY = 86_400_000_000
JANUARY = 1_767_225_600_000_000  # 2026-01-01
DOCUMENT = Path(__file__).parents[3] / "docs" / "serving.md"
ROW = """
[[service]]
name = "chat"
minimum_replicas = 2
requests_per_second = 2.5
from = 2026-01-01
source = "load test"
"""


def book(path: Path, text: str) -> PolicyBook:
    """Read a file of this text."""
    file = path / "services.toml"
    file.write_text(text)
    return PolicyBook.read(file)


def test_a_row_is_read_in_whole_numbers(tmp_path: Path) -> None:
    """Two and a half requests a second are 2,500,000 millionths: no float decides anything."""
    (row,) = book(tmp_path, ROW).rows
    assert (row.requests_per_second_micros, row.busy_micros, row.standby_micros) == (2_500_000, None, 0)
    assert (row.look_back_hours, row.minimum_replicas, row.gpus_per_replica) == (24, 2, None)
    assert row.words == "row 1, since 2026-01-01: load test"


def test_the_first_row_that_fits_and_is_in_force_counts(tmp_path: Path) -> None:
    """A policy that ends leaves the service to the next row, or to none."""
    first = ROW.replace("source", "until = 2026-01-02\nsource")
    rows = book(tmp_path, first + ROW.replace('"chat"', '"cha*"').replace("2026-01-01", "2026-01-03")).of(
        RunIdentity("slurm/a/1", JANUARY, name="chat")
    )
    numbers = [row.number if row else None for row in (in_force(rows, JANUARY + day * DAY) for day in range(-1, 4))]
    assert numbers == [None, 1, None, 2, 2]
    assert book(tmp_path, ROW).of(RunIdentity("slurm/a/1", JANUARY, name="other")) == ()
    assert book(tmp_path, ROW).of(RunIdentity("slurm/a/1", JANUARY)) == ()  # None fits no pattern


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('name = "chat"', ""), "a service needs one of account, namespace"),
        (('name = "chat"', 'nam = "chat"'), "unknown key 'nam'; did you mean 'name'"),
        (("[[service]]", "[[services]]"), "unknown key 'services'; did you mean 'service'"),
        (("requests_per_second = 2.5", ""), "either 'requests_per_second' or 'busy_ratio'"),
        (("requests_per_second = 2.5", "requests_per_second = 2\nbusy_ratio = 0.5"), "either 'requests_per_second'"),
        (("requests_per_second = 2.5", "requests_per_second = 0"), "must be more than 0"),
        (("requests_per_second = 2.5", "busy_ratio = 60"), "is a share of time: it must not exceed 1"),
        (("requests_per_second = 2.5", "busy_ratio = true"), "must be a number"),
        (("minimum_replicas = 2", ""), "'minimum_replicas' must be a whole number; it is missing"),
        (("minimum_replicas = 2", "minimum_replicas = -1"), "'minimum_replicas' must be a whole number"),
        (("minimum_replicas = 2", "minimum_replicas = 2\nlook_back_hours = 200"), "must be 1 to 168, not 200"),
        (("minimum_replicas = 2", "minimum_replicas = 2\ngpus_per_replica = 0"), "must be 1 to 1,024, not 0"),
        (("minimum_replicas = 2", "minimum_replicas = 2\nslo_seconds = 0"), "must be more than 0"),
        (("from = 2026-01-01", ""), "'from' is missing"),
        (("from = 2026-01-01", "from = 2026-01-01T00:30:00Z"), "must be a whole hour in UTC"),
        (('source = "load test"', ""), "'source' is missing"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    """A policy that is read otherwise than meant accuses somebody."""
    with pytest.raises(ConfigError, match=re.escape(says)) as caught:
        book(tmp_path, ROW.replace(*change))
    assert "\n" not in str(caught.value)


def test_the_rules_version_follows_the_file(tmp_path: Path) -> None:
    """The ledger says by which policy it was made; without one, it says no more than before."""
    assert PolicyBook().rules_version("r") == "r"
    one = book(tmp_path, ROW).rules_version("r")
    assert one == book(tmp_path, "# a comment\n" + ROW).rules_version("r")
    assert one != book(tmp_path, ROW.replace("2.5", "2.6")).rules_version("r")


def test_the_examples_of_the_document_are_read(tmp_path: Path) -> None:
    """What it shows is what people copy."""
    examples = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    policies = [text for text in examples if "[[service]]" in text]
    assert policies
    for text in policies:
        assert book(tmp_path, text).rows
