ALTER TABLE served_amounts ADD COLUMN undecided_us BIGINT;  -- of promised_us: whether it was kept cannot be known
