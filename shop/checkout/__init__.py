"""From a parsed request to an order or a refusal."""
