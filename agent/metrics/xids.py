"""XID errors by whose fault they are, as one family: of their sum nobody could be called at night."""

from collections.abc import Mapping

from prometheus_client import Metric

from agent.metrics.series import MOST_SERIES, family, label


def xid_family(counts: Mapping[str, Mapping[str, int]]) -> Metric:
    """Return the family; each GPU that is heard has every class from its first scrape on, so that one error counts."""
    series = [
        ({"gpu_uuid": label(uuid), "class": label(name)}, float(count))
        for uuid, by_class in counts.items()
        for name, count in by_class.items()
    ]
    words = "XID errors since the agent began: the hardware's, the program's own, and others."
    return family("gpuledger_gpu_xid_class_events_total", words, "counter", series[:MOST_SERIES])
