"""gpuledger capacity size as people type it: golden answers, and a sentence for each mistake."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.interfaces.cli.sizing import size
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.reports import example_week
from tests.dashboards.serving import served

PRICES = """
[[price]]
sku = "H100-80GB"
purchase_option = "reserved"
usd_per_gpu_hour = 2.60
from = 2026-01-01
source = "contract 4711"
as_of = 2026-11-01

[[price]]
sku = "L4-24GB"
purchase_option = "any"
usd_per_gpu_hour = 0.40
from = 2026-01-01
source = "contract 4711"
as_of = 2026-11-01
"""


@pytest.fixture
def prices(tmp_path: Path) -> str:
    """Return a price file of two kinds."""
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    return str(path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("qlora", ["llama-3-8b", "--for", "qlora", "--context", "2048"]),
        ("inference", ["mixtral-8x7b", "--for", "inference", "--precision", "int4", "--sequences", "16"]),
        ("full", ["llama-3-70b", "--for", "full", "--gpus", "64", "--sharding", "tensor=8,zero1"]),
        ("unknown", ["--parameters", "13B", "--for", "lora"]),
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_the_answer_is_as_it_was(
    name: str,
    words: list[str],
    form: str,
    prices: str,
    golden: Callable[[str, str], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In 80 columns and ASCII where it is piped; JSON of schema gpuledger/size."""
    assert size([*words, "--prices", prices, "--plain", "--width", "80", "--format", form]) == 0
    told = capsys.readouterr().out
    assert all(len(line) <= 80 for line in told.splitlines()) or form == "json"
    golden(f"sizing/{name}.{'txt' if form == 'text' else 'json'}", told)


def test_a_store_adds_its_fleet_and_its_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the fleet has, what was found, and by which word it was looked for."""
    path = tmp_path / "gpuledger.duckdb"
    with Store.open(path) as store, store.session() as session:
        example_week.fill(session)
        session.execute("UPDATE runs SET model = 'our-8b', exit_status = 'completed' WHERE name = 'llama-sft'")
    (tmp_path / "gpuledger.toml").write_text('[collector]\nlake = "none"\n')
    assert size(["llama-3-8b", "--for", "full", "--store", str(path), "--like", "our-8b", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["similar"]["by"] == "of the model our-8b"
    assert [run["name"] for run in report["similar"]["runs"]] == ["llama-sft"]
    owned = {fit["sku"] for fit in report["fits"] if fit["owned_gpus"]}
    assert owned == {"H100-80GB", "A100-80GB"}
    assert size(["llama-3-8b", "--for", "full", "--store", str(path), "--plain"]) == 0
    assert "SIMILAR RUNS\n  the ledger has none" in capsys.readouterr().out


def test_a_server_says_the_same_as_its_store(tmp_path: Path, capsys: pytest.CaptureFixture[str], prices: str) -> None:
    """Its fleet, its prices, its runs; and it has prices of its own."""
    path, words = tmp_path / "gpuledger.duckdb", ["llama-3-8b", "--for", "full", "--like", "our-8b", "--json"]
    with Store.open(path) as store, store.session() as session:
        example_week.fill(session)
        session.execute("UPDATE runs SET model = 'our-8b', exit_status = 'completed' WHERE name = 'llama-sft'")
    (tmp_path / "gpuledger.toml").write_text('[collector]\nlake = "none"\n[analyzer]\nprices = "prices.toml"\n')
    assert size([*words, "--store", str(path)]) == 0
    here = json.loads(capsys.readouterr().out)
    assert here["similar"]["runs"]
    assert {fit["price"]["source"] for fit in here["fits"] if fit["price"]} == {"site", "list"}
    config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), Settings.beside(path), analyze_seconds=None)
    with Store.open(path) as store, served(create_server(config, store)) as client:
        url = str(client.base_url)
        assert size([*words, "--server", url]) == 0
        assert json.loads(capsys.readouterr().out) == here
        with pytest.raises(ConfigError, match="leave --prices out"):
            size([*words, "--server", url, "--prices", prices])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--for", "full"], "name a model, such as llama-3-8b"),
        (["llama-9", "--for", "full"], "there is no model 'llama-9' in the table"),
        (["llama-3-8b", "--parameters", "8B", "--for", "full"], "is of the table"),
        (["llama-3-8b", "--layers", "8", "--for", "full"], "--layers is for one that is not"),
        (["--parameters", "many", "--for", "full"], "not a number of parameters"),
        (["--parameters", "8B", "--layers", "8", "--for", "full"], "say --layers and --hidden"),
        (["--parameters", "8B", "--layers", "0", "--hidden", "8", "--for", "full"], "--layers 0 must be"),
        (["--parameters", "7B", "--layers", "80", "--hidden", "8192", "--for", "full"], "which make 65.0 bn"),
        (["llama-3-8b", "--for", "full", "--gpus", "0"], "--gpus 0 must be"),
        (["llama-3-8b", "--for", "full", "--batch", "0"], "--batch 0 must be"),
        (["llama-3-8b", "--for", "full", "--context", "-1"], "--context -1 must be"),
        (["llama-3-8b", "--for", "inference", "--kv-precision", "nf4"], "use fp8, int8 or bf16"),
        (["llama-3-8b", "--for", "full", "--like", "x"], "say --store or --server too"),
        (["llama-3-8b", "--for", "full", "--gpus", "8", "--sharding", "sideways"], "cannot be read"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(words: list[str], why: str) -> None:
    """With what there is instead."""
    with pytest.raises(ConfigError, match=why):
        size(words)


def test_a_shape_makes_the_sum_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Without it batch and context have no say."""
    shape = ["--layers", "40", "--hidden", "5120", "--intermediate", "13824", "--kv-heads", "40"]
    size(["--parameters", "13015864320", *shape, "--for", "inference", "--json"])
    described = json.loads(capsys.readouterr().out)["memory"]
    size(["llama-2-13b", "--for", "inference", "--json"])
    named = json.loads(capsys.readouterr().out)["memory"]
    assert described == named
    assert named["is_whole"]
