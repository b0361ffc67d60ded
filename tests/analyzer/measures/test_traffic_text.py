"""The section of a run's report: a few lines, what is estimated marked, and the matrix where that was asked for."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from analyzer.interfaces.questions.registry import answer
from analyzer.measures.traffic.run_traffic import RunTraffic, Waited, read_traffic
from analyzer.measures.traffic.tariff import TariffBook
from analyzer.measures.traffic.text import traffic_lines
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.text.layout import TextLayout
from tests.analyzer.ledger.fleet import DAY, Fleet, priced
from tests.analyzer.measures.traffic_small_runs import END, T, alternating, flows, host, links

RUN = "slurm/alpha/1"


def read(fleet: Fleet, tariffs: TariffBook | None = None) -> RunTraffic:
    """Return the traffic of the run, as a pass books it."""
    fleet.analyze()
    with fleet.store.session() as session:
        return read_traffic(session, [RUN], T, END, tariffs)[RUN]


def zones() -> Fleet:
    """Return twelve hosts in three racks and two zones, one of them shared, one of unknown links, one in doubt."""
    fleet = Fleet()
    for number in range(12):
        node, zone = f"n{number:02}", f"z{number % 2}"
        gpus = host(fleet, node, f"rack-{number % 3}", zone=zone, block=f"b-{zone}", region="eu")
        fleet.hold(RUN, node, gpus, T, END, rank=2 * number)
        if number != 7:
            links(fleet, node, "ethernet", 40_000_000, 40_000_000)
            links(fleet, node, "efa", 80_000_000_000, 80_000_000_000)
        flows(fleet, RUN, node, "52.216.1.1" if number == 5 else "nas1", 20_000_000, 90_000_000 if number == 9 else 0)
    fleet.hold("slurm/alpha/2", "n03", ["n03g1"], T, END)
    return fleet


def test_a_run_over_two_racks(golden: Callable[[str, str], None]) -> None:
    """What moved, how the ring lies, what that cost in GPU time, and what no flow explains."""
    traffic = replace(read(alternating()), waited=Waited(7_200_000, 5_200_000))
    golden("report/traffic.txt", "\n".join(traffic_lines(traffic, "USD", TextLayout(), whole=True)) + "\n")


def test_a_run_over_zones_is_folded_by_rack(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    """More than eight hosts are shown by rack; a tariff where there is one; doubts and gaps by name."""
    (tmp_path / "tariffs.toml").write_text('provider = "aws"\n')
    prices = TariffBook.read(tmp_path / "tariffs.toml")
    traffic = read(zones(), replace(prices, listed=tuple(replace(row, starts_at=0) for row in prices.listed)))
    golden("report/traffic_zones.txt", "\n".join(traffic_lines(traffic, "USD", TextLayout(), whole=True)) + "\n")


def test_nothing_is_said_where_nothing_was_told() -> None:
    """A run on two hosts whose agents know no links and no flows has no such section."""
    fleet = Fleet()
    for node in ("n0", "n1"):
        fleet.own(node, [f"{node}g0"])
        fleet.sample(node, f"{node}g0", T, END)
        fleet.hold(RUN, node, [f"{node}g0"], T, END)
    assert traffic_lines(read(fleet), "USD", TextLayout()) == []
    assert traffic_lines(None, "USD", TextLayout()) == []


@pytest.mark.parametrize(("whole", "least", "most"), [(False, 4, 7), (True, 10, 20)])
def test_the_report_of_a_run_has_a_few_lines_of_it(tmp_path: Path, whole: bool, least: int, most: int) -> None:
    """A heading and three to six lines; the matrix only for who asks."""
    fleet = alternating()
    settings = priced(tmp_path, H100_80GB=2.6)
    fleet.analyze(now=T + DAY, settings=settings)
    with fleet.store.session() as session:
        text = answer(Reader(session, settings), Request("run", "pretrain", traffic=whole))
        section = (
            text.split("\nTRAFFIC\n")[1].split("\nEFFICIENCY\n")[0].split("INSUFFICIENT DATA")[0].split("next:")[0]
        )
        assert least <= len(section.rstrip().splitlines()) + 1 <= most
        document = json.loads(answer(Reader(session, settings), Request("run", "pretrain", format="json")))
    traffic = document["traffic"]
    assert traffic["rings"][0]["crossings"] == 4
    assert sum(cell["bytes"] for cell in traffic["matrix"]["cells"]) > 0


def test_a_run_of_one_host_is_silent_unless_asked(tmp_path: Path) -> None:
    """Nothing about neighbours where there are none; who asks sees what it reads from elsewhere."""
    fleet = Fleet()
    gpus = host(fleet, "n0", "rack-1")
    fleet.hold(RUN, "n0", gpus, T, END)
    flows(fleet, RUN, "n0", "nas1", 5_000_000, 0)
    settings = priced(tmp_path, H100_80GB=2.6)
    fleet.analyze(now=T + DAY, settings=settings)
    with fleet.store.session() as session:
        assert "TRAFFIC" not in answer(Reader(session, settings), Request("run", "last"))
        asked = answer(Reader(session, settings), Request("run", "last", traffic=True))
    assert "outside the fleet 30.0 MB" in asked
