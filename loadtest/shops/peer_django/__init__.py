"""The plain Django shop, as a shop to be judged."""
