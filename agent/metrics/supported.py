"""What this host's GPUs can be measured by, and why not, as one family."""

from collections.abc import Iterable

from prometheus_client import Metric

from agent.metrics.series import MOST_SERIES, family, label
from agent.source import Supported


def supported_family(supported: Iterable[Supported]) -> Metric:
    """Return the family of what can be measured; 0 with the reason where it cannot."""
    series = [
        ({"gpu_uuid": label(one.gpu_uuid), "subject": label(one.subject), "reason": label(one.reason)}, float(one.ok))
        for one in supported
    ]
    words = "1 where this can be measured of the GPU, else 0, and the reason."
    return family("gpuledger_gpu_supported", words, "gauge", series[:MOST_SERIES])
