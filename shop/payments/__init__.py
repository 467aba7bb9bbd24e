"""Money: the seam to a payment provider, and what the shop writes down about it."""
