"""The findings over time: when each was opened and closed, what people said of it, and how often we were right."""
