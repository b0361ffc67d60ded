"""Runs that wait for their input, each for one reason, and those that look so and do not."""

from bench.published.boards import NVLINKED
from bench.published.lanes import phase, stretch
from bench.published.setting import OPEN, Disk, Setting, Story, kind


@kind()
def storage_local(s: Setting) -> Story:
    """A local disk at its ceiling: ResNet-18 and AlexNet from SATA SSD wait 20-70 % of an epoch for reads.

    DS-Analyzer (VLDB'21): fetch stalls of cold or partly cached sets; 500 MB/s SATA, 150 MB/s spinning disk.
    """
    ceiling = s.pick(4.6e8, 5.4e8) if s.rng.random() < 0.7 else s.pick(1.3e8, 1.8e8)
    waits = {"read": ceiling / s.gpus, "busy": s.pick(0.93, 1.0), "rwait": s.pick(3, 12), "blocked": s.pick(0.5, 0.9)}
    host = waits | {"cpu": s.pick(0.7, 1.6), "workers": 6, "busiest": s.pick(0.2, 0.45), "waiting": s.pick(0.45, 0.85)}
    stall = phase("starved/storage", s.board.waiting(), {"runq": 0.003, "mem": 14}, host)
    step, share = s.pick(0.25, 4.0), s.pick(0.2, 0.65)
    lanes = s.apart(s.loading(), stall, step * share, s.work(host), step * (1 - share), s.pick(0, 0.4))
    device = "sda" if s.rng.random() < 0.6 else "nvme0n1"
    return Story(lanes, Disk(device, "block", s.pick(6e4, 2.6e5)))


@kind()
def storage_mount(s: Setting) -> Story:
    """A network file system at its ceiling, NFS over 10 GbE or Lustre over the fabric.

    MLPerf Storage v1.0: accelerators of cosmoflow reach 60 % of their time in a first epoch (shared/data, Juicedata).
    """
    kinds = (("/data", "nfs", False), ("/lustre", "lustre", True))
    device, mount, rdma = kinds[int(s.rng.integers(2))]
    ceiling = s.pick(0.95e9, 1.15e9) if not rdma else s.pick(2.5e9, 4.5e9)
    waits = {"read": ceiling / s.gpus, "rwait": s.pick(4, 15), "blocked": s.pick(0.45, 0.85), "runq": 0.003}
    host = waits | {"cpu": s.pick(0.8, 1.8), "workers": 8, "busiest": s.pick(0.2, 0.5), "waiting": s.pick(0.4, 0.8)}
    stall = phase("starved/network_storage", s.board.waiting(), {"mem": 14}, host)
    step, share = s.pick(0.4, 6.0), s.pick(0.2, 0.6)
    lanes = s.apart(s.loading(), stall, step * share, s.work(host), step * (1 - share), s.pick(0, 0.4))
    return Story(lanes, Disk(device, mount, 1e6, rdma))


@kind()
def storage_object(s: Setting) -> Story:
    """An object store behind FUSE or the process's own client: workers sleep in sockets, and no pressure shows it.

    GoogleCloudPlatform/gcsfuse#1830 (2-GPU hosts starve on GCSFuse); pytorch/xla#2690; reference, algorithms.md 1.2.
    """
    rate = s.pick(6e7, 2.2e8)
    host = {"read": rate, "blocked": 0.004, "waiting": 0.0, "cpu": s.pick(0.5, 1.1), "workers": 4, "busiest": 0.25}
    stall = phase("starved/network_storage", s.board.waiting(), {"runq": 0.003, "mem": 10}, host, busy=0.0)
    step, share = s.pick(0.5, 5.0), s.pick(0.25, 0.7)
    work = s.work(host, {"busy": 0.0})
    lanes = s.apart(s.loading(busy=0.0), stall, step * share, work, step * (1 - share), s.pick(0, 0.4))
    return Story(lanes, Disk("/gcs", "fuse" if s.rng.random() < 0.5 else "object", 1e6))


@kind()
def prep_workers(s: Setting) -> Story:
    """Loader workers each full, the host not: decoding and augmenting in Python, cached data.

    DS-Analyzer: prep stalls of 5-65 % of an epoch with 3 cores per GPU; Plumber (MLSys'22).
    """
    workers = int(s.rng.integers(2, 5))
    busy = {"cpu": workers + 0.5, "workers": workers, "busiest": s.pick(0.93, 0.99), "runq": 0.01, "waiting": 0.0}
    host = busy | {"read": s.pick(5e6, 4e7), "busy": 0.05, "blocked": 0.003, "mem": 16}
    stall = phase("starved/preprocessing", s.board.waiting(), host)
    step, share = s.pick(0.3, 4.0), s.pick(0.2, 0.65)
    s.cores = max(s.cores, s.gpus_per_host * (workers + 4))
    return Story(s.apart(s.loading(), stall, step * share, s.work(host), step * (1 - share), s.pick(0, 0.4)))


