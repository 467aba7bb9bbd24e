"""What the shop promises, as a model that runs: no database, no HTTP. Read `order`, `shop`, `told`.
Tests drive it beside the real shop (`shop/tests/specification`)."""
