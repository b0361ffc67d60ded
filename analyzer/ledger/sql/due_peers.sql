-- One step: a run is judged with all its GPUs, so that what holds one GPU that is due makes the others due.
INSERT INTO due
SELECT DISTINCT p.gid, d.hour_ms FROM due d JOIN held_hours h USING (gid, hour_ms) JOIN held_hours p
    USING (rid, hour_ms)
EXCEPT SELECT gid, hour_ms FROM due
