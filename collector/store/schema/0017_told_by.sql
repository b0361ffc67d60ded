-- The host whose own key brought a batch; none where a scheduler, a Prometheus or the operator did.
ALTER TABLE arrivals ADD COLUMN told_by VARCHAR;
