-- GPUs that had not worked by the end of an hour and were still seen to load: until when, and until when their memory
-- grew. A load takes longer than an hour looks ahead, so that the next hour goes on from here.
CREATE TABLE run_loads (
    run_id VARCHAR NOT NULL,
    attempt BIGINT NOT NULL,
    gpu_uuid VARCHAR NOT NULL,
    held_from BIGINT NOT NULL,
    hour BIGINT NOT NULL,
    seen_until BIGINT NOT NULL,
    grown_until BIGINT NOT NULL,
    PRIMARY KEY (run_id, attempt, gpu_uuid, held_from, hour)
);
