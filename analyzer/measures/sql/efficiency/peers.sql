-- Runs that may be of the same model: the same SKU, and the same name or a label that has the model's name in it.
SELECT r.run_id, r.name, r.gpus, arg_max(a.labels, a.batch) AS labels
FROM runs r LEFT JOIN allocations a ON a.run_id = r.run_id AND a.labels IS NOT NULL
WHERE r.sku = $sku AND (r.name = $name OR r.run_id = $run OR r.run_id IN (
    SELECT run_id FROM allocations WHERE $model::VARCHAR IS NOT NULL AND contains(labels, $model)))
GROUP BY r.run_id, r.name, r.gpus, r.started_at ORDER BY r.run_id = $run DESC, r.started_at DESC NULLS LAST,
    r.run_id LIMIT 200
