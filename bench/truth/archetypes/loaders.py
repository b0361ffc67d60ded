"""What the host does to feed a run: how it is fed in time, and the ways in which it is not.

Published: 3 to 24 cores a GPU (DS-Analyzer); workers at 90% and more of a core where preprocessing is the limit; some
task waits for I/O more than 10% of the time where storage is (PSI); most input-limited jobs saturate nothing (Plumber:
2 M jobs); a client in user space (FUSE, S3) sleeps where a kernel mount waits; drives: hard disks in RAID 0.2 to 0.5,
SATA 0.5, NVMe 1 to 7 GB/s; links of 10, 25 and 100 Gbit/s; pageable copies 3 to 12 GB/s, where pinned ones reach 25
(PCIe 4) and 50 (PCIe 5).
"""

from typing import TypeAlias

from bench.truth.draw import GIB, Draw

Host: TypeAlias = dict[str, float]

NFS_OVERHEAD = 1.04  # of headers on the wire
DISK_CEILINGS = (2.5e8, 4.5e8, 5.5e8, 1.5e9, 3.2e9, 6.8e9)
LINKS = (1.25e9, 3.125e9, 1.25e10)  # 10, 25, 100 Gbit/s in bytes a second


def fed(draw: Draw) -> Host:
    """Return a host whose loader is faster than the GPUs: its workers rest part of the time."""
    source = str(draw.rng.choice(["disk", "mount", "object", "cache"], p=[0.35, 0.25, 0.15, 0.25]))
    host = _workers(draw, busiest=draw.uniform(0.15, 0.8))
    if source == "disk":
        host |= _disk(draw, busy=draw.uniform(0.03, 0.55), slower=draw.uniform(1, 2))
        host["io_pressure"] = draw.uniform(0.0, 0.25)  # some task waits often, and nothing waits for it
    elif source == "mount":
        host |= _mount(draw, share=draw.uniform(0.03, 0.5), slower=draw.uniform(1, 2))
        host["io_pressure"] = draw.uniform(0.0, 0.25)
    elif source == "object":
        host["ethernet_in"] = draw.log_uniform(5e6, 8e8)
    return host


def from_page_cache(draw: Draw) -> Host:
    """Return a host that reads nothing, since the data set fits into its memory."""
    return _workers(draw, busiest=draw.uniform(0.3, 0.88)) | {"host_memory": draw.uniform(120, 700) * GIB}


def beside_a_busy_disk(draw: Draw) -> Host:
    """Return a fed host whose drive another program keeps busy: a backup, an image that is unpacked."""
    host = _workers(draw, busiest=draw.uniform(0.1, 0.6))
    host |= {"others_disk_busy": draw.uniform(0.7, 0.99), "others_io_pressure": draw.uniform(0.2, 0.8)}
    return host | {"others_disk_written": draw.log_uniform(2e8, 2e9), "ethernet_in": draw.log_uniform(5e6, 2e8)}


def from_remote_workers(draw: Draw) -> Host:
    """Return a host to which preprocessed batches come over the network (Meta's DSI, tf.data service)."""
    host = _workers(draw, busiest=draw.uniform(0.05, 0.4), each=0.5)
    return host | {"ethernet_in": draw.log_uniform(2e8, 3e9)}


def slow_disk(draw: Draw) -> Host:
    """Return a local drive at its ceiling: workers wait in the kernel."""
    host = _workers(draw, busiest=draw.uniform(0.1, 0.6))
    host |= _disk(draw, busy=draw.uniform(0.86, 1.0), slower=draw.uniform(2.5, 12))
    host["iowait_cores"] = draw.uniform(0.3, 4.0)
    return host | _waiting_in_kernel(draw)


def slow_mount(draw: Draw) -> Host:
    """Return a network file system of the kernel at its ceiling, its server's or the link's."""
    host = _workers(draw, busiest=draw.uniform(0.1, 0.6))
    host |= _mount(draw, share=draw.uniform(0.25, 0.97), slower=draw.uniform(3, 15))
    return host | _waiting_in_kernel(draw)


def slow_object_store(draw: Draw) -> Host:
    """Return a client in user space that waits for an object store: it sleeps, and no kernel counter says for what."""
    host = _workers(draw, busiest=draw.uniform(0.15, 0.65))
    host["io_pressure"] = draw.uniform(0.0, 0.02)
    return host | {"ethernet_in": draw.uniform(0.2, 0.95) * float(draw.rng.choice(LINKS[:2]))}


def full_workers(draw: Draw) -> Host:
    """Return loader workers that fill a core each."""
    host = _workers(draw, busiest=draw.uniform(0.93, 1.0), full=True)
    host["cpu_pressure"] = draw.uniform(0.02, 0.7)
    return host | _some_reads(draw)


