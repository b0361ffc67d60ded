"""docs/metrics.md, docs/privacy.md and docs/ledger-columns.md, made from the contract and the ledger: `make docs`."""

import sys
from collections.abc import Iterable
from pathlib import Path

from agent.wire.contract import Column, Table, metric_name
from agent.wire.tables import TABLES
from analyzer.ledger import tables as ledger

KINDS = {
    "key": "names the row",
    "gauge": "holds at the end of the interval, or as its mean",
    "amount": "moved or spent within the interval",
    "counter": "grows for ever",
    "fact": "describes",
}
# What the agent exports beyond the contract; agent/daemon/agent.py and agent/metrics make them.
OWN_METRICS = {
    "gpuledger_gpu_info": "Identity of a GPU: index, SKU, parent, bus id, driver. Always 1; join by gpu_uuid.",
    "gpuledger_gpu_run_info": "A run that holds the GPU, and its owner. Always 1; join by gpu_uuid.",
    "gpuledger_gpu_supported": "1 if this can be measured on the GPU, else 0, with the reason.",
    "gpuledger_gpu_xid_class_events_total": "XID errors by origin: hardware, application, other.",
    "gpuledger_agent_build_info": "Version of the agent and name of its host. Always 1.",
    "gpuledger_agent_scrapes_total": "Connections to /metrics, by outcome.",
    "gpuledger_agent_series_left_out_total": "Rows not exposed because their table has too many.",
    "gpuledger_agent_source_up": "1 if the last reading of the source succeeded.",
    "gpuledger_agent_service_up": "1 if the page of the service was read whole, with the state of its reading.",
    "gpuledger_agent_service_failures_total": "Pages of the service that could not be read.",
    "gpuledger_agent_source_hung_total": "Readings of each source that timed out.",
    "gpuledger_agent_holder_age_seconds": "Age of the last report of each provider (kubelet, slurm, mapping files).",
    "gpuledger_agent_holders_hidden": "Processes on GPUs that procfs does not show; their owners are unknown.",
    "gpuledger_agent_gpu_answers_unreadable": "Answers of the GPU driver that cannot be read; they count as unknown.",
    "gpuledger_agent_holder_failures_total": "How often each provider failed to report allocations.",
    "gpuledger_agent_beat_lateness_seconds": "How late each sampling interval began, as a histogram.",
    "gpuledger_agent_source_failures_total": "Readings of the source that failed.",
    "gpuledger_agent_implausible_values_total": "Implausible values left out.",
    "gpuledger_agent_spool_batches": "Batches waiting on disk.",
    "gpuledger_agent_dropped_table_rows_total": "Rows that the collector will never get, by table.",
    "gpuledger_agent_quarantined_total": "Files and batches quarantined.",
    "gpuledger_agent_unwritten_batches_total": "Batches that could not be written to disk; they wait in memory.",
    "gpuledger_agent_delivered_batches_total": "Batches delivered to the collector.",
    "gpuledger_agent_rows_put_aside_total": "Rows of delivered batches that the collector set aside as implausible.",
    "gpuledger_agent_refused_batches_total": "Batches the collector permanently refused.",
    "gpuledger_agent_send_failures_total": "Delivery attempts that failed.",
}


def metrics_md() -> str:
    """Return docs/metrics.md: every table and column, its unit, its source and its Prometheus names."""
    lines = [
        "# Tables and metrics",
        "",
        "Made from `agent/wire/tables.py` by `make docs`; do not edit.",
        "",
        "One spelling from the driver to the dashboard: a column of the wire is the column in the store, and its",
        "metric is `gpuledger_<family>_<column>`. Amounts become counters. Units are base units; times are integer",
        "microseconds UTC; intervals are half-open and abut. A value that was not reported is null and has no series:",
        "it is never 0. `DCGM` names the field of dcgm-exporter that says the same.",
        "",
        *(f"- **{kind}**: {words}" for kind, words in KINDS.items()),
    ]
    for table in TABLES.values():
        row = f"A row is {table.row}. {_tellers(table)}"
        lines += ["", f"## `{table.name}`", "", row, *_labels(table), "", *_columns(table)]
    return "\n".join([*lines, *_own()]) + "\n"


def _tellers(table: Table) -> str:
    """Return who may tell a row; what a host's own key brings of anything else is put aside (access.md)."""
    words = {"scheduler": "a scheduler's source", "host": "the host itself", "run": "the run"}
    told = " or ".join(word for teller, word in words.items() if teller in table.tellers)
    others = [column.name for column in table.columns if "host" in table.tellers and not table.may_tell("host", column)]
    but = f", {', '.join(f'`{name}`' for name in others)} not by the host" if others else ""
    return f"Told by {told}{but}."


