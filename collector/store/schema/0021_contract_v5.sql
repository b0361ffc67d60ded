ALTER TABLE progress ADD COLUMN data_wait_seconds DOUBLE;
