"""pretix, as a shop to be judged."""
