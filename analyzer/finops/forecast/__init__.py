"""What the next days will cost or need, with how sure that is: models, and the backtest that chooses among them."""
