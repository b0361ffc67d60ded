"""A catalogue's rows become a price file only where it is clear what is paid; what is left out is counted."""

import tomllib
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.interfaces.cli.prices import bring
from analyzer.prices.catalogues import read_gpuhunt, read_skypilot
from analyzer.prices.price_book import PriceBook

# As in skypilot-org/skypilot-catalog catalogs/v8: Lambda's total memory is one GPU's, Nebius' is all GPUs'.
INFO = (
    "\"{{'Gpus': [{{'Name': '{0}', 'Manufacturer': '{3}', 'Count': {1}, 'MemoryInfo': {{'SizeInMiB': {2}}}}}],"
    " 'TotalGpuMemoryInMiB': {4}}}\""
)
HEAD = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice\n"
LAMBDA = f"gpu_8x_v100,V100,8.0,88.0,448.0,6.32,us-east-1,{INFO.format('V100', 8.0, 16384, 'NVIDIA', 16384)},\n"
NEBIUS = f"h100-8,H100,8,128,1600,23.60,eu-north1,{INFO.format('H100', 8, 81920, 'NVIDIA', 655360)},10.00\n"
NEBIUS_ONE = f"h100-1,H100,1,16,200,2.95,eu-north1,{INFO.format('H100', 1, 81920, 'NVIDIA', 81920)},1.25\n"
CPU = "cpu_4x,,,4.0,16.0,0.2,us-east-1,,\n"
HUNT_HEAD = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags\n"
HUNT = "p5.48xlarge,us-east-1,55.04,192,2048,8,H100,80.0,False,,nvidia,\n"
HUNT_SPOT = "p5.48xlarge,us-east-1,12.0001,192,2048,8,H100,80.0,True,,nvidia,\n"


def asked(path: Path, text: str, *more: str, form: str = "skypilot") -> list[str]:
    """Write a catalogue and return the command's words."""
    path.write_text(text)
    return [form, str(path), "--provider", "nebius", "--version", "0082b04", "--as-of", "2026-11-01", *more]


def test_a_price_is_one_gpus_and_so_is_its_memory(tmp_path: Path) -> None:
    """A node's price booked to each of its GPUs would be eight times too much, and 128 GB are no V100."""
    (tmp_path / "c.csv").write_text(HEAD + LAMBDA + NEBIUS)
    offers = read_skypilot(tmp_path / "c.csv").offers
    assert [(one.sku, one.purchase_option, one.micros_per_gpu_hour) for one in offers] == [
        ("V100-16GB", "on_demand", 790_000),
        ("H100-80GB", "on_demand", 2_950_000),
        ("H100-80GB", "spot", 1_250_000),
    ]
    (tmp_path / "g.csv").write_text(HUNT_HEAD + HUNT + HUNT_SPOT)
    offers = read_gpuhunt(tmp_path / "g.csv").offers
    assert [(one.sku, one.purchase_option, one.micros_per_gpu_hour) for one in offers] == [
        ("H100-80GB", "on_demand", 6_880_000),
        ("H100-80GB", "spot", 1_500_013),  # 1.5000125, to the nearest millionth
    ]


def test_the_rows_are_a_price_file_with_date_and_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed is read by what reads prices, and says which catalogue of which version said it."""
    assert bring(asked(tmp_path / "c.csv", HEAD + CPU + NEBIUS + NEBIUS_ONE, "--node-group", "h100")) == 0
    said = capsys.readouterr()
    (row,) = PriceBook.parse("prices.toml", said.out.encode()).rows
    assert (row.sku, row.node_group, row.provider, row.region) == ("H100-80GB", "h100", "nebius", "eu-north1")
    assert row.micros_per_gpu_hour == 2_950_000
    assert str(row.as_of) == "2026-11-01"
    assert row.source == "SkyPilot catalogue 0082b04: nebius h100-1 (and 1 more at this price), 2.95 per hour"
    assert "left out: 1 row, no GPU" in said.err
    assert "left out: 2 spot prices as of one moment" in said.err


def test_a_spot_price_has_an_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A catalogue read one moment of a market: it must not be carried on for ever."""
    words = asked(tmp_path / "g.csv", HUNT_HEAD + HUNT + HUNT_SPOT, "--spot", form="gpuhunt")
    with pytest.raises(ConfigError, match="--spot needs --until"):
        bring(words)
    capsys.readouterr()
    assert bring([*words, "--until", "2026-11-02"]) == 0
    (row,) = tomllib.loads(capsys.readouterr().out)["price"]
    assert (row["purchase_option"], str(row["until"])) == ("spot", "2026-11-02")


