"""How a site meets the product: a ledger of last month, from what it already stores, with nothing installed."""
