"""A plain FastAPI shop: `python -m lab.bench.peers.fastapi_shop`.

One statement takes the units if enough are left, reserves them and opens the order; it needs one
round trip and commits by itself. Uvicorn runs as many workers as the shop has.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import UUID

import asyncpg
import uvicorn
from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from lab.bench.peers import common

POOL = int(os.environ.get("DB_POOL_SIZE", "16"))

# The unique key of the reservation refuses a second purchase with the same idempotency key, and
# with it the whole statement, so that the units stay where they were.
BUY = """
WITH taken AS (
    UPDATE peer_sale SET available = available - $4 WHERE id = $1 AND available >= $4
    RETURNING id, price
), reserved AS (
    INSERT INTO peer_reservation (sale_id, buyer_id, key, quantity)
    SELECT id, $2, $3, $4 FROM taken RETURNING id, sale_id
)
INSERT INTO peer_order (reservation_id, amount)
SELECT reserved.id, taken.price * $4 FROM reserved JOIN taken ON taken.id = reserved.sale_id
RETURNING id, amount, created
"""

EARLIER = """
SELECT "order".id, "order".amount, "order".created, reservation.sale_id, reservation.quantity
FROM peer_reservation AS reservation JOIN peer_order AS "order" ON reservation_id = reservation.id
WHERE buyer_id = $1 AND key = $2
"""


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=1, max_size=POOL) as pool:
        app.state.pool = pool
        yield


app = FastAPI(lifespan=_lifespan, openapi_url=None)


class Wanted(BaseModel):
    """The body of a purchase."""

    quantity: int = Field(ge=1, le=1000)


@app.post("/api/v1/sales/{sale}/orders")
async def buy(
    sale: int,
    wanted: Wanted,
    request: Request,
    idempotency_key: Annotated[UUID, Header()],
    authorization: Annotated[str, Header()] = "",
) -> JSONResponse:
    """Buy units of a sale."""
    try:
        buyer = common.buyer_of(authorization)
    except common.BadToken:
        return _problem(common.UNAUTHORIZED)
    pool: asyncpg.Pool = request.app.state.pool
    quantity = wanted.quantity
    try:
        if bought := await pool.fetchrow(BUY, sale, buyer, idempotency_key, quantity):
            return _answer(bought, sale, quantity, 201)
    except asyncpg.UniqueViolationError:
        pass
    if earlier := await pool.fetchrow(EARLIER, buyer, idempotency_key):
        same = (earlier["sale_id"], earlier["quantity"]) == (sale, quantity)
        return _answer(earlier, sale, quantity, 200) if same else _problem(common.KEY_REUSED)
    if await pool.fetchval("SELECT 1 FROM peer_sale WHERE id = $1", sale) is None:
        return _problem(common.NOT_FOUND)
    return _problem(common.SOLD_OUT)


def _answer(row: Any, sale: int, quantity: int, status: int) -> JSONResponse:
    document = common.order(row["id"], sale, quantity, row["amount"], row["created"])
    return JSONResponse(document, status)


def _problem(problem: dict[str, Any]) -> JSONResponse:
    return JSONResponse(problem, problem["status"], media_type=common.PROBLEM)


@app.get("/readyz")
async def ready() -> dict[str, Any]:
    """Answer the process supervisor."""
    return {}


if __name__ == "__main__":
    uvicorn.run(
        "lab.bench.peers.fastapi_shop:app",
        port=int(os.environ["SHOP_PORT"]),
        workers=int(os.environ.get("WEB_CONCURRENCY", "2")),
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=75,
    )