def test_what_is_paid_is_never_guessed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two regions, or two prices, are a question to whoever pays; the cheapest or the first would be an answer."""
    west = NEBIUS.replace("eu-north1", "eu-west1")
    dear = NEBIUS.replace("23.60", "24.00").replace("h100-8", "h100-8-dear")
    with pytest.raises(
        ConfigError, match=r"H100-80GB \(on_demand\) has more than one price: eu-north1 h100-8 2.95, eu-west1"
    ):
        bring(asked(tmp_path / "c.csv", HEAD + NEBIUS + west))
    with pytest.raises(ConfigError, match="say which is paid by --region"):
        bring(asked(tmp_path / "c.csv", HEAD + NEBIUS + dear))
    assert bring(asked(tmp_path / "c.csv", HEAD + NEBIUS + west, "--region", "eu-west1")) == 0
    assert bring(asked(tmp_path / "c.csv", HEAD + NEBIUS + dear, "--instance-type", "h100-8-dear")) == 0
    assert "usd_per_gpu_hour = 3.00" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="has no such offer; it has H100-80GB"):
        bring(asked(tmp_path / "c.csv", HEAD + NEBIUS, "--sku", "B200-180GB"))


def test_a_file_is_never_written_over(tmp_path: Path) -> None:
    """Prices are not merged in silence, and the site's own file least of all."""
    out = tmp_path / "new.toml"
    assert bring(asked(tmp_path / "c.csv", HEAD + NEBIUS, "--out", str(out))) == 0
    assert PriceBook.read(out).rows[0].micros_per_gpu_hour == 2_950_000
    with pytest.raises(ConfigError, match="already exists; name a new file"):
        bring(asked(tmp_path / "c.csv", HEAD + LAMBDA, "--out", str(out)))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (CPU, "no GPU"),
        (NEBIUS.replace("H100,8,", "H100,0,"), "no GPU"),
        (NEBIUS.replace("H100,8,", "A10,0.25,"), "a part of a GPU"),
        (NEBIUS.replace("H100,8,", "H100,5000,"), "more than 1,024 GPUs"),
        (NEBIUS.replace("H100,8,", "H100,-8,"), "no GPU"),
        (NEBIUS.replace("h100-8", ""), "an accelerator without its host"),
        (NEBIUS.replace("NVIDIA", "AMD"), "not NVIDIA"),
        (NEBIUS.replace("23.60", "nan"), "no price"),
        (NEBIUS.replace("23.60", "-23.60"), "no price"),
        (NEBIUS.replace("23.60", "0"), "no price"),
        (NEBIUS.replace("23.60", "1e300"), "no price"),
        (NEBIUS.replace("23.60", "1e-9999999999"), "no price"),
        (NEBIUS.replace("23.60", "").replace("10.00", ""), "no price"),
        (NEBIUS.replace("h100-8", "=HYPERLINK(1)"), "instance type that is not a valid name"),
        (NEBIUS.replace("eu-north1", "@SUM(1)"), "region that is not a valid name"),
        (NEBIUS.replace("eu-north1", "eu\x7fnorth"), "region that is not a valid name"),
        (NEBIUS.replace("{'Gpus'", "__import__('os').system('false') or {'Gpus'"), "GPU maker or memory not given"),
        (NEBIUS.replace("'Manufacturer': 'NVIDIA', ", ""), "GPU maker or memory not given"),
        (NEBIUS.replace("81920", "-81920"), "GPU memory not given"),
        (NEBIUS.replace("81920", "1e999"), "GPU memory not given"),
        ("h100-8,H100,8,1,1,1,eu,,\n", "GPU maker or memory not given"),
        ("h100-8,H100,8\n", "GPU maker or memory not given"),
    ],
)
def test_a_row_that_is_no_offer_is_left_out_and_counted(tmp_path: Path, row: str, reason: str) -> None:
    """A hostile or a broken row costs itself, and is told of."""
    (tmp_path / "c.csv").write_text(HEAD + row)
    found = read_skypilot(tmp_path / "c.csv")
    assert found.offers == []
    assert found.left_out == {reason: 1}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (HUNT.replace("nvidia", "amd"), "not NVIDIA"),
        (HUNT.replace("False", "perhaps"), "neither spot nor not"),
        (HUNT.replace("80.0", ""), "no GPU memory"),
        (HUNT.replace("8,H100", "8,"), "no GPU name"),
        (HUNT.replace("55.04", "inf"), "no price"),
    ],
)
def test_a_row_of_gpuhunt_that_is_no_offer_is_left_out(tmp_path: Path, row: str, reason: str) -> None:
    """The same of the other catalogue."""
    (tmp_path / "g.csv").write_text(HUNT_HEAD + row)
    found = read_gpuhunt(tmp_path / "g.csv")
    assert found.offers == []
    assert found.left_out == {reason: 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n", "is not such a catalogue: it has no column InstanceType"),
        (b"", "it has no column"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (HEAD.encode() + b'"' + b"x" * 200_000 + b'"\n', "is not valid CSV"),
    ],
)
def test_a_file_that_is_no_catalogue_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    """In one sentence that names it."""
    words = asked(tmp_path / "c.csv", "")
    (tmp_path / "c.csv").write_bytes(content)
    with pytest.raises(ConfigError) as refusal:
        bring(words)
    assert message in str(refusal.value)
    assert "c.csv" in str(refusal.value)