@kind()
def prep_quota(s: Setting) -> Story:
    """A pod's CPU limit: its workers are stopped in every period, while the host rests.

    NVIDIA/k8s-device-plugin#56: 0.83 iterations/s in the pod's cgroup, 1.66 outside.
    """
    quota = s.gpus_per_host * s.pick(1.6, 3.0)
    each = quota / s.gpus_per_host
    s.cores, s.cgroup = max(s.cores, s.gpus_per_host * 12), True
    held = {"throttled": s.pick(0.25, 0.9) * each, "runq": s.pick(0.3, 0.6), "cpu": 0.98 * each, "workers": 8}
    host = held | {"busiest": each / 9, "blocked": 0.003, "read": 2e7, "busy": 0.04, "waiting": 0.0, "mem": 12}
    stall = phase("starved/preprocessing", s.board.waiting(), host)
    step, share = s.pick(0.3, 4.0), s.pick(0.3, 0.6)
    lanes = s.apart(s.loading(), stall, step * share, s.work(host), step * (1 - share), s.pick(0, 0.4))
    return Story(lanes, scheduler="kubernetes", quota_cores=quota)


@kind()
def prep_full_cores(s: Setting) -> Story:
    """Every core of the host full of workers that share them: 3-4 vCPUs per GPU, as clouds rent them.

    DS-Analyzer: 24 cores for 8 V100s stall for half of ResNet-18's epoch, 3-24 cores per GPU would be needed.
    """
    s.cores = s.gpus_per_host * int(s.rng.integers(3, 5)) + 1
    each = 0.985 * s.cores / s.gpus_per_host
    full = {"cpu": each, "workers": 10, "busiest": each / 10, "runq": s.pick(0.35, 0.7), "blocked": 0.004}
    host = full | {"read": s.pick(2e7, 6e7), "busy": 0.1, "waiting": 0.0, "mem": 16}
    stall = phase("starved/preprocessing", s.board.waiting(), host)
    step, share = s.pick(0.3, 3.0), s.pick(0.25, 0.6)
    return Story(s.apart(s.loading(), stall, step * share, s.work(host), step * (1 - share), s.pick(0, 0.4)))


@kind(shapes=((1, 1), (1, 2)))
def no_workers(s: Setting) -> Story:
    """num_workers=0: the training's own thread decodes, then computes.

    Kineto's sample traces, V100, ResNet-50: kernels 54.9 % of the time, the loader 39.6 % (shared/data).
    """
    share = s.pick(0.3, 0.6)
    host = {"cpu": s.pick(0.97, 1.05), "workers": 0, "busiest": 0.0, "read": s.pick(5e6, 4e7), "busy": 0.05}
    calm = {"blocked": 0.01, "runq": 0.004, "waiting": 0.0, "mem": 6}
    stall = phase("starved/loader_software", s.board.waiting(), host, calm, data_wait=1.0)
    step = s.pick(0.2, 2.0)
    body = s.steps(s.seconds, (stall, step * share, 0.1), (s.work(host, calm), step * (1 - share), 0.04))
    accepts = {"starved/loader_software": {"starved/preprocessing"}}
    return Story(s.together(s.loading(), body), accepts=accepts)


@kind()
def slow_collate(s: Setting) -> Story:
    """Workers rest, the main thread puts batches together: one core full, the rest of the host quiet.

    yhenon/pytorch-retinanet#104; jwyang/faster-rcnn.pytorch#574 (GPUs wait, CPUs low with 8 workers).
    """
    share = s.pick(0.25, 0.6)
    host = {"cpu": s.pick(1.2, 1.5), "workers": 4, "busiest": s.pick(0.05, 0.12), "read": 1e7, "busy": 0.03}
    calm = {"blocked": 0.006, "runq": 0.004, "waiting": 0.0, "mem": 9}
    stall = phase("starved/loader_software", s.board.waiting(), host, calm)
    step = s.pick(0.2, 2.5)
    lanes = s.apart(s.loading(), stall, step * share, s.work(host, calm), step * (1 - share), s.pick(0, 0.4))
    return Story(lanes, accepts={"starved/loader_software": {"starved/preprocessing"}})


@kind()
def shallow_prefetch(s: Setting) -> Story:
    """Neither processors nor disks are full: too few workers that start late, one step in a few waits.

    Plumber (MLSys'22): most input-limited jobs saturate nothing; gsplat#1058 (nerfstudio-project): 13.9 ms a step,
    9.4 where fed, one in four waits; pytorch/pytorch#20687.
    """
    share = s.pick(0.2, 0.45)
    host = {"cpu": s.pick(1.3, 1.9), "workers": 2, "busiest": s.pick(0.4, 0.6), "read": s.pick(1e7, 5e7), "busy": 0.08}
    calm = {"blocked": 0.02, "runq": 0.003, "waiting": 0.02, "mem": 8}
    stall = phase("starved/loader_software", s.board.waiting(), host, calm)
    step = s.pick(0.5, 4.0)
    lanes = s.apart(s.loading(), stall, step * share, s.work(host, calm), step * (1 - share), s.pick(0, 0.4))
    return Story(lanes)


