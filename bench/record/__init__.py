"""All that the product says over the demo's week, with a wall clock that stands: kept as texts, and compared."""
