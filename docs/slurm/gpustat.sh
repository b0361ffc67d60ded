#!/bin/sh
# Prolog and Epilog of slurmd: one file for each GPU of this host says which job holds it, whether it works or not.
# The files are those of Princeton's jobstats: /run/gpustat/<GPU's number> holds "JOBID UID".
DIRECTORY=/run/gpustat

umask 022
for gpu in $(echo "$SLURM_JOB_GPUS" | tr , ' '); do
    case "$SLURM_SCRIPT_CONTEXT" in
        prolog_slurmd)
            mkdir -p "$DIRECTORY"
            echo "$SLURM_JOB_ID $SLURM_JOB_UID" >"$DIRECTORY/.$gpu.$$"
            mv -f "$DIRECTORY/.$gpu.$$" "$DIRECTORY/$gpu"
            ;;
        epilog_slurmd)
            read -r job _ <"$DIRECTORY/$gpu" && [ "$job" = "$SLURM_JOB_ID" ] && rm -f "$DIRECTORY/$gpu"
            ;;
    esac
done 2>/dev/null
exit 0 # a prolog that fails drains its host
