"""What the shop promises, as a model that runs, without database or HTTP: `order`, then `shop`."""
