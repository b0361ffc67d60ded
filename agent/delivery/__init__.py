"""From rows to the collector: batches, their way into the spool, and out of it."""
