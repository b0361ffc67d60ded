"""gpuledger admin analyze and what people say: one store at a time, and none that others share."""

from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.interfaces.cli.analyze import analyze
from analyzer.interfaces.cli.decisions import accept, judge, mute, reject
from collector.store.database import Store


def test_a_pass_over_a_store_without_news_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever runs it twice learns that the second time nothing was to be done."""
    path = tmp_path / "store.duckdb"
    Store.open(path).close()
    assert analyze(["--store", str(path)]) == 0
    assert capsys.readouterr().out == "nothing new: the ledger is up to date\n"


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "beside the store"])
def test_a_lake_that_hosts_share_is_left_to_those_who_take_turns(tmp_path: Path, *, is_named: bool) -> None:
    """The store's file has no samples then: a ledger made of it would say that nothing was ever seen.

    Nor does it have the books: what is said there alone nobody else would read.
    """
    path = tmp_path / "store.duckdb"
    Store.open(path).close()
    settings = tmp_path / ("site.toml" if is_named else "gpuledger.toml")
    settings.write_text('[collector]\nlake = "postgres:dbname=lake"\ndata = "s3://lake/samples"\n')
    where = ["--store", str(path), *(["--config", str(settings)] if is_named else [])]
    with pytest.raises(ConfigError, match="gpuledger serve --only analyzer"):
        analyze(where)
    why = ["--because", "it is so"]
    for say, words in (
        (judge, ["f-aaaaa", "wrong", *why]),
        (mute, ["f-aaaaa", "--until", "2030-01-01", *why]),
        (accept, ["r-aaaaa"]),
        (reject, ["r-aaaaa", *why]),
    ):
        with pytest.raises(ConfigError, match="--server URL"):
            say([*words, *where])
