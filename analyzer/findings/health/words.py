"""The words of each notice, once: what it says, what was seen, and what would prove it wrong.

Templates take the fields of the row that was judged by name, with the unit as format spec (notice.SPECS); what is no
field is a word that the rule chooses, beside its condition.
"""

from collections.abc import Mapping

from analyzer.findings.health.notice import NoticeWords

_ASKS_FOR_MORE = "the run needs more than GPUs (cores, memory, a GPU model), or may spread over more hosts than assumed"
WORDS: Mapping[str, NoticeWords] = {
    "hardware/pcie_width": NoticeWords("PCIe link of {width} lanes where {width_max} are possible: reseat it"),
    "hardware/pcie_generation": NoticeWords(
        "PCIe generation {generation} under load of {generation_max} possible: check slot and BIOS"
    ),
    "hardware/memory_rows": NoticeWords("{rows}"),
    "hardware/recovery": NoticeWords("the driver asks for {action}"),
    "fleet/ecc/xid": NoticeWords("{xids}: {remedy}", wrong_if="a reset or a driver upgrade was tried there on purpose"),
    "fleet/ecc/uncorrected": NoticeWords(
        "{uncorrected:count uncorrected memory error}: reset it when it is next free, and have it tested if there are "
        "more",
        (("uncorrected errors", "{uncorrected:,}"),),
        "the counter was reset with the driver",
    ),
    "fleet/ecc/remapped": NoticeWords(
        "{remapped} rows of its memory remapped, {grown} of them in this period: have it tested before its spare "
        "rows run out",
        (("remapped rows", "{remapped}", "{remapped_before} before"),),
        "they lie in many banks, each of which has eight spare rows",
    ),
    "fleet/ecc/corrected": NoticeWords(
        "{newest:,} corrected memory errors this week, {before:,} the week before: the rate doubles, which often "
        "precedes an uncorrected error; have it tested when it is next free",
        wrong_if="it was used more each week",
        confidence="medium",
    ),
    "fleet/links/pcie": NoticeWords(
        "{worst_hour:,} PCIe packets replayed in its worst hour: reseat it, or change its riser or cable",
        (
            ("replays", "{replays:,} in {hours:count hour}"),
            ("worst hour", "{worst_hour:,}", "the recommended maximum is {most}"),
        ),
        "they all came from one link reset",
    ),
    "fleet/links/speed": NoticeWords(
        "{device} runs at {gigabits} Gbit/s where most ports of {node_group} run at {usual}: check the cable, the "
        "transceiver and the switch port; every run that spans this host waits for it",
        (("speed", "{gigabits} Gbit/s", "{usual} elsewhere"),),
        "it is a different kind of port, for storage or management",
        confidence="medium",
    ),
    "fleet/links/errors": NoticeWords(
        "{device} had {rate:,} errors per hour, the median of its neighbors {median:,}: replace its cable",
        (("errors", "{errors:,}", "{rate:,} per hour"), ("neighbors", "{median:,} per hour")),
        "they are drops of a full queue, not a link fault",
        confidence="medium",
    ),
    "slow_gpu": NoticeWords(
        "{runs} runs waited {milliseconds:decimal_hours} GPU-hours for it: check its clocks, links and cooling",
        (("waited for it", "{milliseconds:decimal_hours} GPU-hours", "by the other ranks of {runs} runs"),),
        "those runs gave its rank more work than the others",
        confidence="medium",
    ),
    "fleet/zombie_memory": NoticeWords(
        "{bytes:gib} of its memory in use for {ms:time} while no run held it: {todo}",
        (
            ("memory in use", "never below {bytes:gib}"),
            ("holders", "no run, no known process", "{ms:time}"),
            ("utilization", "{at_most}"),
        ),
        "a run that the scheduler did not report holds it, or a daemon keeps a context on purpose",
    ),
    "fleet/foreign_processes": NoticeWords(
        "{others:count other run}{whose} ({names}) computed for {ms:decimal_hours} GPU-hours on {gpus:count GPU} that "
        "it held ({nodes}), and {taken}: find whose they are and how they came past the scheduler, and confine every "
        "job to its own GPUs (Slurm: ConstrainDevices)",
        (
            ("processes of others", "{others:,} on {gpus:count GPU}", "{ms:decimal_hours} GPU-hours beside its own"),
            ("SM time they took", "{seen}"),
        ),
        "they are part of the run, started past its scheduler",
    ),
    "fleet/foreign_processes/own": NoticeWords(
        "{others:count other run} of its own user ({names}) computed for {ms:decimal_hours} GPU-hours on "
        "{gpus:count GPU} that it held ({nodes}), and {taken}: end what was left behind, or run it in a job of its own",
        (
            ("processes of the same user", "{others:,} on {gpus:count GPU}", "{ms:decimal_hours} GPU-hours"),
            ("SM time they took", "{seen}"),
        ),
        "they are part of the run, started past its scheduler",
        actor="run",
    ),
    "fleet/silent_agents/never_seen": NoticeWords(
        "is owned and has never reported: {gpus:count GPU} paid for and not measured; install its agent, or end its "
        "row in the fleet file",
        (("last seen", "none"),),
        "the host reports under another name",
    ),
    "fleet/silent_agents/silent": NoticeWords(
        "{why} for {silent_ms:time}: {gpus:count GPU} paid for and not measured; check gpuledger-agent there",
        (("last seen", "{silent_ms:time} before the newest sample of the fleet"),),
        "its samples are spooled on its disk and will arrive late",
    ),
    "fleet/silent_agents/dropped": NoticeWords(
        "its spool was full and dropped {batches} ({dropped_rows:,} rows): give it more disk, or find why the "
        "collector was unreachable",
        (("dropped", "{dropped_rows:,} rows"),),
        "the rows have since been imported",
    ),
    "fleet/silent_agents/gaps": NoticeWords(
        "its agent missed {missed:percent} of its samples: check what blocks it (top, a hanging driver call)",
        (("missed samples", "{gaps:,}", "over {most:percent}"),),
        "the host was suspended, or so overloaded that everything on it waited",
    ),
    "fleet/silent_agents/clock": NoticeWords(
        "its clock is {seconds:.1f} s off the collector's, which makes the start and end of runs equally uncertain: "
        "check its chrony or ntpd",
        (("offset", "{seconds:.1f} s", "over {most:.0f} s"),),
        "the collector's clock is the wrong one: then all agents report an offset",
    ),
    "fleet/drivers": NoticeWords(
        "driver {version} on {nodes}, {usual} on most of the {hosts} hosts of {group}: {todo}, so that one run has one "
        "driver",
        wrong_if="these hosts differ on purpose, for example to test a driver, or the upgrade is under way",
    ),
    "fleet/drivers/behind": NoticeWords(
        "driver {usual} on {group} ({nodes}), {fleet} on most of the fleet: plan its upgrade",
        (("driver", "{usual}", "{fleet} on most hosts"),),
        "the newer driver no longer supports these GPUs",
        confidence="medium",
    ),
    "fleet/fragmentation/pieces": NoticeWords(
        "{idle:,} GPU-hours free while {runs:count run} ({names}) waited, on no host as many as they need: pack small "
        "runs on fewer hosts, or let the scheduler defragment",
        wrong_if=_ASKS_FOR_MORE,
    ),
    "fleet/fragmentation/kept": NoticeWords(
        "{idle:,} GPU-hours free while {runs:count run} ({names}) waited, withheld by a drain or a reservation: end "
        "what has expired, or let short runs backfill it",
        wrong_if=_ASKS_FOR_MORE,
        actor="capacity",
    ),
    "fleet/fragmentation/room": NoticeWords(
        "{idle:,} GPU-hours free while {runs:count run} ({names}) waited, enough of them on hosts that these runs may "
        "use: see limits, backfill and priorities",
        wrong_if=_ASKS_FOR_MORE,
    ),
    "fleet/cpu_only": NoticeWords(
        "keeps {cores:tenths} cores of {nodes} busy for {ms:time} and {left}{also}: move it to hosts without GPUs, or "
        "request no GPUs",
        (
            ("processors", "{cores:tenths} cores on average", "{ms:time} long"),
            ("GPUs", "{held}"),
            ("free at the same time", "{free_ms:hours} GPU-hours on these hosts"),
        ),
        "the GPUs are used by a part of the run that is not measured, or these cores are spare",
    ),
    "fleet/mixed": NoticeWords(
        "serves on {hosts} beside training ({runs}) for {ms:time}; {effect}: give services dedicated hosts",
        (
            ("over its SLO, beside training", "{missed.permille:percent}"),
            ("over its SLO, otherwise", "{missed_alone.permille:percent}"),
            ("training throttled or starved, beside it", "{slowed.permille:percent}"),
            ("training throttled or starved, otherwise", "{slowed_alone.permille:percent}"),
        ),
        "the service peaks in the hours in which training runs beside it",
    ),
    "fleet/mixed/queue": NoticeWords(
        "takes {services:count service} and {trainings:count training run}: in separate queues, neither waits for "
        "the other's GPUs",
        (("in this queue", "{services:count service}, {trainings:count training run}"),),
        "its priorities or quotas already keep the two apart",
        confidence="low",
    ),
    "run/hbm_headroom": NoticeWords(
        "{free:gib} of {memory_bytes:gib} GPU memory left at its peak: a longer sequence or batch runs out of "
        "memory; leave a tenth free (smaller micro-batch, activation checkpointing, sharding)",
        (
            ("memory in use", "{full_permille:percent} at its peak", "over {limit:percent}"),
            ("trend", "{course}"),
            ("ended out of memory", "{failed:count run} of this name"),
        ),
        "its framework reserves memory at the start (JAX, vLLM) or caches what it has freed (PyTorch)",
        actor="run",
    ),
    "run/mixed_precision": NoticeWords(
        "tensor cores unused ({tensor:percent}) while SMs are busy ({sm:percent}) over {ms:hours} GPU-hours: train in "
        "mixed precision (BF16 with autocast; TF32 for what must stay FP32)",
        (
            ("SM activity", "{sm:percent}"),
            ("tensor cores", "{tensor:percent} at its peak", "under {limit:percent}"),
            ("FP32 pipe", "{fp32:percent}"),
        ),
        "its work is not matrix products (simulation, embeddings, graph kernels), or loses accuracy in BF16",
        actor="run",
    ),
    "run/packed_stages": NoticeWords(
        "its GPUs are at {gpu:percent}: they wait {cpu_share:percent} of the time while its CPUs are full, and "
        "work {gpu_share:percent} in turns: split it into a CPU run and a GPU run",
        (
            ("CPUs full, GPUs idle", "{cpu_share:percent}"),
            ("GPUs busy, CPUs not full", "{gpu_share:percent}"),
            ("turns", "{turns:,}", "in {hours:,} hours"),
        ),
        "each stage needs what the other keeps in memory, or the CPU stage is an evaluation",
        actor="run",
    ),
    "run/long_start": NoticeWords(
        "held {gpus:count GPU} for {longest_ms:time} before any of them worked{meanwhile}, {starting_ms:decimal_hours} "
        "GPU-hours in all: {remedy}",
        (("longest start", "{longest_ms:time}", "of {gpus:count GPU}"),),
        "the run did work there that no GPU counter shows",
        actor="run",
    ),
    "run/too_large": NoticeWords(
        "{busiest:percent} utilization and {most:gib} of {sku} at its peak over {held_ms:hours} GPU-hours: {instead} "
        "would do; try it with one run",
        wrong_if="it needs the large GPU for a part of its work outside this period, or for peers and links; "
        "what JAX and vLLM reserve says nothing about what they need, and was not the reason here",
        actor="run",
    ),
    "checkpoint_cadence": NoticeWords(
        "saves every {now}, {best} would lose the least: save {advice}; about {stake_ms:decimal_hours} GPU-hours in "
        "this period",
        (
            ("interval", "{now}", "best is {best}"),
            ("time to save", "{save_seconds:.0f} s", "the GPUs are stalled meanwhile"),
            ("failures", "one every {mtbf} on {nodes} hosts"),
        ),
        "the run saves for a reason other than failures, or its failures are not those of the last four weeks",
        actor="run",
        confidence="medium",
    ),
    "restore_never_seen": NoticeWords(
        "{count} checkpoints, and no restore was ever observed: test a restore before a failure forces one",
        (("written", "{count} in {held_hours:,.0f} GPU-hours"),),
        "they were read elsewhere: by an evaluation, or in a run of another name",
        actor="run",
        confidence="medium",
    ),
    "serving/kv_cache_full": NoticeWords(
        "The KV cache of {service} was full with requests waiting for {share} of the time: a shorter context, a "
        "smaller cache type, more GPU memory for it or one more replica would admit them.",
        (
            ("KV cache", "95% and more in use, and a queue, for {share} of the time", "<- the limit"),
            ("fullest ten minutes", "{kv_most_percent:.0f}% in use on average"),
        ),
        "the same load on a cache twice the size queues just as long",
        actor="run",
    ),
    "serving/queue_beside_idle_gpus": NoticeWords(
        "Requests of {service} waited while its GPUs had no kernel for at least {share} of the time: host threads, the "
        "scheduler or its limits block them, and more GPUs would not help.",
        (("queue beside idle GPUs", "at least {queue_idle_ms:decimal_hours} GPU-hours", "<- the limit"),),
        "a replica more shortens the queue",
        actor="run",
        confidence="medium",
    ),
    "serving/host_threads": NoticeWords(
        "{service} worked on requests without a kernel on its GPUs for at least {share} of the time while its "
        "CPU was full: host threads (tokenizing, scheduling, Python) are the limit.",
        wrong_if="more cores or more server processes do not raise requests per second at the same latency",
        actor="run",
        confidence="medium",
    ),
    "serving/unbatched": NoticeWords(
        "{service} answers its requests one by one while others wait, for {share} of its busy time. Batching "
        "would answer them together on the same GPU.",
        (
            ("requests at once", "about 1 for {single_ms:decimal_hours} GPU-hours", "<- unbatched"),
            ("queue at the same time", "{queued_percent:.0f}% of the time"),
        ),
        "batching does not raise requests per second at the same latency",
        actor="run",
        confidence="medium",
    ),
    "serving/late_while_replicas_stand_by": NoticeWords(
        "First tokens of {service} missed the SLO in {late_windows} windows of ten minutes while {runs} of it "
        "stood by: check how requests are distributed.",
        (
            ("late, with replicas on standby", "{late_hours:.1f} hours", "<- the limit"),
            ("on standby at the same time", "{late_standing_ms:decimal_hours} GPU-hours"),
        ),
        "evenly distributed requests are just as late",
        actor="run",
        confidence="medium",
    ),
    "serving/unread": NoticeWords(
        "The metrics of {service} were not read for {share} of the time: {why}. What it did then is not known.",
        (("not read", "{unread_ms:time} of {told_ms:time}", "state: {state}"),),
    ),
    "serving/cold_starts": NoticeWords(
        "{service} spent {starting_ms:decimal_hours} GPU-hours starting up, {share} of what it held: "
        "{starts:count start} of {gpus:count GPU}, median {usual:,.0f} s. Weights on local disk, fewer restarts or a "
        "warm reserve shorten it.",
        (
            ("starts", "{starts}, of {gpus:count GPU}, in {days:count day}"),
            ("time of a start", "median {usual:,.0f} s, longest {longest:,.0f} s"),
        ),
        "the service starts as often and takes as long with its weights on local disk",
        actor="run",
    ),
}

# Why a service's page is not read, by the agent's word for it (docs/services.md), and the way out.
UNREAD_WORDS = {
    "key_wanted": "it wants a key; put it into a file and name that in agent.services (;token_file=/path)",
    "redirect": "it redirects; name the address to which it does in agent.services",
    "server_error": "the server itself fails; see its log",
    "no_page": "there is no such page; name the address of its metrics in agent.services",
    "empty": "the page is empty; nobody may have asked it for anything",
    "foreign": "the page is of no serving engine that is known; name another address in agent.services",
    "too_large": "the page is too large",
    "too_slow": "it takes more than five seconds to answer",
    "unreachable": "it does not answer",
    "several_processes": "several processes take turns behind its address; name each in agent.services",
    "model_wanted": "it has several models; name the one whose requests count in agent.services (;model=NAME)",
    "role_wanted": "it may be a half of a server; say which in agent.services (;role=prefill or ;role=decode)",
}
