#!/bin/sh
# Prolog and Epilog of slurmd: one file for each GPU of this host says which job holds it, whether it works or not.
# The files are those of Princeton's jobstats: /run/gpustat/<GPU's UUID> holds "JOBID UID". A number means the driver's
# index to some and the device file to others: where both are one GPU, or Slurm says the UUID itself, the file has the
# UUID for its name; else the number, which the agent resolves where it can.
DIRECTORY=/run/gpustat

umask 022
uuid() { # of a number, where there is no doubt
    index=$(timeout 10 nvidia-smi --query-gpu=uuid --format=csv,noheader -i "$1") || index=
    file=$(grep -lE "^Device Minor:[[:space:]]+$1[[:space:]]*\$" /proc/driver/nvidia/gpus/*/information) &&
        minor=$(sed -n 's/^GPU UUID:[[:space:]]*//p' "$file") && [ "$minor" = "$index" ] && echo "$index" || echo "$1"
}
case "$SLURM_SCRIPT_CONTEXT" in
    prolog_slurmd)
        mkdir -p "$DIRECTORY"
        case "$CUDA_VISIBLE_DEVICES" in
            GPU-* | MIG-*) gpus=$CUDA_VISIBLE_DEVICES ;;
            *) gpus=$(for number in $(echo "$SLURM_JOB_GPUS" | tr , ' '); do uuid "$number"; done) ;;
        esac
        for gpu in $(echo "$gpus" | tr , ' '); do
            echo "$SLURM_JOB_ID $SLURM_JOB_UID" >"$DIRECTORY/.$gpu.$$"
            mv -f "$DIRECTORY/.$gpu.$$" "$DIRECTORY/$gpu"
        done
        ;;
    epilog_slurmd)
        for file in "$DIRECTORY"/*; do
            read -r job _ <"$file" && [ "$job" = "$SLURM_JOB_ID" ] && rm -f "$file"
        done
        ;;
esac 2>/dev/null
exit 0 # a prolog that fails drains its host
