-- Which model a run trains or serves, and who asked for it. What a server calls its model is kept by the first and the last
-- of its names by spelling: where they differ it serves several, and no second is known to be of one of them.
ALTER TABLE services_seen ADD COLUMN model_first VARCHAR;
ALTER TABLE services_seen ADD COLUMN model_last VARCHAR;
ALTER TABLE services_sighted ADD COLUMN model_first VARCHAR;
ALTER TABLE services_sighted ADD COLUMN model_last VARCHAR;
ALTER TABLE runs ADD COLUMN model VARCHAR;
ALTER TABLE runs ADD COLUMN owner VARCHAR;
