"""The order of ranks as a file, for Slurm, which wants a host's name once a task."""

from collections.abc import Sequence

from analyzer.recommendations.artefacts.quoting import shell_word, words
from analyzer.recommendations.recommendation import Artefact


def rank_file(hosts: Sequence[str], ranks_on: Sequence[int]) -> Artefact:
    """Return the lines that write the order of ranks to a file: `ranks_on` are the tasks of each host.

    Source: srun(1), --distribution=arbitrary and SLURM_HOSTFILE.
    """
    same = set(ranks_on)
    if len(same) == 1:
        loop = [f"for host in {words(hosts)}; do", f'  yes "$host" | head -n {same.pop()}', "done"]
    else:
        loop = [
            "{",
            *(f"  yes {shell_word(host)} | head -n {ranks}" for host, ranks in zip(hosts, ranks_on, strict=True)),
            "}",
        ]
    loop[-1] += ' > "$SLURM_HOSTFILE"'
    return Artefact(
        "rankfile",
        "\n".join(
            [
                "# in the batch script; one task a GPU, and this option before the srun's own",
                "export SLURM_HOSTFILE=$PWD/ranks.txt",
                *loop,
                "export SLURM_DISTRIBUTION=arbitrary    # srun takes it as --distribution",
            ]
        ),
    )
