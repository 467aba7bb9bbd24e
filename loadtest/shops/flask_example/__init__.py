"""A small shop in Flask with a planted race, the example of docs/your-shop.md."""
