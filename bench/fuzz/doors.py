"""What reads texts that others write: settings, prices, teams, requests, plans, bills, messages, pages, environments.

Each door has a good text of its own, from which hostile ones are made, and the bound that stands before it elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mcp.types import jsonrpc_message_adapter
from pydantic import ValidationError

from agent.attribution.evidence import Process, allowed, cluster_name
from agent.attribution.run import HostIdentity, attribute
from agent.config import load as agent_settings
from agent.control import read_note
from agent.errors import AgentError
from agent.metrics.scrape_server import MOST_HEAD, RefusedError
from agent.metrics.scrape_server import parse as scrape_head
from agent.sources.flows import read_peers
from agent.sources.mailbox import parse as message
from agent.sources.service_page import read_page
from agent.sources.topology import read_table
from agent.wire.bounded import TooMuchError, bounded_json
from agent.wire.envelope import header_of, packed
from agent.wire.recording import read_recording
from analyzer.capacity.gate.policy import read_policy
from analyzer.capacity.gate.request import parsed_file
from analyzer.capacity.planner.proposal import read_proposal
from analyzer.capacity.planner.task_file import read_tasks
from analyzer.capacity.profile.canonical_json import parsed as profile
from analyzer.errors import AnalyzerError
from analyzer.finops.budgets.month import BudgetBook
from analyzer.finops.focus.read import NEEDED, read_focus
from analyzer.interfaces.api.capacity import parsed as capacity_body
from analyzer.interfaces.api.invoices import BODY_BYTES as INVOICE_BYTES
from analyzer.interfaces.api.invoices import InvoiceAsked
from analyzer.interfaces.api.parameters import cursor_position as cursor
from analyzer.interfaces.mcp.cli import REQUEST_BYTES
from analyzer.ledger.causes.serving_policy import PolicyBook
from analyzer.ledger.teams import TeamBook
from analyzer.prices.price_book import PriceBook
from analyzer.queries.ledger_query import labels_of
from analyzer.settings.settings import Settings
from collector.access.enrol import enrolment_of
from collector.access.gate import FORM_BYTES, fields_of
from collector.config import load as collector_settings
from collector.errors import CollectorError

# The last two are of the libraries whose word our routes answer with: bodies and MCP's messages are theirs to read.
REFUSED = (AgentError, AnalyzerError, CollectorError, RefusedError, TooMuchError, ValidationError)
SITE = '[{}]\nlisten = "127.0.0.1:1"\nlabels = {{ a = "b" }}\n[[price]]\nsku = "H100"\nfrom = 2026-01-01\n'
DATED = 'from = 2026-01-01\nuntil = 2027-01-01T05:00:00Z\nsource = "contract 4711"\nas_of = 2026-11-01\n'
ASKED = '"team": "a", "gpus": 8, "sku": "H100", "weeks": 2.5, "starts": "2026-12-01", "why": "x", "work": ["x"]'
PAGE = (
    "# TYPE vllm:request_success_total counter\n"
    'vllm:request_success_total{finished_reason="stop",model_name="m"} 12.0\n'
    'vllm:time_to_first_token_seconds_bucket{le="0.5",model_name="m"} 1e3\nvllm:num_requests_running 2\n'
)
ENVIRONMENT = (
    "RANK=0\0WORLD_SIZE=8\0MASTER_PORT=29500\0TORCHELASTIC_RUN_ID=a b\0GPULEDGER_RUN_ID=declared/n/a\0"
    "SLURM_JOB_ID=81234\0SLURM_ARRAY_JOB_ID=81200\0SLURM_ARRAY_TASK_ID=7\0RAY_JOB_ID=02000000\0"
)


@dataclass(frozen=True, slots=True)
class Door:
    """What reads one kind of text; `take` gets it, and a folder for those that want a file."""

    name: str
    language: str
    good: str
    take: Callable[[bytes, Path], object]


def _file(folder: Path, content: bytes, name: str) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _of_files(name: str, language: str, good: str, read: Callable[[Path], object]) -> Door:
    return Door(name, language, good, lambda text, folder: read(_file(folder, text, name)))


def _environment(text: bytes, _: Path) -> object:
    return attribute(
        Process(4711, 99213, "", allowed(text.decode("utf-8", "replace")), uid=1001, owner="a"), HostIdentity("n")
    )


def _framed(header: bytes) -> bytes:
    return packed(len(header).to_bytes(4, "little") + header)


DOORS = (
    _of_files("agent.toml", "toml", SITE.format("agent"), lambda path: agent_settings(path, {})),
    _of_files("server.toml", "toml", SITE.format("collector"), lambda path: collector_settings(path, {})),
    _of_files("site.toml", "toml", SITE.format("analyzer"), Settings.read),
    _of_files("teams.toml", "toml", f'[[rule]]\nteam = "a"\naccount = "n*"\n{DATED}', TeamBook.read),
    _of_files("serving.toml", "toml", f'[[service]]\nservice = "a"\nminimum_replicas = 2\n{DATED}', PolicyBook.read),
    _of_files(
        "budgets.toml",
        "toml",
        f'[[budget]]\nteam = "a"\nusd_per_month = 5.5\n{DATED}',
        lambda path: BudgetBook.read(path, "USD"),
    ),
    _of_files("gate.toml", "toml", f"version = 2026-11-20\n[gates.useful]\npercent = 60\n{DATED}", read_policy),
    Door(
        "prices.toml",
        "toml",
        f'[[price]]\nsku = "H100"\nusd_per_gpu_hour = 2.5\n{DATED}[[owned]]\nsku = "A100"\npue = 1.3\n{DATED}',
        lambda text, folder: PriceBook.parse("prices", text, folder),
    ),
    _of_files(
        "request.toml",
        "toml",
        'team = "a"\ngpus = 8\nwork = ["x"]\nweeks = 2.5\nstarts = 2026-12-01\n',
        parsed_file,
    ),
    _of_files("request.json", "json", f"{{{ASKED}}}", parsed_file),
    _of_files("request.yaml", "yaml", "team: a\ngpus: 8\nwork: [x]\nweeks: 2.5\nstarts: 2026-12-01\n", parsed_file),
    Door(
        "plan.yaml",
        "yaml",
        "start: 2026-11-27T05:00\nnodes:\n  n: {gpus: 8, memory: 128 GB}\ntasks:\n  a: {gpu: 1, duration: 3 h}\n"
        "  b: {gpu: 1, after: [a], duration: {p10: 1 h, p50: 2 h, p90: 3 h}}\n",
        lambda text, _: read_tasks(text.decode("utf-8", "replace"), 0),
    ),
    Door(
        "proposal",
        "json",
        '{"placements": [{"task": "a", "node": "n", "start_seconds": 0, "end_seconds": 10800}], "finish_seconds": 1.5}',
        lambda text, _: read_proposal(text),
    ),
    Door(
        "profile",
        "json",
        '{"profile": {"version": 1, "team": "a", "useful_percent": 41.5}, "signature": "ab"}',
        lambda text, _: profile(text.decode("utf-8", "replace")),
    ),
    Door("capacity request", "json", f'{{"request": {{{ASKED}}}}}', lambda text, _: capacity_body(text)),
    Door(
        "invoice",
        "json",
        '{"invoice": "a", "digest": "ab", "currencies": ["USD"], "lines": 2, "days": [{"day": "2026-11-01"}]}',
        lambda text, _: InvoiceAsked.model_validate_json(
            bounded_json(text.decode("utf-8", "replace"), most_bytes=INVOICE_BYTES)
        ),
    ),
    _of_files(
        "bill.csv",
        "csv",
        ",".join(NEEDED) + "\n1.5,USD,Usage,2026-11-02T00:00:00Z,2026-11-01T00:00:00Z,1.5\n",
        lambda path: sum(1 for _ in read_focus(path)),
    ),
    Door("enrolment", "json", '{"token": "gl_join_a", "node": "n14"}', lambda text, _: enrolment_of(text)),
    Door("form", "form", "key=gl_read_a&csrf=b&next=%2Fmoney%3Fa%3Db", lambda text, _: fields_of(text[:FORM_BYTES])),
    Door("cursor", "cursor", "WyJhYiIsbnVsbCxbMSwieCJdXQ", lambda text, _: cursor(text.decode("latin-1"), "q", (int,))),
    Door(
        "MCP message",
        "json",
        '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "week", "arguments": {"top": 5}}}',
        lambda text, _: jsonrpc_message_adapter.validate_json(text[:REQUEST_BYTES]),
    ),
    Door(
        "batch header",
        "json",
        '{"agent": "n", "stream": "a", "sequence": 1, "sent_at": 2, "schema_version": 3, "min_reader": 1, '
        '"tables": [["gpu_samples", 1, 0]]}',
        lambda text, _: header_of(_framed(text)),
    ),
    _of_files(
        "run.recording", "json", '{"recording": 1, "run_id": "declared/n/0/x", "command": "x"}\n', read_recording
    ),
    Door("progress", "json", '{"steps": 5, "tokens": 1e6, "checkpoint": "/a/b"}', lambda text, _: message(text)),
    Door("labels", "json", '{"stage": "train", "a": "b"}', lambda text, _: labels_of(text.decode("utf-8", "replace"))),
    _of_files("note", "json", '{"until": 5, "reason": "x"}', read_note),
    Door("service's page", "page", PAGE, lambda text, _: read_page(text.decode("utf-8", "replace"))),
    Door(
        "scrape",
        "head",
        "GET /metrics HTTP/1.1\r\nHost: n\r\nAccept: */*",
        lambda text, _: scrape_head(text[:MOST_HEAD]),
    ),
    Door("environment", "environment", ENVIRONMENT, _environment),
    Door(
        "raylet",
        "environment",
        "raylet --cluster-id=f6d86b18 --session-name=a",
        lambda text, _: cluster_name(text.decode("utf-8", "replace")),
    ),
    _of_files("topology.csv", "csv", "node,rack,block,zone\nn1,r1,b1,z1\nn2,r2,,\n", read_table),
    _of_files("peers.csv", "csv", "address,node\n10.0.0.0/8,n1\nfd00::1,n2\n", read_peers),
)
