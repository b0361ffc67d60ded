"""Plans of tasks over nodes: by when it can be done, where and when each task runs, and what stands in the way."""
