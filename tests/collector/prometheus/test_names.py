"""Every name that is read leads to a column of the contract, in its unit."""

import pytest

from agent.wire.contract import metric_name
from agent.wire.dcgm import fields
from agent.wire.tables import GPU_SAMPLES, TABLES
from collector.prometheus.names import STEPS, catalogue, column_of, finish


def test_every_field_of_dcgm_that_the_contract_names_is_read() -> None:
    """docs/metrics.md promises the field of dcgm-exporter that says the same; a pull must then find it."""
    for column in GPU_SAMPLES.columns:
        if column.dcgm:
            slots = catalogue()[column.dcgm].slots
            assert column.name in {slot.column for slot in slots}, column.dcgm


def test_every_name_of_ours_is_read() -> None:
    """A site that scrapes our agents with Prometheus has their history there too."""
    for table in TABLES.values():
        for column in table.columns:
            name = metric_name(table, column)
            if name is not None:
                assert any(slot.place == (table.name, column.name) for slot in catalogue()[name].slots), name


@pytest.mark.parametrize("field", fields(), ids=lambda field: field.legacy)
def test_both_names_of_a_field_say_the_same(field: object) -> None:
    """A fleet that upgrades its exporters in the middle of a month must not see its GPUs change."""
    legacy, current = catalogue().get(field.legacy), catalogue().get(field.current)  # type: ignore[attr-defined]
    if legacy is None or current is None:
        assert legacy is current
        return
    assert [(s.column, s.reading) for s in legacy.slots] == [(s.column, s.reading) for s in current.slots]


def test_a_step_is_no_column_and_leads_to_one() -> None:
    """A slot that fills neither a column nor a step would be read for nothing."""
    for metric in catalogue().values():
        for slot in metric.slots:
            known = column_of(slot) is not None or slot.column in STEPS
            assert known or slot.column not in finish(slot.table, {}, 0), (metric.name, slot.column)


def test_amounts_of_the_contract_are_never_read_as_levels() -> None:
    """A counter that is stored as it stands would book its whole past to one interval."""
    for metric in catalogue().values():
        for slot in metric.slots:
            column = column_of(slot)
            if column is not None and column.kind == "amount":
                assert slot.reading in ("growth", "rate", "news"), (metric.name, slot.column)


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", 29, 0.29),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.29, 0.29),
        ("DCGM_FI_DEV_SM_CLOCK", 1980, 1.98e9),
        ("DCGM_FI_DEV_FB_USED", 3, 3 * 2**20),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1500, 1.5),
        ("DCGM_FI_DEV_POWER_VIOLATION", 2e9, 2.0),
        ("DCGM_FI_PROF_SM_ACTIVE", 0.5, 0.5),
    ],
)
def test_units_become_base_units(name: str, raw: float, value: float) -> None:
    """Percent, MHz, MiB, mJ and ns are the exporter's; ratio, hertz, bytes, joules and seconds are ours."""
    slot = catalogue()[name].slots[0]
    assert raw * slot.by / slot.times == value
