"""The same readings under dcgm-exporter's names and labels, so that dashboards made for it work unchanged.

One thing is not like there: a GPU that several runs share bears no run's labels, rather than one series for each of
them. Sums over GPUs stay true; who the sharers are says gpuledger_gpu_run_info.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import Metric

from agent.metrics.dcgm_labels import both_labels, current_labels, legacy_labels, run_labels
from agent.metrics.dcgm_values import Values, values
from agent.metrics.holders import LabelledHolder
from agent.metrics.series import family
from agent.metrics.snapshot import View
from agent.settings.config import DcgmNames
from agent.wire.dcgm import Field, Unit, fields

_DECIMALS = 6  # beyond these a value is rounding of ours: 0.29 is 28.999999999999996 %


@dataclass(frozen=True, slots=True)
class _Seen:
    """One GPU or MIG instance: what is known of it by reading, and its labels under either set of names."""

    uuid: str
    parent: str
    values: Values
    labels: Mapping[str, Mapping[str, str]]


def dcgm_families(view: View, names: DcgmNames) -> Iterator[Metric]:
    """Yield the families of the chosen names; none where they are off."""
    if names == "off":
        return
    seen = list(_seen(view))
    told_by_parts = {(one.parent, reading) for one in seen for reading in one.values if one.parent}
    for field in fields():
        # What the instances of a GPU tell is not told of the whole as well: a sum would count it twice.
        of = [one for one in seen if field.reading in one.values and (one.uuid, field.reading) not in told_by_parts]
        yield from _families(field, of, names)


def _families(field: Field, of: Sequence[_Seen], names: DcgmNames) -> Iterator[Metric]:
    if names == "both" and field.legacy == field.current:
        yield _family(field, field.legacy, field.legacy_unit, of, "both")
        return
    if names in ("legacy", "both"):
        yield _family(field, field.legacy, field.legacy_unit, of, "legacy")
    if names in ("v4.9", "both"):
        yield _family(field, field.current, field.current_unit, of, "v4.9")


def _family(field: Field, name: str, unit: Unit, of: Sequence[_Seen], labels: str) -> Metric:
    series = [(one.labels[labels], round(one.values[field.reading] * unit.times / unit.by, _DECIMALS)) for one in of]
    # A counter of prometheus_client ends in _total, which these do not: they are served untyped, under their own name.
    return family(name, f"{field.words} ({unit.name}).", "gauge" if field.kind == "gauge" else "unknown", series)


def _seen(view: View) -> Iterator[_Seen]:
    shown = view.shown("gpu_samples")
    holders = _by_gpu(view.holders)
    for labels, row in shown.rows.items():
        uuid = str(row.get("gpu_uuid"))
        gpu = view.gpus.get(uuid)
        if gpu is None or gpu.get("gpu_index") is None:
            continue  # not found yet: without its number it would be a series of its own, for a beat
        parent = str(row.get("parent_uuid") or "")
        whole = view.gpus.get(parent, {}) if parent else gpu
        run = run_labels(holders.get(uuid, ()))
        made = {
            "legacy": legacy_labels(row, gpu, whole) | run,
            "v4.9": current_labels(row, gpu, whole) | run,
            "both": both_labels(row, gpu, whole) | run,
        }
        yield _Seen(uuid, parent, values(row, shown.carried[labels], gpu), made)


def _by_gpu(holders: Sequence[LabelledHolder]) -> dict[str, list[LabelledHolder]]:
    found: dict[str, list[LabelledHolder]] = {}
    for holder in holders:
        found.setdefault(holder.gpu_uuid, []).append(holder)
    return found
