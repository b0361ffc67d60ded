-- Failed runs of which a checkpoint could have been seen on this day: what their hosts wrote to disk is known.
INSERT INTO watched SELECT DISTINCT rid FROM node_minutes JOIN node_written USING (nid, minute_ms)
