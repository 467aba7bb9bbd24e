"""The plain FastAPI shop, served as our benchmark serves it."""

from loadtest.shops.peer import ENVIRONMENT, STEPS
from loadtest.shops.setup import Setup

SETUP = Setup(
    steps=STEPS,
    serve={"web": ("{python}", "-m", "lab.bench.peers.fastapi_shop")},
    ready="/readyz",
    environment=ENVIRONMENT,
    folder="{repository}",
)
