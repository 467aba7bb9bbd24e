"""EverShop, as a shop to be judged."""
