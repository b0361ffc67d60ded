-- The stage of a run as it is reported: how sure, and by what. What is booked follows its names alone (stages/words.py).
ALTER TABLE runs ADD COLUMN stage_confidence VARCHAR; -- high, medium or low
ALTER TABLE runs ADD COLUMN stage_reason VARCHAR;     -- words that follow the stage: "by its queue"

-- Of what a checkpoint wrote, what went to network mounts; null where no device says of what kind it is.
ALTER TABLE checkpoints ADD COLUMN network_bytes BIGINT;

-- What a run did in one UTC hour, in sums that add up over hours: which stage it looks like (stages/telemetry.py).
-- Null is not reported, and never 0.
CREATE TABLE run_doings (
    run_id VARCHAR NOT NULL,
    hour BIGINT NOT NULL,              -- its first microsecond
    measured_ms BIGINT NOT NULL,       -- GPU-milliseconds held and measured
    busy_ms BIGINT NOT NULL,           -- of them at work
    office_busy_ms BIGINT NOT NULL,    -- of those in working hours
    activity_ms BIGINT NOT NULL,       -- permille of activity times milliseconds
    pauses BIGINT NOT NULL,            -- quiet spans of at least ten minutes that began in this hour
    phase_minutes BIGINT NOT NULL,     -- minutes in which tensor cores and memory were measured at work
    memory_minutes BIGINT NOT NULL,    -- of them those that read memory and leave the tensor cores alone
    tensor_minutes BIGINT NOT NULL,    -- of them those that work the tensor cores
    turns BIGINT NOT NULL,             -- changes from the one kind to the other and back
    windows BIGINT NOT NULL,           -- ten minutes of work
    exchange_windows BIGINT NOT NULL,  -- of them with links busy between GPUs or hosts
    fabric_windows BIGINT,             -- of them with links busy between hosts; null where no fabric is counted
    cores_used_ms BIGINT,              -- by its cgroups, as all that follow
    cores_allotted_ms BIGINT,
    told_ms BIGINT,                    -- how long pressure was told
    pressure_io_ms BIGINT,             -- of it, some task waited for I/O
    start_read_bytes BIGINT,           -- read from disks and network mounts in the first quarter of an hour of the run
    read_bytes BIGINT,                 -- and in all
    PRIMARY KEY (run_id, hour)
);