def privacy_md() -> str:
    """Return docs/privacy.md: what leaves a host, what of it names people, and what never leaves."""
    identity = [(table, column) for table, column in _all() if column.sensitivity == "identity"]
    ids = [(table, column) for table, column in _all() if column.sensitivity == "id"]
    return "\n".join(
        [
            "# What leaves a host",
            "",
            "Made from `agent/wire/tables.py` by `make docs`; do not edit.",
            "",
            "An agent opens one outbound connection, to the configured collector, and listens on 127.0.0.1",
            "alone. `gpuledger agent --once --json` prints one batch as it would be sent.",
            "",
            "## Names of people and projects",
            "",
            "These columns hold them. The setting `identity` decides: `full` sends them as they are, `hashed` sends a",
            "keyed pseudonym that is the same for the same name, `none` sends nothing.",
            "",
            "| table | column | what it is |",
            "|---|---|---|",
            *(f"| `{table.name}` | `{column.name}` | {column.help} |" for table, column in identity),
            "",
            "## Ids that may bear a name",
            "",
            "A pod whose uid is not yet known is told by namespace and name; a run may be called what its user likes;",
            "a home is mounted at its owner's name; a peer that no table names is an address. `full` sends these ids",
            "as they are. `hashed` and `none` keep numbers, uids and the names of hosts, clusters and devices, and put",
            "a keyed pseudonym in the place of the rest, also on /metrics. Without an `identity_key`, `none` takes a",
            "key that the host alone has, and that changes when it boots: a run then has another name on each host.",
            "",
            "| table | column | what it is |",
            "|---|---|---|",
            *(f"| `{table.name}` | `{column.name}` | {column.help} |" for table, column in ids),
            "",
            "## Everything else that is sent",
            "",
            "Numbers, times, and names of hosts, devices and runs. All columns are in [metrics.md](metrics.md).",
            "",
            "| table | a row is | columns |",
            "|---|---|---|",
            *(f"| `{table.name}` | {table.row} | {', '.join(table.names)} |" for table in TABLES.values()),
            "",
            "## What never leaves",
            "",
            "Command lines, environments, file names, file contents, standard output. Environments are read on the",
            "host, reduced to the ids of jobs, and forgotten. A run that tells of its checkpoints tells the last part",
            "of their names. The recording that `gpuledger run` writes holds the command's words; it is a file of its",
            "user on that machine, and nothing sends it.",
            "",
        ]
    )


def ledger_columns_md() -> str:
    """Return docs/ledger-columns.md: the columns of the ledger's two tables."""
    return "\n".join(
        [
            "# Columns of the ledger",
            "",
            "Made from `analyzer/ledger/tables.py` by `make docs`; do not edit. How to query them:",
            "[parquet.md](parquet.md). What the states mean: [ledger.md](ledger.md), [glossary.md](glossary.md).",
            "",
            *_ledger_table("ledger", "what a GPU did in an hour for a holder: one state, one cause", ledger.LEDGER),
            "",
            *_ledger_table(
                "adjustments",
                "a difference to a closed hour, dated when it was learned; milliseconds of a GPU and an hour sum to 0",
                ledger.ADJUSTMENTS,
            ),
            "",
        ]
    )


def _ledger_table(name: str, row: str, columns: Iterable[ledger.Column]) -> Iterable[str]:
    yield from (f"## `{name}`", "", f"A row is {row}.", "", "| column | type | null | what |", "|---|---|---|---|")
    for column in columns:
        yield f"| `{column.name}` | {column.type} | {'no' if column.required else 'unknown'} | {column.about} |"


def _labels(table: Table) -> list[str]:
    if table.family is None:
        return []
    labels = ", ".join(f"`{label}`" for label in table.labels) or "none"
    return [f"Its metrics have the labels: {labels}."]


def _columns(table: Table) -> Iterable[str]:
    yield "| column | type | unit | kind | what | source | metric | DCGM |"
    yield "|---|---|---|---|---|---|---|---|"
    for column in table.columns:
        name = metric_name(table, column)
        shown = f"`{name}`" if name else ""
        dcgm = f"`{column.dcgm}`" if column.dcgm else ""
        source = column.source.replace("|", "\\|")
        yield (
            f"| `{column.name}` | {column.type} | {column.unit} | {column.kind} | {column.help} | {source} | {shown} "
            f"| {dcgm} |"
        )


def _own() -> list[str]:
    return [
        "",
        "## The agent's own metrics",
        "",
        "| metric | what |",
        "|---|---|",
        *(f"| `{name}` | {words} |" for name, words in OWN_METRICS.items()),
    ]


def _all() -> Iterable[tuple[Table, Column]]:
    return ((table, column) for table in TABLES.values() for column in table.columns)


def main(argv: list[str]) -> int:
    """Write the documents into a directory."""
    directory = Path(argv[0] if argv else "docs")
    (directory / "metrics.md").write_text(metrics_md(), encoding="utf-8")
    (directory / "privacy.md").write_text(privacy_md(), encoding="utf-8")
    (directory / "ledger-columns.md").write_text(ledger_columns_md(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
