"""The commands: files come out that verify offline, keys stay with their owner, and refusals are sentences."""

import re
import stat
from pathlib import Path

import pytest

from analyzer.analysis import analyze
from analyzer.capacity.profile.signature import key_at, read_profile
from analyzer.errors import AnalyzerError, ConfigError, LedgerError
from analyzer.interfaces.cli.capacity_profile import key, profile, verify
from analyzer.settings.settings import Settings
from collector.store.database import Store
from tests.analyzer.capacity.profile_small_site import settings
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet
from tests.analyzer.reports.example_recording import write_recording

TOML = '[analyzer]\ncluster = "alpha"\nprices = "prices.toml"\nteams = "teams.toml"\n'


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store on disk in which team nlp has one run of two GPUs."""
    path = tmp_path_factory.mktemp("site") / "site.duckdb"
    settings(path.parent)
    (path.parent / "gpuledger.toml").write_text(TOML)
    with Store.open(path) as opened:
        fleet = Fleet(opened)
        fleet.own("n1", ("GPU-0", "GPU-1"), purchase_option="reserved")
        fleet.hold("slurm/alpha/1", "n1", ("GPU-0", "GPU-1"), MONDAY, MONDAY + HOUR, account="nlp", name="sft")
        for gpu in ("GPU-0", "GPU-1"):
            fleet.sample("n1", gpu, MONDAY, MONDAY + HOUR, MINUTE)
        analyze(opened, Settings.beside(path), now_us=MONDAY + HOUR)
    return path


def test_a_profile_is_written_and_verified_by_who_lists_the_key(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole way, as a team, a collector and a reviewer go it."""
    out, keys = tmp_path / "p.html", tmp_path / "trusted.toml"
    assert profile(["--store", str(store), "--team", "nlp", "--runs", "1", "--out", str(out)]) == 0
    assert key(["--store", str(store)]) == 0
    keys.write_text(capsys.readouterr().out.split("\n", 1)[1])
    assert verify([str(out), "--keys", str(keys)]) == 0
    assert verify([str(out.with_suffix(".json")), "--keys", str(keys)]) == 0
    assert "valid: signed by alpha" in capsys.readouterr().out
    assert verify([str(out)]) == 1
    assert "unknown key" in capsys.readouterr().out
    out.write_text(out.read_text("utf-8").replace("nlp", "nlq", 1), "utf-8")
    assert verify([str(out), "--keys", str(keys)]) == 1
    assert "words of the page around it were edited" in capsys.readouterr().out


def test_the_request_says_whose_work_is_to_be_profiled(store: Path, tmp_path: Path) -> None:
    """One file for the profile and the gate; what it says is not said twice."""
    request = tmp_path / "request.toml"
    asked = {"team": '"nlp"', "gpus": "2", "sku": '"H100-80GB"', "weeks": "1", "starts": "2026-12-01", "why": '"more"'}
    request.write_text("\n".join(f"{key} = {value}" for key, value in asked.items()) + '\nwork = "sft"\n')
    by_request, by_hand = tmp_path / "a.json", tmp_path / "b.json"
    assert profile(["--store", str(store), "--request", str(request), "--out", str(by_request)]) == 0
    assert profile(["--store", str(store), "--team", "nlp", "--runs", "sft", "--out", str(by_hand)]) == 0
    one, other = (read_profile(path, ()).profile for path in (by_request, by_hand))
    assert (one.team, one.runs, one.chosen) == (other.team, other.runs, other.chosen)
    with pytest.raises(ConfigError, match="--request says team and runs"):
        profile(["--store", str(store), "--request", str(request), "--team", "nlp"])


def test_a_file_that_is_no_profile_is_not_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A reviewer's script looks at the exit code, a reviewer at the sentence."""
    file = tmp_path / "report.json"
    file.write_text('{"schema": "gpuledger/week", "report": {}}')
    assert verify([str(file)]) == 1
    assert capsys.readouterr().out.startswith("not valid: it has ")


def test_the_key_is_its_owners_alone(tmp_path: Path) -> None:
    """Who can read it can sign for the site."""
    path = tmp_path / "state" / "profile.key"
    made = key_at(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key_at(path).private_bytes_raw() == made.private_bytes_raw()
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="others may read the key"):
        key_at(path)


@pytest.mark.parametrize(
    "content", [b"", b"not a key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_a_file_that_is_no_key_is_named(tmp_path: Path, content: bytes) -> None:
    """A new key in its place would be one that nobody trusts."""
    path = tmp_path / "profile.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="is not a key that can sign profiles"):
        key_at(path)


def test_a_recording_becomes_a_self_measured_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one host, without any server; nobody may take it for a collector's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    recording = write_recording(tmp_path / "run.json", 45, waiting=True)
    out = tmp_path / "p.json"
    assert profile(["--recording", str(recording), "--price", "2.60", "--team", "nlp", "--out", str(out)]) == 0
    read = read_profile(out).profile
    assert (read.made.by, read.made.site, read.team) == ("run", "box", "nlp")
    assert (read.milliseconds, read.micros) == (3 * 3_600_000, 3 * 2_600_000)
    assert (read.holdings, read.free) == ((), ())
    assert read.caveats[0].startswith("Self-measured by gpuledger run on one host")
    assert read.data_path is not None
    assert read.data_path.limit == "preprocessing"
    assert [one.paste is not None for one in read.advice] == [True]
    assert stat.S_IMODE((tmp_path / "state" / "gpuledger" / "profile.key").stat().st_mode) == 0o600


def test_a_host_without_a_gpu_has_no_profile(tmp_path: Path) -> None:
    """There is nothing that more of it could be asked for by."""
    recording = write_recording(tmp_path / "run.json", 5, waiting=True, gpus=0)
    with pytest.raises(LedgerError, match="saw no GPU"):
        profile(["--recording", str(recording), "--out", str(tmp_path / "p.json")])


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "say of whom"),
        (["--team", "nlp", "--out", "p.pdf"], "neither .html, .txt nor .json"),
        (["--team", "nlp", "--price", "2"], "--price is of --recording"),
        (["--recording", "run.json", "--runs", "1"], "--runs is of a ledger"),
        (["--team", "nlp", "--server", "http://127.0.0.1:1", "--key", "k"], "a server signs with its own"),
    ],
)
def test_what_does_not_go_together_is_refused(argv: list[str], said: str) -> None:
    """Before anything is opened."""
    with pytest.raises(AnalyzerError, match=re.escape(said)):
        profile(argv)


def test_a_key_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    """A reader of somebody else's store signs with a key of his own."""
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ConfigError, match="profile_key in the settings, or --key"):
        key_at(tmp_path / "file" / "profile.key")
