"""Money's ground truth: the site's prices, and list prices for comparison."""
