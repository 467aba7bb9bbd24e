"""Products, and sales with a price and a window."""
