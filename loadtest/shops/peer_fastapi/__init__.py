"""The plain FastAPI shop, as a shop to be judged."""
