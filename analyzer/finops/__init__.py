"""Money: charges, budgets, forecasts, unit costs, bills."""
