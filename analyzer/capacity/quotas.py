"""Quotas of schedulers beside what is held and waits: who waits while whose guaranteed GPUs are unused, what helps.

Read are the files of one folder that the schedulers' own commands print:

    kubectl get clusterqueues,cohorts,localqueues -A -o json     (or -o yaml)
    sshare -a -P
    sacctmgr -P show assoc format=account,user,grptres
    sacctmgr -P show qos format=name,preempt,grptres

Of Kueue a ClusterQueue guarantees its nominal quota of GPUs, of all flavors together, and borrows in its cohort. Of
Slurm an account of the first level is due its share of the fleet's GPUs; whoever is below it is served first, and what
it leaves unused anybody may take. Sources: Kueue, "Cluster Queue" and "Cohort"; Slurm, sshare(1), sacctmgr(1).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from analyzer.capacity.planner.amounts import amount
from analyzer.errors import ConfigError
from analyzer.queries.ledger_query import read_queue
from analyzer.queries.statements import statements
from analyzer.settings.bounded import strict_json, yaml_said
from analyzer.text.words import counted, plain
from collector.schedulers.kubernetes.api import Json, at, objects, text
from collector.store.session import Session

_FILE_BYTES_MOST, _FILES_MOST, _ROWS_MOST, _DEEPEST, _TREE_MOST = 16 * 2**20, 100, 100_000, 24, 50
_GPU = re.compile(r"^(nvidia\.com|amd\.com|gpu\.intel\.com)/(gpu|mig-.+|i915|xe)(\.shared)?$")
_GRES = re.compile(r"(?:^|,)gres/gpu(:[^=,]+)?=(\d{1,9})")
FAIR_SHARE = "fair share"


@dataclass(frozen=True, slots=True)
class Quota:
    """What one queue of Kueue or account of Slurm may hold, in GPUs; None: nobody says it, or there is no bound.

    `guaranteed` is its own, `most` all that it may hold, `lends_most` what others may have of it. `runs_of` are pairs
    of account and queue (None: any) whose runs it counts.
    """

    name: str
    cohort: str | None
    guaranteed: int | None
    most: int | None = None
    lends_most: int | None = None
    reclaims: bool = False
    is_stopped: bool = False
    runs_of: frozenset[tuple[str, str | None]] = frozenset()
    qos: str | None = None
    norm_share: float | None = None


@dataclass(frozen=True, slots=True)
class Quotas:
    """All of them, when the oldest file was printed (microseconds UTC), and what was read and is not applied."""

    quotas: tuple[Quota, ...]
    as_of: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Use:
    """GPUs that runs of one account, queue and QOS hold now, and that others of it wait for."""

    account: str | None
    queue: str | None
    qos: str | None
    held_gpus: int
    waiting_gpus: int
    waiting_runs: int


@dataclass(frozen=True, slots=True)
class Balance:
    """One quota with its use. `borrowed_gpus` and `reclaimed_gpus` are what of its wait these two would start now."""

    name: str
    cohort: str | None
    guaranteed_gpus: int | None
    held_gpus: int
    waiting_gpus: int
    waiting_runs: int
    unused_gpus: int
    borrowed_gpus: int
    reclaimed_gpus: int
    words: str | None  # of who waits: why, and what helps


@dataclass(frozen=True, slots=True)
class QuotaReport:
    """Every quota, what belongs to none, and how many GPUs are free."""

    balances: tuple[Balance, ...]
    free_gpus: int
    as_of: int
    notes: tuple[str, ...]


def read_quotas(path: Path) -> Quotas:
    """Read a file, or all files of a folder.

    Raises:
        ConfigError: one cannot be read, is none of those, or says a number that is none.
    """
    try:
        paths = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
        ages = [each.stat().st_mtime_ns // 1000 for each in paths]
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if not paths or len(paths) > _FILES_MOST:
        raise ConfigError(f"{path} has {len(paths)} files of quotas; give 1 to {_FILES_MOST}")
    gathered = _Gathered()
    for each in paths:
        _read(each, gathered)
    return Quotas((*_kueue(gathered), *_slurm(gathered)), min(ages), tuple(gathered.notes))


@dataclass
class _Gathered:
    """What the files say, before it is put together."""

    objects: list[tuple[str, Json]] = field(default_factory=list)  # with the file's name
    shares: list[tuple[int, str, float]] = field(default_factory=list)  # depth, account, share
    limits: dict[str, int] = field(default_factory=dict)  # GrpTRES of accounts
    of_qos: dict[str, int] = field(default_factory=dict)  # and of QOS
    preempts: bool = False
    notes: list[str] = field(default_factory=list)


def _read(path: Path, into: _Gathered) -> None:
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MOST + 1)
        told = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if len(content) > _FILE_BYTES_MOST:
        raise ConfigError(f"{path} has more than {_FILE_BYTES_MOST // 2**20} MiB; it is no list of quotas")
    head = next((line for line in told.splitlines() if line.strip()), "")
    if "|" in head:
        _read_table(path, told, into)
        return
    try:
        documents = [strict_json(told, _FILE_BYTES_MOST)] if head.lstrip()[:1] == "{" else list(_documents(told))
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {plain(str(error).splitlines()[0])}") from error
    found = [one for document in documents for one in ([*objects(document, "items")] or [document])]
    known = [one for one in found if text(one, "kind") in ("ClusterQueue", "Cohort", "LocalQueue")]
    if not known:
        raise ConfigError(f"{path} has no ClusterQueue of Kueue, and no columns of sshare or sacctmgr -P")
    into.objects += [(str(path), one) for one in known]


def _documents(told: str) -> Iterator[Any]:
    for part in re.split(r"(?m)^---\s*$", told):
        if part.strip():
            yield yaml_said(part, _DEEPEST)


def _read_table(path: Path, told: str, into: _Gathered) -> None:
    lines = [line for line in told.splitlines() if line.strip()]
    names = [name.strip().casefold().replace(" ", "") for name in lines[0].split("|")]
    if not ({"account", "normshares"} <= {*names} or "grptres" in names or "preempt" in names):
        raise ConfigError(f"{path}, line 1: not the columns of sshare -P, or of sacctmgr -P with grptres or preempt")
    if len(lines) > _ROWS_MOST:
        raise ConfigError(f"{path} has more than {_ROWS_MOST:,} lines")
    for number, line in enumerate(lines[1:], 2):
        cells = line.split("|")
        if len(cells) < len(names):
            raise ConfigError(f"{path}, line {number}: {len(cells)} cells, and the header has {len(names)}")
        row = dict(zip(names, cells, strict=False))
        if row.get("user", "").strip():
            continue  # people: an account's row has all of them
        if "normshares" in row and row["normshares"].strip():
            depth = len(row["account"]) - len(row["account"].lstrip())
            into.shares.append((depth, row["account"].strip(), _share(path, number, row["normshares"])))
        gpus = _gres(row.get("grptres", ""))
        if gpus is not None and "account" in row:
            into.limits[row["account"].strip()] = gpus
        elif gpus is not None:
            into.of_qos[row.get("name", "").strip()] = gpus
        into.preempts |= bool(row.get("preempt", "").strip())


def _share(path: Path, number: int, cell: str) -> float:
    try:
        found = float(cell)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise ConfigError(f"{path}, line {number}: NormShares is {plain(cell.strip())!r}: not a share of 0 to 1")
    return found


def _gres(cell: str) -> int | None:
    """Return the GPUs of a TRES list, `cpu=100,gres/gpu=16`; kinds add up where there is no figure for all."""
    found = [(kind, int(count)) for kind, count in _GRES.findall(cell)]
    whole = [count for kind, count in found if not kind]
    return whole[0] if whole else sum(count for _, count in found) if found else None


def _kueue(gathered: _Gathered) -> Iterator[Quota]:
    parents = {
        text(one, "metadata", "name"): text(one, "spec", "parentName") or text(one, "spec", "parent")
        for _, one in gathered.objects
        if one["kind"] == "Cohort"
    }
    queues: dict[str, set[tuple[str, str | None]]] = {}
    for _, one in gathered.objects:
        if one["kind"] == "LocalQueue":
            of = queues.setdefault(text(one, "spec", "clusterQueue") or "", set())
            of.add((text(one, "metadata", "namespace") or "default", text(one, "metadata", "name")))
    flavors = 0
    for path, one in gathered.objects:
        if one["kind"] == "LocalQueue":
            continue
        name = text(one, "metadata", "name") or "unnamed"
        parts = list(_gpu_quotas(path, name, one))
        flavors = max(flavors, len(parts))
        if not parts and one["kind"] == "Cohort":
            continue
        guaranteed = sum(part[0] for part in parts)
        borrows = [part[1] for part in parts]
        lends = [part[2] for part in parts]
        above = name if one["kind"] == "Cohort" else text(one, "spec", "cohortName") or text(one, "spec", "cohort")
        extra = None if None in borrows else sum(each or 0 for each in borrows)
        yield Quota(
            name if one["kind"] == "ClusterQueue" else f"cohort {name}",
            _root(above, parents),
            guaranteed,
            guaranteed if above is None else None if extra is None else guaranteed + extra,
            None if None in lends else sum(each or 0 for each in lends),
            text(one, "spec", "preemption", "reclaimWithinCohort") in ("Any", "LowerPriority"),
            (text(one, "spec", "stopPolicy") or "None") != "None",
            frozenset(queues.get(name, ())) if one["kind"] == "ClusterQueue" else frozenset(),
        )
    if flavors > 1:
        gathered.notes.append(
            "Quotas of several flavors are added up: which kind of GPU a run waits for is not compared."
        )


def _gpu_quotas(path: str, name: str, one: Json) -> Iterator[tuple[int, int | None, int | None]]:
    """Yield the nominal quota, the borrowing and the lending limit of each flavor of GPUs."""
    for group in objects(one, "spec", "resourceGroups"):
        for flavor in objects(group, "flavors"):
            for resource in objects(flavor, "resources"):
                if _GPU.match(text(resource, "name") or ""):
                    figures = [
                        _quantity(path, name, key, at(resource, key))
                        for key in ("nominalQuota", "borrowingLimit", "lendingLimit")
                    ]
                    yield figures[0] or 0, figures[1], figures[2]


def _quantity(path: str, name: str, key: str, value: object) -> int | None:
    if value is None:
        return None
    try:
        return int(amount(value))
    except ValueError as error:
        raise ConfigError(f"{path}: {plain(name)}: {key} {error}") from error


def _root(cohort: str | None, parents: Mapping[str | None, str | None]) -> str | None:
    """Return the cohort at the top: what is unused anywhere below it may be borrowed."""
    for _ in range(_TREE_MOST):
        above = parents.get(cohort)
        if cohort is None or above is None:
            return cohort
        cohort = above
    raise ConfigError(f"cohort {plain(cohort or '')} is nested more than {_TREE_MOST} deep, or within itself")


def _slurm(gathered: _Gathered) -> Iterator[Quota]:
    """Yield accounts of the first level, each with those below it; without shares those with limits; then QOS."""
    shares = [each for each in gathered.shares if each[1] != "root"]
    first = min((depth for depth, *_ in shares), default=0)
    top = [(account, share) for depth, account, share in shares if depth == first]
    if sum(share for _, share in top) > 1.001:
        raise ConfigError("sshare: the shares of the first level are more than 1; keep the blanks before the accounts")
    below: dict[str, set[tuple[str, str | None]]] = {}
    last = ""
    for depth, account, _ in shares:
        last = account if depth == first else last
        below.setdefault(last, set()).add((account, None))
    for account, share in top:
        yield Quota(
            account, FAIR_SHARE, None, gathered.limits.get(account), None, gathered.preempts, False,
            frozenset(below[account]), norm_share=share,
        )  # fmt: skip
    of_none = [account for account in gathered.limits if account not in dict(top)]
    if top and of_none:
        names = ", ".join(map(plain, sorted(of_none)[:3]))
        gathered.notes.append(f"Limits of accounts below the first level ({names}) are not applied.")
    for account in () if top else of_none:
        yield Quota(account, None, None, gathered.limits[account], runs_of=frozenset({(account, None)}))
    for name, most in gathered.of_qos.items():
        yield Quota(f"QOS {name}", None, None, most, qos=name)


def read_use(session: Session, now_us: int) -> tuple[Use, ...]:
    """Return what is held and waited for at the end of the ledger, by account, queue and QOS.

    Raises:
        StoreError: the store does not answer.
    """
    found: dict[tuple[str | None, str | None, str | None], list[int]] = {}
    for account, queue, qos, gpus in session.rows(statements("capacity/held.sql")[0], {"end": now_us}):
        found.setdefault((account, queue, qos), [0, 0, 0])[0] += gpus
    for run in read_queue(session, now_us):
        use = found.setdefault((run.account, run.queue, run.qos), [0, 0, 0])
        use[1] += run.gpus
        use[2] += 1
    return tuple(Use(*key, *use) for key, use in found.items())


def balanced(quotas: Quotas, uses: Sequence[Use], free_gpus: int, fleet_gpus: int) -> QuotaReport:
    """Return who waits while whose guarantee is unused, and what borrowing and reclaiming would start at once.

    Borrowing needs GPUs that are free; reclaiming takes those that others of the cohort hold beyond what is theirs.
    """
    rows = []
    taken: set[int] = set()
    for quota in quotas.quotas:
        if quota.norm_share is not None:
            due = int(quota.norm_share * fleet_gpus + 1e-6)
            quota = replace(quota, guaranteed=due if quota.most is None else min(due, quota.most))  # noqa: PLW2901
        mine = [place for place, use in enumerate(uses) if _is_of(use, quota)]
        taken.update(mine)
        rows.append((quota, _sum(uses[place] for place in mine)))
    found = [_balance(quota, use, rows, free_gpus) for quota, use in rows]
    rest = _sum(use for place, use in enumerate(uses) if place not in taken)
    notes = list(quotas.notes)
    if rest.held_gpus or rest.waiting_runs:
        notes.append(
            f"Runs of no account or queue of these quotas hold {counted(rest.held_gpus, 'GPU')}, and wait for"
            f" {counted(rest.waiting_gpus, 'GPU')}."
        )
    return QuotaReport(tuple(found), free_gpus, quotas.as_of, tuple(notes))


def _is_of(use: Use, quota: Quota) -> bool:
    if quota.qos is not None:
        return use.qos == quota.qos
    return (use.account or "", use.queue) in quota.runs_of or (use.account or "", None) in quota.runs_of


def _sum(uses: Iterable[Use]) -> Use:
    held = waiting = runs = 0
    for use in uses:
        held, waiting, runs = held + use.held_gpus, waiting + use.waiting_gpus, runs + use.waiting_runs
    return Use(None, None, None, held, waiting, runs)


def _balance(quota: Quota, use: Use, rows: Sequence[tuple[Quota, Use]], free: int) -> Balance:
    own = quota.guaranteed or 0
    unused = max(0, own - use.held_gpus)
    others = [(one, of) for one, of in rows if one is not quota and one.cohort == quota.cohort is not None]
    room = use.waiting_gpus if quota.most is None else max(0, quota.most - use.held_gpus)
    by_own = min(use.waiting_gpus, unused, free, room)
    wanted = min(use.waiting_gpus, room) - by_own
    borrowed = min(max(0, wanted - (unused - by_own)), _lent(others), free - by_own)
    beyond = sum(max(0, of.held_gpus - (one.guaranteed or 0)) for one, of in others if one.guaranteed is not None)
    reclaimed = min(max(0, min(use.waiting_gpus, unused) - by_own), beyond)
    borrowed, reclaimed = (0, 0) if quota.is_stopped else (max(0, borrowed), reclaimed)
    words = None
    if use.waiting_runs:
        words = _words(quota, use, others, (by_own, borrowed, reclaimed, free))
    return Balance(
        quota.name, quota.cohort, quota.guaranteed, use.held_gpus, use.waiting_gpus, use.waiting_runs, unused, borrowed,
        reclaimed, words,
    )  # fmt: skip


def _lent(others: Sequence[tuple[Quota, Use]]) -> int:
    """Return what a cohort's other quotas can lend: what each may lend, less what is held of that."""
    found = 0
    for quota, use in others:
        own = quota.guaranteed or 0
        lends = own if quota.lends_most is None else min(own, quota.lends_most)
        found += lends - max(0, use.held_gpus + min(use.waiting_gpus, max(0, own - use.held_gpus)) - (own - lends))
    return max(0, found)


