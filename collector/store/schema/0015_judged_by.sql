-- Of measured_ms, what the GPU told as SM activity (DCGM, GPM); the rest is judged by NVML's utilization. Null in hours that
-- an earlier release counted: it is not known, and never 0.
ALTER TABLE run_doings ADD COLUMN sm_ms BIGINT;
