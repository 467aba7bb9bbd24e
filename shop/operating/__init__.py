"""What operators need of the shop: health, metrics, logs, traces, error reports and checks."""