def _words(quota: Quota, use: Use, others: Sequence[tuple[Quota, Use]], starts: tuple[int, int, int, int]) -> str:
    """Return the sentence of who waits: for how much, while whose GPUs are unused, and what would start it."""
    by_own, borrowed, reclaimed, free = starts
    of_runs = f"{counted(use.waiting_runs, 'run')}"
    said = f"{plain(quota.name)} waits for {counted(use.waiting_gpus, 'GPU')} ({of_runs})"
    if quota.is_stopped:
        return f"{said}: its queue is stopped (stopPolicy)."
    if quota.most is not None and use.held_gpus >= quota.most:
        return f"{said}: it holds all of the {quota.most:,} that it may; neither borrowing nor reclaiming helps."
    unused = {plain(one.name): left for one, of in others if (left := (one.guaranteed or 0) - of.held_gpus) > 0}
    if unused:
        names = ", ".join(f"{name} leaves {left:,}" for name, left in sorted(unused.items())[:3])
        said += f" while {names} of what is theirs unused"
    helps = []
    if by_own:
        helps.append(f"{counted(by_own, 'free GPU')} {'is' if by_own == 1 else 'are'} within its own guarantee")
    if borrowed:
        helps.append(f"borrowing would start {borrowed:,} now")
    if reclaimed:
        refusal = "no QOS may (Preempt)" if quota.cohort == FAIR_SHARE else "reclaimWithinCohort does not allow"
        how = "" if quota.reclaims else f", which {refusal}"
        helps.append(f"reclaiming what others hold beyond theirs would start {reclaimed:,}{how}")
    if not helps:
        why = (
            "it is in no cohort" if quota.cohort is None else f"{counted(free, 'GPU')} are free, and none is to be lent"
        )
        helps.append(f"nothing to borrow or to reclaim: {why}")
    return f"{said}; {', and '.join(helps)}."


def as_of_words(report: QuotaReport) -> str:
    """Return when the quotas were printed, UTC."""
    return f"{datetime.fromtimestamp(report.as_of // 1_000_000, UTC):%Y-%m-%d %H:%M} UTC"


def waits(report: QuotaReport) -> list[str]:
    """Return the sentences of who waits."""
    words = [balance.words for balance in report.balances if balance.words is not None]
    return words or ["Nobody waits for GPUs under these quotas."]
