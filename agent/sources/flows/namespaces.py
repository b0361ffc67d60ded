"""How many other network namespaces this one has links into: what happens there is not seen from here."""

import struct
from pathlib import Path

from agent.procfs import understanding
from agent.sources.sockets.netlink import Listing, attributes, listing

_NETLINK_ROUTE = 0
_RTM_GETLINK = 18
_IFLA_LINK_NETNSID = 37

_QUESTION = struct.Struct("=16x")  # struct ifinfomsg: of all links
_PLACE = Path("netlink/route")  # a name for messages; no such file is read
_NUMBER = struct.Struct("=i")


def neighbour_namespaces(ask: Listing = listing) -> int:
    """Return how many network namespaces hold the other end of a link of ours, as those of containers and pods do.

    Raises:
        SourceError: the kernel does not tell.

    Source: rtnetlink(7); include/uapi/linux/if_link.h.
    """
    with understanding(_PLACE):
        numbers = {
            _NUMBER.unpack_from(body, start)[0]
            for body in ask(_NETLINK_ROUTE, _RTM_GETLINK, _QUESTION.pack())
            for kind, start, end in attributes(body, _QUESTION.size)
            if kind == _IFLA_LINK_NETNSID and end - start >= _NUMBER.size
        }
    return len(numbers - {-1})
