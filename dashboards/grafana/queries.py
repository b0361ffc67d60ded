"""What queries have in common, so that each convention is written once. docs/grafana.md says why each is one."""

CLUSTER = 'cluster=~"$cluster"'
NODE = f'{CLUSTER}, instance=~"$node"'
RUN = f'{CLUSTER}, run_id="$run"'
_RATE = "$__rate_interval"


def ledger(name: str, *by: str, where: str = "") -> str:
    """Return a family of the ledger by these labels: of equal series of several servers one is taken."""
    labels = ", ".join(("cluster", *by))
    matchers = ", ".join(filter(None, (CLUSTER, where)))
    return f"max by ({labels}) (gpuledger_fleet_{name}{{{matchers}}})"


def rate(counter: str, where: str) -> str:
    """Return a counter's growth a second."""
    return f"rate({counter}{{{where}}}[{_RATE}])"


def numbered(query: str) -> str:
    """Return a query by GPU with the number of each GPU, as people call it."""
    return f"({query}) * on (cluster, instance, gpu_uuid) group_left (gpu_index) gpuledger_gpu_info{{{NODE}}}"


def of_run(query: str) -> str:
    """Return a query by GPU for those GPUs alone that the run holds."""
    return f"{query} and on (cluster, instance, gpu_uuid) gpuledger_gpu_run_info{{{RUN}}}"


def share(part: str, whole: str) -> str:
    """Return a sum as a share of another, 0 to 1."""
    return f"sum({part}) / sum({whole})"