@kind()
def pageable_copies(s: Setting) -> Story:
    """Batches copied from pageable memory in the step: 2.4-6 GB/s where pinned does 12-50.

    fzyzcjy/torch_memory_saver#111 (2.4 against 24 GiB/s); ostris/ai-toolkit#813 (10 s a step pinned, 20 s not).
    """
    rate, share = s.pick(2.4e9, 5.5e9), s.pick(0.25, 0.55)
    host = {"cpu": s.pick(1.1, 1.6), "workers": 4, "busiest": s.pick(0.2, 0.5), "read": 2e7, "busy": 0.05}
    calm = {"blocked": 0.008, "runq": 0.003, "waiting": 0.01, "mem": 22}
    copying = s.board.waiting() | {"util": s.pick(0.0, 0.15), "h2d": rate, "dram": 0.01, "memutil": 0.01}
    stall = phase("starved/host_to_device", copying, host, calm, watts=1.12 * s.board.held_watts)
    step = s.pick(0.3, 3.0)
    parts = (stall, step * share, 0.08), (s.work(host, calm), step * (1 - share), 0.05)
    return Story(s.together(s.loading(), s.steps(s.seconds, *parts)))


@kind(shapes=((1, 1), (1, 2)))
def video_decoder(s: Setting) -> Story:
    """The video decoder is full and feeds the run: no loader, disk or processor is its limit.

    NVIDIA/DALI#2896: utilization between 1 and 100 %, 30 % on average. No cause of the ledger: it may be left open.
    """
    host = {"cpu": s.pick(0.7, 1.1), "workers": 0, "read": s.pick(2e7, 6e7), "busy": 0.05, "blocked": 0.005}
    decoding = {"dec": s.pick(0.95, 1.0), "watts": 1.15 * s.board.held_watts, "dram": 0.05, "data_wait": 1.0}
    stall = phase("starved/video_decoder", s.board.waiting(), host, decoding)
    step, share = s.pick(0.3, 2.0), s.pick(0.5, 0.72)
    work = s.work(host, {"dec": 0.97})
    body = s.steps(s.seconds, (stall, step * share, 0.15), (work, step * (1 - share), 0.1))
    accepts = {"starved/video_decoder": {"unexplained/", "starved/unknown"}}
    return Story(s.together(s.loading(), body), accepts=accepts, suspected=frozenset({"decoder"}))


@kind(boards=NVLINKED, shapes=((1, 4), (1, 8)))
def cpu_optimizer(s: Setting) -> Story:
    """The optimizer runs on the CPU: threads of math libraries full, GPUs at rest. No input is waited for.

    deepspeedai/DeepSpeed#1635: 22.9 of 24.1 s of each step.
    """
    host = {"cpu": s.pick(5, 7), "workers": 0, "blocked": 0.002, "runq": 0.05, "mem": 90, "read": 1e6}
    step, share = s.pick(8, 30), s.pick(0.4, 0.9)
    copying = phase(OPEN, s.board.waiting(), host, d2h=0.4 * s.board.copy_bytes_per_second)
    returning = phase(OPEN, s.board.waiting(), host, h2d=0.6 * s.board.copy_bytes_per_second)
    updating = phase(OPEN, s.board.waiting(), host)
    work = s.work(host, {"cpu": 1.1})
    parts = ((copying, 0.04), (updating, share - 0.08), (returning, 0.04), (work, 1 - share))
    lanes = s.together(s.loading(), s.steps(s.seconds, *((one, step * part, 0.05) for one, part in parts)))
    return Story(lanes, suspected=frozenset({"own_process"}))


@kind(boards=NVLINKED, shapes=((1, 4), (1, 8), (2, 8)))
def barrier_preparation(s: Setting) -> Story:
    """Rank 0 tokenises while the others wait in a barrier; then all train. Prepared before GPUs are held, it is free.

    hiyouga/LlamaFactory#2424: half an hour, until the watchdog ends it. No cause of the ledger.
    """
    long = s.pick(900, 2400)
    host = {"cpu": s.pick(3, 9), "workers": 8, "busiest": 0.95, "read": 5e7, "runq": 0.01, "mem": 20}
    memory = 0.03 * s.board.memory_gib
    load, train = s.loading(60), s.training(s.seconds)
    first = s.lane(load, stretch(phase(OPEN, s.board.waiting(0.03), host), long), train)
    waiting = phase(OPEN, s.spinning(), {"cpu": 1.0, "mem": 5}, hbm=memory)
    others = s.lane(load, stretch(waiting, long), train)
    accepts = {OPEN: {"starting/warm_up", "starting/model_load"}}
    return Story([first, *[others] * (s.gpus - 1)], accepts=accepts, suspected=frozenset({"own_process"}))