def refused_cores(draw: Draw) -> Host:
    """Return workers that a cgroup's quota stops in every period."""
    host = _workers(draw, busiest=draw.uniform(0.25, 0.75))
    draw.cores_allotted = max(1.0, round(host["cores"] / draw.uniform(0.95, 1.0)))
    host["refused_cores"] = draw.uniform(0.25, 2.5) * draw.cores_allotted
    host["cpu_pressure"] = draw.uniform(0.3, 0.95)
    return host | _some_reads(draw)


def one_hot_process(draw: Draw) -> Host:
    """Return one process that does all the loading and fills its core: one worker, or threads behind one lock."""
    draw.workers = 1 if draw.chance(0.6) else int(draw.rng.integers(2, 9))
    cores = (1.0 + draw.uniform(0.05, 0.6)) * draw.ranks_per_node
    return {"busiest_worker": draw.uniform(0.95, 1.0), "cores": cores, "host_memory": draw.uniform(6, 60) * GIB} | (
        _some_reads(draw)
    )


def nothing_saturated(draw: Draw) -> Host:
    """Return a loader limited by its own making: too few workers, no prefetching, locks; nothing is at its limit."""
    host = _workers(draw, busiest=draw.uniform(0.15, 0.65), each=draw.uniform(0.4, 0.9))
    host["cpu_pressure"] = draw.uniform(0.0, 0.05)
    return host | _some_reads(draw)


def copying(draw: Draw) -> Host:
    """Return a loader that rests while one thread of the run copies from pageable memory."""
    host = _workers(draw, busiest=draw.uniform(0.05, 0.4))
    host["cores"] += draw.uniform(0.6, 1.0) * draw.ranks_per_node
    return host | {"host_memory": draw.uniform(60, 400) * GIB}


def nothing(draw: Draw, cores: float = 0.3) -> Host:
    """Return a host on which a run's processes do next to nothing."""
    return {"cores": cores * draw.ranks_per_node, "host_memory": draw.uniform(2, 30) * GIB, "busiest_worker": 0.02}


def _workers(draw: Draw, busiest: float, each: float | None = None, *, full: bool = False) -> Host:
    """Return workers of which the busiest uses so much of a core, and the mean a little less."""
    most = max(2, min(24, draw.cores // draw.ranks_per_node - 1))
    draw.workers = int(draw.rng.integers(2, most + 1))
    mean = busiest * (each if each is not None else draw.uniform(0.93, 1.0) if full else draw.uniform(0.7, 1.0))
    cores = draw.ranks_per_node * (1.0 + draw.workers * mean)
    return {
        "cores": min(cores, 0.98 * draw.cores),
        "busiest_worker": busiest,
        "waiting_workers": draw.uniform(0.0, 0.08),
        "cpu_pressure": draw.uniform(0.0, 0.08),
        "io_pressure": draw.uniform(0.0, 0.03),
        "host_memory": draw.uniform(10, 120) * GIB,
    }


def _some_reads(draw: Draw) -> Host:
    """Return reading well below any ceiling, from wherever the data lie; often nothing, out of the page cache."""
    source = draw.rng.random()
    if source < 0.35:
        return {}
    if source < 0.7:
        return _disk(draw, busy=draw.uniform(0.02, 0.45), slower=draw.uniform(1, 1.5))
    return _mount(draw, share=draw.uniform(0.02, 0.3), slower=draw.uniform(1, 1.5))


def _disk(draw: Draw, busy: float, slower: float) -> Host:
    """Return reading from the local drive, each read `slower` times slower than one alone (0.1 to 8 ms of 128 KiB)."""
    ceiling = float(draw.rng.choice(DISK_CEILINGS))
    read = ceiling * busy
    alone = 6e-3 if ceiling < 5e8 else 2e-4
    return {"disk_read": read, "disk_busy": busy, "disk_waited": read / 131_072 * alone * slower}


def _mount(draw: Draw, share: float, slower: float) -> Host:
    """Return reading from a network file system, by a share of the link: NFS over Ethernet or Lustre over RDMA."""
    lustre = draw.chance(0.3)
    draw.mount_kind = "lustre" if lustre else "nfs"
    read = share * float(draw.rng.choice(LINKS[:2]))
    alone = draw.uniform(5e-4, 4e-3)
    host = {"mount_read": read, "mount_waited": read / 2**20 * alone * slower}
    return host | {"mount_fabric": 1.0 if lustre else 0.0}


def _waiting_in_kernel(draw: Draw) -> Host:
    return {"io_pressure": draw.uniform(0.15, 0.95), "waiting_workers": draw.uniform(0.25, 0.95)}
