"""The Flask example under Flask's own server; the row `cured` has the one-line cure."""

from loadtest.shops.setup import Setup

SETUP = Setup(
    python=("Flask==3.1.3",),
    serve={"web": ("{python}", "{repository}/loadtest/shops/flask_example/shop.py", "{port}")},
    ready="/",
    rows={"cured": {"CURED": "1"}},
)
