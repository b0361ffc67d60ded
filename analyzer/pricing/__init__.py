"""Money's ground truth: the site's prices, list prices for comparison, and the arithmetic of cost."""
