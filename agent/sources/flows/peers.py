"""Addresses to node names: from a table of the site, else from /etc/hosts; never by a question to a name server."""

import csv
import io
import ipaddress
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agent.errors import ConfigError
from agent.procfs import text
from agent.sources.topology.site import MOST_NODES, read_text

_LOG = logging.getLogger(__name__)
_COLUMNS = ("address", "node")
_HOSTS = Path("/etc/hosts")

_Networks = dict[tuple[int, int], dict[int, str]]  # (bits of the address, of its prefix) to network number to node
_Stamp = tuple[int, int] | None  # when a file was changed, and its size


class Names:
    """Names of addresses and networks; the longest prefix wins, and of two equal ones the first."""

    def __init__(self, entries: Iterable[tuple[str, str]]) -> None:
        """Take (address or network, node) pairs.

        Raises:
            ValueError: a text is no address and no network, or there are too many.
        """
        self._networks: _Networks = {}
        for count, (address, node) in enumerate(entries):
            if count >= MOST_NODES:
                raise ValueError(f"there are more than {MOST_NODES} addresses")
            network = ipaddress.ip_network(address.strip(), strict=False)
            bits, prefix = network.max_prefixlen, network.prefixlen
            number = int(network.network_address) >> (bits - prefix)
            self._networks.setdefault((bits, prefix), {}).setdefault(number, node)
        self._lengths = sorted(self._networks, key=lambda length: -length[1])

    def name(self, address: bytes) -> str | None:
        """Return the node at a packed address, or None."""
        bits, number = 8 * len(address), int.from_bytes(address, "big")
        for length in self._lengths:
            if length[0] == bits and (node := self._networks[length].get(number >> (bits - length[1]))) is not None:
                return node
        return None


class Peers:
    """Names the host at the other end. Both files are read again when they change.

    Raises:
        ConfigError: the table cannot be read or understood. Once it was, a broken one is logged, and the last good
            one stays.
    """

    def __init__(self, table: Path | None = None, hosts: Path = _HOSTS) -> None:
        self._table = table
        self._hosts = hosts
        self._stamps: tuple[_Stamp, _Stamp] = (None, None)
        self._listed = Names([]) if table is None else read_peers(table)
        self._hosted = Names([])
        self._stamps = (_stamp(table), None)
        self.refresh()

    def refresh(self) -> None:
        """Read again what has changed."""
        table, hosts = _stamp(self._table), _stamp(self._hosts)
        if table != self._stamps[0] and self._table is not None:
            try:
                self._listed = read_peers(self._table)
            except ConfigError as error:
                _LOG.warning("%s; the last good table stays", error)
        if hosts != self._stamps[1]:
            self._hosted = Names(hosts_entries(text(self._hosts) or ""))
        self._stamps = (table, hosts)

    def node(self, address: bytes) -> str | None:
        """Return the node at a packed address, or None where no file names it."""
        return self._listed.name(address) or self._hosted.name(address)


def address_text(address: bytes) -> str:
    """Return a packed address as people write it."""
    return str(ipaddress.ip_address(address))


def read_peers(path: Path) -> Names:
    """Read a CSV table of address-or-network,node.

    Raises:
        ConfigError: it cannot be read, has other columns, or holds what is no address.
    """
    reader = csv.DictReader(io.StringIO(read_text(path)), skipinitialspace=True)
    try:
        if not set(_COLUMNS) <= {name.strip() for name in reader.fieldnames or ()}:
            raise ConfigError(f"{path} has no columns {','.join(_COLUMNS)}; begin it with that line")
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        return Names(_pairs(reader))
    except (ValueError, csv.Error) as error:
        raise ConfigError(f"{path}, line {reader.line_num}: {error}") from error


def _pairs(rows: Iterable[Mapping[str, str | None]]) -> Iterator[tuple[str, str]]:
    for row in rows:
        address, node = ((row.get(column) or "").strip() for column in _COLUMNS)
        if address and node:
            yield address, node


def hosts_entries(hosts: str) -> Iterator[tuple[str, str]]:
    """Yield (address, node) of the lines of /etc/hosts, as far as they name other hosts.

    Of several names the first without a dot is taken: schedulers mostly call hosts by their short names.
    Source: hosts(5).
    """
    for count, line in enumerate(hosts.splitlines()):
        address, *names = line.partition("#")[0].split() or [""]
        if count >= MOST_NODES or not names:
            continue
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            continue
        if not (parsed.is_loopback or parsed.is_multicast or parsed.is_unspecified):
            yield str(parsed).partition("%")[0], next((name for name in names if "." not in name), names[0])


def _stamp(path: Path | None) -> _Stamp:
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found else None
