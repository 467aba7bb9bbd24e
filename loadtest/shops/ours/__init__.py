"""This project's shop, as a shop to be judged."""
