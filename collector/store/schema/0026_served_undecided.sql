ALTER TABLE served_amounts ADD COLUMN undecided_us BIGINT;  -- of promised_us: whether it was kept cannot be known

ALTER TABLE services_sighted ADD COLUMN heard_at BIGINT;  -- when its page was first read; null where it never was

UPDATE services_sighted SET heard_at = first_at;
