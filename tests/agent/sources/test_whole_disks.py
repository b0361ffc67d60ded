"""Each byte of a disk once: hosts with stacks of every kind, counters that begin anew, and jobs that read from them."""

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.procfs import differences
from agent.sources.disk import BlockDevices, DiskNumbers, DiskSource
from agent.sources.processes import blkio_bytes, io_bytes

SECTOR = 512


@dataclass
class Disks:
    """The block devices of a host: what each moved, by name, and how much of sysfs is shown ("all", "dev", "none")."""

    root: Path
    shows: str = "all"
    moved: dict[str, tuple[int, int]] = field(default_factory=dict)  # sectors read and written
    numbers: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, moved: tuple[int, int], *, size: int = 1000, slaves: str = "", mark: str = "") -> str:
        """Add one and return its number; `mark` is a file that only its kind has."""
        self.moved[name] = moved
        self.numbers[name] = number = f"{259 + len(self.numbers) // 200}:{len(self.numbers) % 200}"
        if self.shows != "none":
            place = self.root / "sys/class/block" / name.replace("/", "!")
            place.mkdir(parents=True)
            (place / "dev").write_text(number + "\n")
            if self.shows == "all":
                (place / "size").write_text(f"{size}\n")
                for below in slaves.split():
                    (place / "slaves" / below).mkdir(parents=True)
                if mark == "hidden":
                    (place / "hidden").write_text("1\n")
                elif mark:
                    (place / mark).mkdir()
                if mark != "partition":
                    (place / "queue").mkdir()
        return number

    def write(self) -> None:
        """Write /proc/diskstats."""
        lines = []
        for name, number in self.numbers.items():
            read, written = self.moved[name]
            busy = int(bool(read or written))
            major, minor = number.split(":")
            lines.append(f"{major:>4} {minor:>7} {name} {busy} 0 {read} {busy} {busy} 0 {written} 0 0 {busy} {busy}")
        (self.root / "proc").mkdir(exist_ok=True)
        (self.root / "proc/diskstats").write_text("\n".join(lines) + "\n")


def stacked(disks: Disks, chance: random.Random) -> tuple[tuple[int, int], dict[str, tuple[int, int]]]:  # noqa: C901  a branch a kind
    """Build a host and return what its disks moved, and by number what a job did there whose bytes count."""
    truth, counts = [0, 0], dict[str, tuple[int, int]]()

    def moved() -> tuple[int, int]:
        return chance.randrange(1, 2**50), chance.randrange(1, 2**50)

    def disk(name: str) -> tuple[int, int]:
        amount = moved()
        truth[0], truth[1] = truth[0] + amount[0], truth[1] + amount[1]
        counts[disks.add(name, amount)] = amount
        return amount

    for n in range(chance.randint(1, 6)):
        kind = chance.choice(
            ["plain", "lvm", "raid", "old way", "new way", "network", "mmc", "memory", "ways", "vdo", "disconnected"]
        )
        letter = "abcdef"[n]
        if kind == "plain":
            name = chance.choice(
                [f"sd{letter}", f"vd{letter}", f"nvme{n}n1", f"xvd{letter}", f"pmem{n}", f"cciss/c{n}d0"]
            )
            amount = disk(name)
            between = "p" if name[-1].isdigit() else ""
            for part in range(1, chance.randint(1, 4)):
                disks.add(f"{name}{between}{part}", amount, mark="partition")
        elif kind == "lvm":
            amount = disk(f"sd{letter}")
            disks.add(f"sd{letter}3", amount, mark="partition")
            disks.add(f"dm-{n}", amount, slaves=f"sd{letter}3", mark="dm")
        elif kind == "raid":
            both = [disk(f"nvme{n}n{part}") for part in (1, 2)]
            disks.add(f"md12{n}", both[0], slaves=f"nvme{n}n1 nvme{n}n2", mark="md")
            disks.add(f"md12{n}p1", both[0], mark="partition")
            disks.add(f"loop{n}", both[1], mark="loop")
        elif kind in ("old way", "new way"):
            first, second = moved(), moved()
            whole = (first[0] + second[0], first[1] + second[1])
            truth[0], truth[1] = truth[0] + whole[0], truth[1] + whole[1]
            counts[disks.add(f"nvme{n}n1", (0, 0) if kind == "old way" else whole)] = whole
            disks.add(f"nvme{n}c{n}n1", first, mark="hidden")
            disks.add(f"nvme{n}c{n + 1}n1", second, mark="hidden")
        elif kind == "network":
            disk(chance.choice([f"nbd{n}", f"rbd{n}", f"scini{letter}", f"nullb{n}"]))
        elif kind == "mmc":
            amount = disk(f"mmcblk{n}")
            disks.add(f"mmcblk{n}p1", amount, mark="partition")
        elif kind == "memory":
            disks.add(f"zram{n}", moved())
            disks.add(f"ram{n}", moved())
        elif kind == "ways":
            ways = [disk(f"sd{letter}{way}") for way in "xy"]
            disks.add(
                f"dm-2{n}",
                (ways[0][0] + ways[1][0], ways[0][1] + ways[1][1]),
                slaves=f"sd{letter}x sd{letter}y",
                mark="dm",
            )
        elif kind == "vdo":
            amount = disk(f"nvme1{n}n1")
            disks.add(f"bcache{n}", amount, slaves=f"nvme1{n}n1")
            disks.add(f"zd{16 * n}", amount)
        else:
            disks.add(f"nbd{n}", (0, 0), size=0)
    return (truth[0], truth[1]), counts


