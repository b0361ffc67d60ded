"""What the environment of a process says of its run. Read on this host where permitted, and never sent."""

from collections.abc import Mapping

# All that is ever kept of an environment.
KEYS = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "GPULEDGER_RUN_ID",
        "HOSTNAME",
        "MASTER_PORT",
        "OMPI_COMM_WORLD_RANK",
        "PMIX_NAMESPACE",
        "RANK",
        "RAY_JOB_ID",
        "SLURM_ARRAY_JOB_ID",
        "SLURM_ARRAY_TASK_ID",
        "SLURM_HET_JOB_ID",
        "SLURM_HET_JOB_OFFSET",
        "SLURM_JOB_GPUS",
        "SLURM_JOB_ID",
        "SLURM_JOB_NUM_NODES",
        "SLURM_PROCID",
        "SLURM_RESTART_COUNT",
        "SLURM_SHARDS_ON_NODE",
        "SLURM_STEP_GPUS",
        "TORCHELASTIC_RUN_ID",
        "WORLD_SIZE",
    }
)
_VALUE_CHARACTERS_MAX = 1024  # sixteen UUIDs of MIG instances are 656
_NUMBER_DIGITS_MAX = 18  # anyone can write an environment: what follows stays within 64 bits


def allowed(environ: str) -> dict[str, str]:
    """Return the allow-listed variables of the text of /proc/<pid>/environ; all others are forgotten here."""
    pairs = (entry.partition("=") for entry in environ.split("\0"))
    return {key: value for key, _, value in pairs if key in KEYS and 0 < len(value) <= _VALUE_CHARACTERS_MAX}


def slurm_job_id(environment: Mapping[str, str]) -> str | None:
    """Return the job that the process says it belongs to, or None."""
    job_id = environment.get("SLURM_JOB_ID", "")
    return job_id if is_number(job_id) else None


def slurm_name(job_id: str, environment: Mapping[str, str]) -> str:
    """Return a job's id as people write it: 81234_7 of an array, 81234+1 of a heterogeneous job, else as it is.

    The variables count only where they speak of this very job: a shell carries those of an older one along.
    """
    if environment.get("SLURM_JOB_ID") != job_id:
        return job_id
    for first, separator, second in (
        ("SLURM_ARRAY_JOB_ID", "_", "SLURM_ARRAY_TASK_ID"),
        ("SLURM_HET_JOB_ID", "+", "SLURM_HET_JOB_OFFSET"),
    ):
        of, part = environment.get(first, ""), environment.get(second, "")
        if is_number(of) and is_number(part):
            return f"{of}{separator}{part}"
    return job_id


def slurm_attempt(job_id: str, environment: Mapping[str, str]) -> int | None:
    """Return how often this job was requeued, from 0, or None where the environment is not known to be the job's.

    Slurm sets SLURM_RESTART_COUNT from the first requeue on.
    """
    if environment.get("SLURM_JOB_ID") != job_id:
        return None
    return number(environment.get("SLURM_RESTART_COUNT", "0"))


def number(value: str) -> int | None:
    """Return the whole number that a variable holds, or None where it is none or needs more than 64 bits."""
    return int(value) if is_number(value) else None


def is_number(value: str) -> bool:
    """Return whether a variable holds a whole number of at most 18 digits."""
    return value.isascii() and value.isdigit() and len(value) <= _NUMBER_DIGITS_MAX
