"""Demo data, demo logins, and the demo's own API."""
