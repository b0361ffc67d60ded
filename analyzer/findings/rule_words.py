"""What people call a rule. Its id ("fleet/ecc/corrected") is for programs; what is not here reads as its id."""

_RULES = {
    "busy, underused": "underutilized",  # as it is stored, from before states had these names
    "cross_rack": "cross-rack transfers",
    "fleet/cpu_only": "jobs without GPUs on GPU hosts",
    "fleet/drivers": "driver versions",
    "fleet/ecc/corrected": "corrected memory errors",
    "fleet/ecc/expired": "memory errors",
    "fleet/ecc/remapped": "replaced rows of memory",
    "fleet/ecc/uncorrected": "uncorrected memory errors",
    "fleet/ecc/xid": "Xid errors",
    "fleet/fragmentation": "free GPUs while runs wait",
    "fleet/fragmentation/kept": "GPUs kept while runs wait",
    "fleet/fragmentation/pieces": "free GPUs in pieces",
    "fleet/fragmentation/room": "free GPUs while runs wait",
    "fleet/links/errors": "errors of RDMA ports",
    "fleet/links/nvlink": "NVLink errors",
    "fleet/links/pcie": "PCIe errors",
    "fleet/links/speed": "speed of RDMA ports",
    "fleet/mixed": "serving beside training",
    "fleet/silent_agents": "silent agents",
    "fleet/zombie_memory": "memory that nobody holds",
    "restore_never_seen": "restore never seen",
    "run/hbm_headroom": "GPU memory nearly full",
    "run/mixed_precision": "idle tensor cores (mixed precision)",
    "run/packed_stages": "processor and GPU stages in one job",
    "run/too_large": "GPU too large for its job",
    "slow_gpu": "slow GPU",
    "waiting for input": "input starvation",
    "work lost": "lost work",
}


def rule_words(rule: str) -> str:
    """Return what people call a rule: its own name here, else the last words of its id."""
    return _RULES.get(rule) or rule.rpartition("/")[2].replace("_", " ")