def test_names_that_are_asked_for_cannot_break_the_file(tmp_path: Path) -> None:
    """A quote in a version must not become a key of the price file."""
    words = asked(tmp_path / "c.csv", HEAD + NEBIUS)

    def naming(option: str, name: str) -> list[str]:
        place = words.index(option) + 1
        return [*words[:place], name, *words[place + 1 :]]

    for option in ("--provider", "--version"):
        for name in ("=a", "a\nb = 1"):
            with pytest.raises(ConfigError, match="is not a valid name"):
                bring(naming(option, name))
    assert bring([*naming("--version", 'x" # \\'), "--out", str(tmp_path / "new.toml")]) == 0
    assert 'x" # \\' in PriceBook.read(tmp_path / "new.toml").rows[0].source
    with pytest.raises(ConfigError, match="'until' must be later than 'from'"):
        bring([*words, "--until", "2026-10-01"])


def test_a_catalogue_in_gib_is_read_as_what_it_holds(tmp_path: Path) -> None:
    """RunPod's column is called SizeInMiB and holds GiB: no GPU has 80 MiB."""
    rows = [
        f"1x_A100-80GB,A100-80GB,1.0,8,117,1.50,CA,{INFO.format('A100 PCIe', 1, 80, 'Nvidia', 80)},1.00\n",
        f"8x_H100-SXM,H100-SXM,8.0,160,1500,24.00,CA,{INFO.format('H100 SXM', 8, 80, 'Nvidia', 640)},16.00\n",
    ]
    (tmp_path / "c.csv").write_text(HEAD + "".join(rows))
    offers = [one for one in read_skypilot(tmp_path / "c.csv").offers if one.purchase_option == "on_demand"]
    assert [(one.sku, one.micros_per_gpu_hour) for one in offers] == [
        ("A100-80GB", 1_500_000),
        ("H100-80GB", 3_000_000),
    ]


def test_a_catalogues_names_are_the_drivers(tmp_path: Path) -> None:
    """A row that is called as no agent calls its board prices nothing."""
    written = [
        ("L4", 4, 22888, "4.60"), ("L40S", 4, 45776, "10.49"), ("B200", 8, 183359, "113.93"),
        ("B300", 8, 268800, "120"), ("H100-SXM", 8, 81920, "24"), ("RTXPRO6000", 8, 98304, "36"),
        ("A6000", 4, 49152, "4.36"),
    ]  # fmt: skip
    rows = [
        f"i{place},{name},{count},48,192,{price},us-east-1,{INFO.format(name, count, mib, 'NVIDIA', mib * count)},\n"
        for place, (name, count, mib, price) in enumerate(written)
    ]
    (tmp_path / "c.csv").write_text(HEAD + "".join(rows))
    offers = read_skypilot(tmp_path / "c.csv").offers
    assert [(one.sku, one.micros_per_gpu_hour) for one in offers] == [
        ("L4-24GB", 1_150_000),
        ("L40S-48GB", 2_622_500),
        ("B200-180GB", 14_241_250),
        ("B300-270GB", 15_000_000),
        ("H100-80GB", 3_000_000),
        ("RTX-PRO-6000-Blackwell-96GB", 4_500_000),
        ("RTX-A6000-48GB", 1_090_000),
    ]
