"""A month that is final, one that is open, and files of prices, teams and services that somebody edits."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analyzer.finops.charges.report import ChargesReport, charge_csv, charge_data, charges_report
from analyzer.finops.charges.sums import Bearer
from analyzer.finops.focus.columns import Issuer
from analyzer.finops.focus.export import ExportOptions, export_csv, export_focus
from analyzer.finops.non_gpu_costs.costs import read_costs
from analyzer.finops.non_gpu_costs.text import costs_data
from analyzer.queries.ledger_query import ledger_source
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings
from collector.store.database import Store
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet

DECEMBER = MONDAY + 21 * DAY  # 2025-12-01 00:00 UTC
BEGINS, ENDS = DECEMBER - 3 * HOUR, DECEMBER + 2 * HOUR
FINAL = DECEMBER + 9 * DAY  # November is final, December is not
TRAIN, SERVE, OTHER = "slurm/alpha/1", "slurm/alpha/2", "slurm/alpha/3"


WORK: dict[str, Any] = {"utilization_ratio": 0.6, "sm_active_ratio": 0.4}


@dataclass(frozen=True)
class Rules:
    """What the operator's files say: prices and rates in thousandths of a dollar, None is no row."""

    price: int = 2_600
    rate: int | None = None
    rate_of: str = "nlp"
    nlp: tuple[str, str | None] = ("nlp", "4711")
    vision: str | None = "vision"
    reserve: int | None = None
    per_kwh: int | None = None  # thousandths; with it each host group has its own
    per_gb: int | None = None  # between zones

    def settings(self, folder: Path) -> Settings:
        """Write the files and return the settings that name them."""
        folder.mkdir(exist_ok=True)
        said = f'sku = "H100-80GB"\npurchase_option = "any"\nusd_per_gpu_hour = {self.price / 1000}\n'
        dated = 'from = 2020-01-01\nas_of = 2025-01-01\nsource = "test"\n'
        prices = f"[[price]]\n{said}{dated}"
        if self.rate is not None:
            prices += f'[[charge]]\nteam = "{self.rate_of}"\nusd_per_gpu_hour = {self.rate / 1000}\n{dated}'
        for group, more in (("a", 0), ("b", 7), (None, 13)):
            if self.per_kwh is not None:
                named = f'node_group = "{group}"\n' if group else ""
                per_kwh = f"usd_per_kwh = {(self.per_kwh + more) / 1000}\n"
                prices += f"[[energy]]\n{named}{per_kwh}pue = 1.3\ngrams_per_kwh = 381\n{dated}"
                prices += f"[[host]]\n{named}usd_per_core_hour = {(self.per_kwh + more) / 1000}\n"
                prices += f"usd_per_gib_hour = 0.001\n{dated}"
        if self.per_kwh is not None:
            prices += f'[[storage]]\nname = "scratch"\ngib = 500\nusd_per_gib_month = {self.per_kwh / 1000}\n{dated}'
        (folder / "prices.toml").write_text(prices)
        centre = "" if self.nlp[1] is None else f'cost_centre = "{self.nlp[1]}"\n'
        teams = f'[[rule]]\nteam = "{self.nlp[0]}"\n{centre}account = "nlp"\nfrom = 2020-01-01\n'
        if self.vision is not None:
            teams += f'[[rule]]\nteam = "{self.vision}"\nuser = "alice"\nfrom = 2020-01-01\n'
        (folder / "teams.toml").write_text(teams)
        settings = Settings(prices=folder / "prices.toml", teams=folder / "teams.toml")
        if self.per_gb is not None:
            between = f'[[tariff]]\nbetween = "zones"\nusd_per_gb = {self.per_gb / 1000}\ncharged_to = "both"\n{dated}'
            (folder / "tariffs.toml").write_text(f'provider = "aws"\n{between}')
            settings = replace(settings, tariffs=folder / "tariffs.toml")
        if self.reserve is None:
            return settings
        dated = 'from = 2020-01-01\nsource = "test"\n'
        services = f'[[service]]\nname = "ranker-*"\nminimum_replicas = {self.reserve}\nbusy_ratio = 0.6\n{dated}'
        (folder / "services.toml").write_text(services)
        return replace(settings, services=folder / "services.toml")


