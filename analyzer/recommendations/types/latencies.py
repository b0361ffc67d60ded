"""What a change does to the requests of a service, as far as that is known."""

from collections.abc import Iterable

from analyzer.recommendations.recommendation import Latency
from analyzer.recommendations.site import Placed, Site

UNTOLD = "its stack tells no first-token times"


def latency(site: Site, runs: Iterable[Placed], after_seconds: float | None, told: str) -> Latency | None:
    """Return the latency of the first of these runs that serves, now and after; None where none of them does.

    Now is the P99 of first tokens of the interval in the middle; `told` says what is known of it afterwards.
    """
    serving = [one for one in runs if one.run_id in site.services or one.stage == "serving"]
    if not serving:
        return None
    said = site.services.get(serving[0].run_id)
    if said is None or said.p99_seconds is None:
        untold = UNTOLD if site.looks_at("services") else "what its stack tells was not looked at here"
        return Latency(None, after_seconds, said.slo_seconds if said else None, f"{untold}; {told}")
    worst = "" if said.worst_seconds is None else f"now {said.worst_seconds:.3g} s in its worst twentieth; "
    return Latency(said.p99_seconds, after_seconds, said.slo_seconds, worst + told)