@pytest.mark.parametrize("shows", ["all", "dev", "none"])
@pytest.mark.parametrize("seed", range(70))
def test_the_disks_of_a_host_are_each_of_its_bytes_once(tmp_path: Path, seed: int, shows: str) -> None:
    """Two hundred hosts; the truth is known by how they were built, and sysfs may show it or hide it."""
    disks = Disks(tmp_path, shows)
    truth, counts = stacked(disks, random.Random(seed))
    disks.write()
    devices = BlockDevices(tmp_path / "proc", tmp_path / "sys")
    found = devices.counters()
    assert found is not None
    assert sum(one.read_bytes for one in found.values()) == truth[0] * SECTOR
    assert sum(one.written_bytes for one in found.values()) == truth[1] * SECTOR
    numbers = devices.numbers()
    assert numbers.disks >= counts.keys()
    assert numbers.disks | numbers.others == set(disks.numbers.values())
    job = {
        number: counts.get(number, (7, 7))
        for number in disks.numbers.values()
        if number in counts or number in numbers.others
    }
    io_stat = "".join(f"{number} rbytes={read} wbytes={written} rios=1\n" for number, (read, written) in job.items())
    blkio = "".join(f"{number} Read {read}\n{number} Write {written}\n" for number, (read, written) in job.items())
    assert io_bytes(io_stat, numbers) == truth
    assert blkio_bytes(blkio, numbers) == truth
    assert io_bytes(io_stat + "77:77 rbytes=1 wbytes=0\n", numbers) == (None, None)


def test_a_slot_of_the_network_that_is_not_connected_has_no_row(tmp_path: Path) -> None:
    """The kernel makes sixteen of them; one that was used is told, connected or not."""
    disks = Disks(tmp_path)
    disks.add("nbd0", (0, 0), size=0)
    disks.add("nbd1", (5, 0), size=0)
    disks.add("sda", (0, 0))
    disks.write()
    rows = DiskSource(tmp_path / "proc", sys=tmp_path / "sys").read()["disk_samples"]
    assert [row["device"] for row in rows] == ["nbd1", "sda"]


def test_a_disk_that_came_is_looked_at(tmp_path: Path) -> None:
    """What is known of devices is kept until one comes or goes."""
    disks = Disks(tmp_path)
    disks.add("sda", (1, 1))
    disks.write()
    devices = BlockDevices(tmp_path / "proc", tmp_path / "sys")
    assert devices.numbers() == DiskNumbers({"259:0"})
    disks.add("nvme0n1", (1, 1))
    disks.write()
    assert devices.numbers() == DiskNumbers({"259:0", "259:1"})


WRAP = [
    "259 0 nvme0n1 10 0 100 4294967000 5 0 50 0 0 0 0 0 0 0 0 0 0\n",
    "259 0 nvme0n1 99 0 16777316 704 9 0 2097202 0 0 0 0 0 0 0 0 0 0\n",
]


def test_milliseconds_that_begin_anew_take_no_bytes_along(tmp_path: Path) -> None:
    """The kernel counts a disk's milliseconds in 32 bits, its sectors in 64 (elastic/beats#30480)."""
    times = iter([100.0, 110.0])
    source = DiskSource(tmp_path, lambda: next(times), tmp_path)
    for told in WRAP:
        (tmp_path / "diskstats").write_text(told)
        (row,) = source.read()["disk_samples"]
    assert (row["read_bytes"], row["written_bytes"], row["read_wait_seconds"]) == (8 * 2**30, 2**30, 1.0)


@dataclass(frozen=True)
class Counters:
    """A wide counter and two narrow ones."""

    wide: int
    first: int
    second: int


STEPS = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), max_size=20)


@given(st.integers(1, 2**63), st.integers(0, 2**40), st.integers(0, 2**40), STEPS, st.booleans())
def test_a_counter_that_wraps_has_moved_and_one_that_was_reset_has_not(
    wide: int, first: int, second: int, steps: list[tuple[int, int, int]], reset: bool
) -> None:
    """Whatever the narrow ones show, they moved by what was added; after a reset nothing is known."""
    names, true = ("wide", "first", "second"), [wide, first, second]
    for step in steps:
        before = Counters(true[0], true[1] % 2**32, true[2] % 2**32)
        true = [value + added for value, added in zip(true, step, strict=True)]
        now = Counters(true[0], true[1] % 2**32, true[2] % 2**32)
        assert differences(before, now, names, narrow=names[1:]) == dict(zip(names, step, strict=True))
    if reset:
        before, now = Counters(true[0], true[1] % 2**32, true[2] % 2**32), Counters(0, 0, 0)
        assert set(differences(before, now, names, narrow=names[1:]).values()) == {None}
