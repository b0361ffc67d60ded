"""From a body that came to rows that are durable."""
