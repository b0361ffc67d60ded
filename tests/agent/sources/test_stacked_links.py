"""One byte once: interfaces that are stacked on each other, and hosts of every kind of stack."""

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.sources.network import NetworkSource

GB = 10**9
HEAD = "Inter-| Receive | Transmit\n face |bytes ...\n"
Bytes = tuple[int, int]  # received and sent


@dataclass
class Links:
    """The interfaces of a host: what each counts, and the files of its directory."""

    root: Path
    counted: dict[str, Bytes] = field(default_factory=dict)

    def add(self, name: str, counted: Bytes, *, device: str = "", master: str = "", **files: str) -> None:
        """Add one that counts so many bytes, upon a device, below a master. `lower` names those below, with blanks."""
        place = self.root / "sys/class/net" / name
        place.mkdir(parents=True)
        (place / "type").write_text("1\n")
        if device:
            (self.root / "sys/devices" / device).mkdir(parents=True, exist_ok=True)
            (place / "device").symlink_to(self.root / "sys/devices" / device)
        if master:
            (place / "master").symlink_to(f"../{master}")
        for lower in files.pop("lower", "").split():
            (place / f"lower_{lower}").symlink_to(f"../{lower}")
        for file, content in files.items():
            if content == "/":
                (place / file).mkdir()
            else:
                (place / file).write_text(content + "\n")
        self.counted[name] = counted

    def show(self, then: bool) -> None:
        """Write /proc/net/dev as it is at the first or at the second reading."""
        lines = [
            f"{name}: {7 + into * then} 1 0 0 0 0 0 0 {7 + out * then} 1 0 0 0 0 0 0"
            for name, (into, out) in self.counted.items()
        ]
        (self.root / "proc/net").mkdir(parents=True, exist_ok=True)
        (self.root / "proc/net/dev").write_text(HEAD + "\n".join(lines) + "\n")

    def sums(self) -> Bytes:
        """Read twice and return what all rows together received and sent."""
        source = NetworkSource(self.root / "proc", self.root / "sys")
        self.show(then=False)
        source.read()
        self.show(then=True)
        rows = source.read()["network_samples"]
        return tuple(sum(int(row[name] or 0) for row in rows) for name in ("receive_bytes", "transmit_bytes"))  # type: ignore[return-value]


@pytest.fixture
def links(tmp_path: Path) -> Links:
    """Return a host without interfaces."""
    return Links(tmp_path)


@pytest.mark.parametrize("told", ["master", "lower", "both"])
def test_a_virtual_function_is_counted_with_what_is_above_it(links: Links, told: str) -> None:
    """Azure's synthetic interface counts the function's bytes as well (LIS/lis-next pull request 620)."""
    links.add("eth0", (GB, 0), device="vmbus", lower="enP1s1" if told != "master" else "")
    links.add("enP1s1", (GB, 0), device="pci", master="eth0" if told != "lower" else "")
    assert links.sums() == (GB, 0)


def test_a_bond_is_its_cards(links: Links) -> None:
    """It has no device (iopsystems/rezolus#1184)."""
    links.add("eth0", (GB, 0), device="a", master="bond0")
    links.add("eth1", (GB, 0), device="b", master="bond0")
    links.add("bond0", (2 * GB, 0), lower="eth0 eth1", bonding="/")
    assert links.sums() == (2 * GB, 0)


@pytest.mark.parametrize(
    ("uplink", "guest"),
    [("p0", "pf0vf0"), ("p0s1", "pf0sf88"), ("", "0"), ("p0", "c1pf0vf3"), ("p1", "pf1hpf"), ("p0", "3")],
)
def test_what_represents_a_guest_is_no_traffic_of_its_own(links: Links, uplink: str, guest: str) -> None:
    """Its bytes have passed the uplink already, the other way round."""
    links.add("p0", (GB, 0), device="pci", phys_port_name=uplink, phys_switch_id="ab12")
    links.add("eth7", (0, GB), device="pci", phys_port_name=guest, phys_switch_id="ab12")
    links.add("eth8", (5, 6), device="other", phys_port_name="p0", phys_switch_id="")
    assert links.sums() == (GB + 5, 6)


def test_a_guest_s_port_without_its_uplink_is_all_that_is_seen(links: Links) -> None:
    """Of another switch's uplink nothing follows."""
    links.add("p0", (GB, 0), device="pci", phys_port_name="p0", phys_switch_id="ab12")
    links.add("eth7", (3, 4), device="pci2", phys_port_name="pf0vf0", phys_switch_id="cd34")
    assert links.sums() == (GB + 3, 4)


@pytest.mark.parametrize("mode", ["switchdev", "legacy"])
def test_a_function_of_a_card_is_counted_by_the_uplink_in_switchdev_mode_alone(links: Links, mode: str) -> None:
    """There the uplink counts what passes the wire, else each function counts its own."""
    switch = {"phys_switch_id": "ab12", "phys_port_name": "p0"} if mode == "switchdev" else {"phys_port_name": "p0"}
    links.add("eth0", (GB, 0), device="pf", **switch)
    links.add("eth1", (GB, 0), device="vf")
    devices = links.root / "sys/devices"
    (devices / "pf/net/eth0").mkdir(parents=True)
    (devices / "vf/physfn").symlink_to(devices / "pf")
    assert links.sums() == ((GB if mode == "switchdev" else 2 * GB), 0)


WIRE = 10**12


