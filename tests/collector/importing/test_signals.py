"""What a source can tell follows from the columns that came, and is typed nowhere."""

from dataclasses import replace

from agent.wire.tables import TABLES
from analyzer.interfaces.onboarding import screen
from analyzer.interfaces.onboarding.screen import ImportedSignals, by_answer, capabilities, explains_input

DCGM = {"utilization_ratio", "memory_used_bytes", "power_watts", "sm_clock_hertz", "energy_joules_total"}
LIMITS = {"sm_clock_reference_hertz", "throttle_power_seconds", "throttle_thermal_seconds"}
USUAL = ImportedSignals({"gpu_samples": DCGM | LIMITS}, runs=10, endings=9, priced=True, scrape_seconds=30.0)


def answers(told: ImportedSignals) -> dict[str, str]:
    """Return the answer to each capability."""
    return {one.what: one.answer for one in capabilities(told)}


def test_a_fleet_with_dcgm_exporter_and_slurm_reads_as_on_the_screen() -> None:
    """The lines of screen 8, but that nobody knows what work was lost where nobody sees what was saved."""
    found = by_answer(capabilities(USUAL))
    assert found["yes"][:3] == ["allocation", "idle", "throttling by heat or power"]
    assert "cost by run" in found["yes"]
    assert found["some"] == ["input starvation: seen, but not why (no disk, CPU or worker figures)"]
    assert found["no"] == ["lost work", "cross-rack", "checkpoint cost", "stalls under 30 s"]


def test_without_runs_nothing_is_held_by_anybody() -> None:
    """A GPU that works and is nobody's says nothing of idling, losing or cost by run."""
    found = answers(replace(USUAL, runs=0, endings=0))
    assert {found[what] for what in ("allocation", "idle", "lost work", "cost by run", "input starvation")} == {"no"}


def test_without_ends_no_work_is_known_to_be_lost() -> None:
    """Labels of an exporter name a job, and never how it ended."""
    assert answers(replace(USUAL, endings=0))["lost work"] == "no"


def test_without_prices_runs_cost_nothing_known() -> None:
    """No price is guessed."""
    assert answers(replace(USUAL, priced=False))["cost by run"] == "no"


def test_clocks_without_reasons_are_no_throttling() -> None:
    """A low clock may be an idle GPU's."""
    assert answers(replace(USUAL, columns={"gpu_samples": DCGM}))["throttling by heat or power"] == "no"


def test_node_exporter_adds_disks_and_processors() -> None:
    """Where it is scraped too, only the loader's workers are missing."""
    columns = dict(USUAL.columns) | {
        "disk_samples": {"busy_ratio", "written_bytes"},
        "host_samples": {"cpu_busy_ratio"},
    }
    told = replace(USUAL, columns=columns)
    assert by_answer(capabilities(told))["some"] == ["input starvation: seen, and why only in part (no worker figures)"]
    assert answers(told)["checkpoint cost"] == answers(told)["lost work"] == "yes"
    assert not explains_input(told)
    workers = {"process_samples": {"workers_busiest_cpu_ratio"}}
    assert answers(replace(told, columns=columns | workers))["input starvation"] == "yes"


def test_racks_and_ports_show_what_crosses() -> None:
    """Both are needed."""
    columns = dict(USUAL.columns) | {"network_samples": {"transmit_bytes"}}
    assert answers(replace(USUAL, columns=columns))["cross-rack"] == "no"
    assert answers(replace(USUAL, columns=columns | {"inventory": {"rack"}}))["cross-rack"] == "yes"


def test_a_reading_a_second_hides_no_stall() -> None:
    """So do the driver's own samples, however rarely they are fetched."""
    assert "stalls under 30 s" in answers(USUAL)
    assert not [what for what in answers(replace(USUAL, scrape_seconds=1.0)) if what.startswith("stalls")]
    fine = USUAL.columns["gpu_samples"] | {"utilization_zero_ratio"}
    assert not [what for what in answers(replace(USUAL, columns={"gpu_samples": fine})) if what.startswith("stalls")]


def test_every_signal_is_a_column_of_the_contract() -> None:
    """A column that is renamed there would turn a yes into a no here."""
    named = screen._ACTIVITY | screen._LIMITS | screen._CLOCKS
    assert named <= set(TABLES["gpu_samples"].names)
    assert all(TABLES[table].has(column) for table, column in screen._CAUSES.values())
    assert TABLES["inventory"].has("rack")
    assert TABLES["network_samples"].has("transmit_bytes")
    assert TABLES["disk_samples"].has("written_bytes")
