"""A KV cache that is full while requests wait: the memory is the limit, and the stack preempts what it had begun."""

from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.notice import Words
from analyzer.findings.health.serving.figures import ServiceFigures, is_worth_naming, percent

RULE = "kv_cache_full"


def notice_words(figures: ServiceFigures) -> Words | str | None:
    """Return what is to be said, or the signal that is missing."""
    if figures.kv_ms is None or figures.kv_full_ms is None:
        return "the use of its KV cache and its queue"
    if is_worth_naming(figures.kv_full_ms, figures.kv_ms):
        share = percent(figures.kv_full_ms, figures.kv_ms)
        return Words(
            f"The KV cache of {figures.service} was full with requests waiting for {share} of the time: a shorter "
            "context, a smaller cache type, more GPU memory for it or one more replica would let them in.",
            "high",
            (
                EvidenceLine("KV cache", f"95 % and more in use, and a queue, for {share} of the time", "<- the limit"),
                EvidenceLine("fullest ten minutes", f"{(figures.kv_most or 0) / 10:.0f} % in use on average"),
            ),
            "the same load on a cache twice the size queues as long",
        )
    return None