def stacked(links: Links, chance: random.Random) -> Bytes:
    """Build a host of cards, each with one kind of stack, and return what passed its wires."""
    truth = [0, 0]
    for card in range(chance.randint(1, 5)):
        wire = (chance.randrange(WIRE), chance.randrange(WIRE))
        part = (chance.randint(0, wire[0]), chance.randint(0, wire[1]))
        rest = (wire[0] - part[0], wire[1] - part[1])
        truth = [truth[0] + wire[0], truth[1] + wire[1]]
        stack = chance.choice(
            ["plain", "netvsc", "failover", "bond", "bridge", "vlan", "switchdev", "old", "functions"]
        )
        name, device = f"eth{card}", f"pci{card}"
        if stack == "plain":
            links.add(name, wire, device=device)
        elif stack == "netvsc":
            links.add(name, wire, device=device, lower=f"enP{card}s1")
            links.add(f"enP{card}s1", part, device=f"{device}v", master=name)
        elif stack == "failover":
            links.add(name, wire, device=device, lower=f"s{card} v{card}")
            links.add(f"s{card}", part, device=device, master=name)
            links.add(f"v{card}", rest, device=f"{device}v", master=name)
        elif stack == "bond":
            links.add(f"a{card}", part, device=device, master=f"team{card}")
            links.add(f"b{card}", rest, device=f"{device}b", master=f"team{card}")
            links.add(f"team{card}", wire, lower=f"a{card} b{card}")
            links.add(f"team{card}.9", part, lower=f"team{card}")
        elif stack == "bridge":
            links.add(name, wire, device=device, master=f"lan{card}")
            links.add(f"lan{card}", part, lower=f"{name} veth{card}", bridge="/")
            links.add(f"veth{card}", rest, master=f"lan{card}")
        elif stack == "vlan":
            links.add(name, wire, device=device)
            links.add(f"{name}.7", part, lower=name)
            links.add(f"mac{card}", rest, lower=name)
        elif stack == "functions":
            links.add(name, part, device=device)
            links.add(f"{name}v0", rest, device=f"{device}v")
            (links.root / "sys/devices" / f"{device}/net/{name}").mkdir(parents=True)
            (links.root / "sys/devices" / f"{device}v/physfn").symlink_to(links.root / "sys/devices" / device)
        else:
            uplink, guests = ("p0", ["pf0vf0", "pf0sf1", "c1pf0"]) if stack == "switchdev" else ("", ["0", "1", "-1"])
            links.add(name, wire, device=device, phys_switch_id=f"sw{card}", phys_port_name=uplink)
            for guest in guests[: chance.randint(0, 3)]:
                files = {"phys_switch_id": f"sw{card}", "phys_port_name": guest}
                links.add(f"r{card}x{guest}", (part[1], part[0]), device=device, **files)
    links.add("lo", (WIRE, WIRE))
    return truth[0], truth[1]


@pytest.mark.parametrize("seed", range(200))
def test_the_rows_of_a_host_are_what_passed_its_wires(tmp_path: Path, seed: int) -> None:
    """Two hundred hosts of every stack at once; the truth is known by how they were built."""
    links = Links(tmp_path)
    truth = stacked(links, random.Random(seed))
    order = list(links.counted)
    random.Random(seed).shuffle(order)
    links.counted = {name: links.counted[name] for name in order}
    assert links.sums() == truth


def test_a_container_counts_the_lowest_of_what_is_stacked(links: Links) -> None:
    """It sees no device."""
    links.add("eth0", (3, 0), master="bond0")
    links.add("eth1", (4, 0), master="bond0")
    links.add("bond0", (7, 0), lower="eth0 eth1")
    links.add("net1", (5, 0))
    links.add("mybridge", (9, 0), bridge="/")
    links.add("bond0.3", (2, 0), lower="bond0")
    assert links.sums() == (12, 0)


DATA, HARDWARE = ("counters/port_rcv_data", "counters/port_xmit_data"), ("hw_counters/rx_bytes", "hw_counters/tx_bytes")
RDMA = {  # of a port: link layer, files, and what both hold at the first and at the second reading
    "mlx5_0": ("InfiniBand", DATA, ("1000", "250001000")),
    "mlx5_bond_0": ("Ethernet", DATA, ("1000", "250001000")),
    "bnxt_re0": ("Ethernet", HARDWARE, ("1000", "1000001000")),
    "irdma0": ("Ethernet", DATA, ("N/A (no PMA)", "N/A (no PMA)")),
    "qib0": ("InfiniBand", DATA[:1], ("4294967295", "4294967295")),
}


def test_a_port_without_counters_ends_no_other_s_reading(links: Links) -> None:
    """Files that hold no number, and one that has stopped at its end (prometheus/node_exporter#966, #2846)."""
    links.add("lo", (1, 1))
    links.show(then=False)
    source = NetworkSource(links.root / "proc", links.root / "sys")
    rows: dict[str, object] = {}
    for reading in range(2):
        for name, (layer, files, content) in RDMA.items():
            port = links.root / "sys/class/infiniband" / name / "ports/1"
            for file, value in {"link_layer": layer, **dict.fromkeys(files, content[reading])}.items():
                (port / file).parent.mkdir(parents=True, exist_ok=True)
                (port / file).write_text(value + "\n")
        told = source.read()["network_samples"]
        rows = {str(row["device"]): (row.get("receive_bytes"), row.get("transmit_bytes")) for row in told}
    assert rows == {f"{name}:1": (GB, GB) for name in ("mlx5_0", "mlx5_bond_0", "bnxt_re0")} | {
        "irdma0:1": (None, None),
        "qib0:1": (None, None),
    }
