"""What the shop promises, as a model that runs: no database, no HTTP. Read `order`, then `shop`.
Tests drive it beside the real shop (`shop/tests/specification`), and a proof's solo buyers."""