def place(node: str, group: str, at: int) -> dict[str, object]:
    """Return what a host's inventory says of where it stands from a time on."""
    cores = 64 if group == "a" else 128
    where = {"node_group": group, "rack": f"rack-{group}", "zone": f"zone-{group}", "region": "region-1"}
    told = {"cpu_cores": cores, "host_memory_bytes": cores << 30, "started_at": at, "ended_at": at + 1}
    return {"node": node, **where, **told}


def fleet(store: Store | None = None) -> Fleet:
    """Three GPUs around the end of November: a job that ends, a service that goes on, work of a third in December."""
    made = Fleet(store)
    gpus = ("g1", "g2", "g3")
    with made.together():
        made.own("n1", gpus, purchase_option="reserved")
        for gpu in ("g1", "g3"):
            made.sample("n1", gpu, BEGINS, ENDS, every=HOUR // 4, energy_joules=90_000.5, **WORK)
        made.add("inventory", [place("n1", "a", BEGINS), place("n2", "b", BEGINS)])
        idle = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}
        idle["memory_used_bytes"] = 60_000_000_000
        made.sample("n1", "g2", BEGINS, ENDS, every=HOUR // 4, energy_joules=9_000.0, **idle)
        made.hold(TRAIN, "n1", ["g1"], BEGINS, DECEMBER - HOUR, account="nlp", user="alice", name="train-bob")
        made.hold(SERVE, "n1", ["g2"], BEGINS + HOUR // 3, account="nlp", user="carol", name="ranker-serve")
        for at in range(BEGINS + HOUR, ENDS, HOUR // 2):
            sent = {"run_id": SERVE, "peer": "n2", "receive_bytes": 7_000_000_001, "transmit_bytes": 3_000_000_000}
            made.add("flow_samples", [{"node": "n1", "started_at": at, "ended_at": at + HOUR // 2, **sent}])
        made.hold(OTHER, "n1", ["g3"], DECEMBER - HOUR // 7, ENDS, account="x", user="alice", name="eval", project="p")
    return made


@dataclass(frozen=True)
class Files:
    """What finance is given of a month."""

    charges: str
    centres: str
    rows: str
    spreadsheet: str
    focus: str
    beside: str
    groups: str


def report(store: Store, settings: Settings, month: str, by: Bearer = "team") -> ChargesReport:
    """Return what is charged for a month."""
    with store.session() as session:
        reader = Reader(session, settings)
        return charges_report(reader.session, reader.settings, reader.period(month), by)


def files(store: Store, settings: Settings, folder: Path, month: str = "2025-11") -> Files:
    """Return the files of a month."""
    found = report(store, settings, month)
    with store.session() as session:
        period = Reader(session, settings).period(month)
        export_csv(session, period, "USD", folder / "ledger.csv")
        asked = ExportOptions(Issuer("1.2", "alpha", "alpha", "USD", "UTC"), period)
        export_focus(session, asked, folder / "focus.csv")
        beside = costs_data(read_costs(session, period, settings)) | {"rows_version": None, "rates_edited": None}
        source = ledger_source(("l.hour >= $start", "l.hour < $end"), ("node_group",))
        by_group = f"SELECT h.node_group, sum(l.cost_micros)::BIGINT {source} GROUP BY 1 ORDER BY 1"
        groups = session.rows(by_group, {"start": period.start, "end": period.end})
    return Files(
        charge_csv(found),
        charge_csv(report(store, settings, month, "cost-centre")),
        str(charge_data(found)["charges"]),
        (folder / "ledger.csv").read_text(),
        (folder / "focus.csv").read_text(),
        str(beside),
        str(groups),
    )


Sums = dict[tuple[str | None, str | None, bool], tuple[int, int, int]]


def sums(found: ChargesReport, *corrections: ChargesReport) -> Sums:
    """Return time, cost and charge of November by bearer: its lines, and what others correct of it."""
    lines = [*found.lines, *(one for month in corrections for one in month.corrections if one.corrects == "2025-11")]
    told: Sums = {}
    for one in lines:
        key = one.bearer, one.team, one.held
        time, cost, charged = told.get(key, (0, 0, 0))
        told[key] = (time + one.milliseconds, cost + (one.cost_micros or 0), charged + (one.charged_micros or 0))
    return {key: amounts for key, amounts in told.items() if any(amounts)}
