"""A client of each shop that shares no code with the load test: plain HTTP, threads, and SQL.

For each shop, `PLAIN` has a function that puts units on sale, brings buyers before their last step,
and returns these last steps and what counts the units that were sold.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import sys
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psycopg

from inventory.tests.helpers import at_once
from lab.tests.whole_shop import Answer, ask
from shop.tests.processes import succeed


class Post(NamedTuple):
    """A buyer's last step."""

    path: str
    body: Any
    headers: Mapping[str, str]


class Sale(NamedTuple):
    """A sale with its buyers: their last steps, and how many units the shop says were sold."""

    last_steps: list[Post]
    sold: Callable[[], int]


class Shop:
    """A running shop: its address, and its database."""

    def __init__(self, url: str, variables: Mapping[str, str]) -> None:
        self.url, self.variables = url, variables

    def ask(self, path: str, body: Any = None, **headers: str) -> Answer:
        """Send JSON; a refusal is an answer like any other."""
        method = "GET" if body is None else "POST"
        return ask(urlsplit(self.url).port or 80, method, path, body, **headers)

    def number(self, sql: str, value: Any) -> Callable[[], int]:
        """Return what asks the database for a number."""
        return lambda: int(self.rows(sql, value)[0][0] or 0)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with psycopg.connect(self.variables["SHOP_DATABASE_URL"], autocommit=True) as database:
            return database.execute(sql.encode(), values).fetchall()


def oversold(shop: Shop, prepare: Callable[[Shop, int, int], Sale], units: int, buyers: int) -> int:
    """Let all buyers take their last step at once; return how many units too many were sold."""
    sale = prepare(shop, units, buyers)

    def buy(step: Post) -> None:
        for _ in range(4):  # as a buyer does who is shown an error page
            if shop.ask(step.path, step.body, **step.headers).status < 500:
                return

    at_once([partial(buy, step) for step in sale.last_steps])
    return max(0, sale.sold() - units)


def flash_sale(shop: Shop, units: int, buyers: int) -> Sale:
    """Ours: a sale by its command, buyers by the demo's call."""
    command = [sys.executable, "manage.py", "create_sale", "--json", "--limit", "1"]
    env = {**os.environ, **shop.variables}
    sale = json.loads(succeed(*command, "--price", "999", "--stock", units, env=env))["sale"]
    tokens = shop.ask("/api/v1/demo/buyers", {"count": buyers}).body["tokens"]
    steps = [
        Post(
            f"/api/v1/sales/{sale}/orders",
            {"quantity": 1},
            {"Authorization": f"Bearer {token}", "Idempotency_Key": str(uuid.uuid4())},
        )
        for token in tokens
    ]
    return Sale(
        steps, shop.number("SELECT sum(quantity) FROM shop_orderline WHERE sale_id = %s", sale)
    )


def peer(shop: Shop, units: int, buyers: int) -> Sale:
    """The plain shops of the benchmark: buyers are rows, and sign their ids."""
    new = "INSERT INTO peer_sale (price, stock, available) VALUES (999, %s, %s) RETURNING id"
    [(sale,)] = shop.rows(new, units, units)
    made = shop.rows(
        """INSERT INTO accounts_user (username, password, email, first_name, last_name,
        is_superuser, is_staff, is_active, date_joined) SELECT gen_random_uuid(), '!', '', '', '',
        false, false, true, now() FROM generate_series(1, %s) RETURNING id""",
        buyers,
    )
    secret = shop.variables["PEER_KEY"].encode()
    steps = []
    for (buyer,) in made:
        signature = hmac.new(secret, str(buyer).encode(), hashlib.sha256).hexdigest()
        token = f"Bearer {buyer}.{signature}"
        headers = {"Authorization": token, "Idempotency_Key": str(uuid.uuid4())}
        steps.append(Post(f"/api/v1/sales/{sale}/orders", {"quantity": 1}, headers))
    return Sale(
        steps, shop.number("SELECT sum(quantity) FROM peer_reservation WHERE sale_id = %s", sale)
    )


def flask_example(shop: Shop, units: int, buyers: int) -> Sale:
    """The example: its database is a file of its own, so that it is asked for its books."""
    path = f"/sales/{shop.ask(f'/sales/{units}', {}).body['sale']}"
    return Sale(
        [Post(f"{path}/orders", {}, {})] * buyers, lambda: len(shop.ask(path).body["orders"])
    )


def oscar(shop: Shop, units: int, buyers: int) -> Sale:
    """Guests with a session's cookie and a basket."""
    admin = "Basic " + base64.b64encode(b"admin:flash-sale-proof").decode()
    record = {"partner": f"{shop.url}/api/admin/partners/1/", "partner_sku": uuid.uuid4().hex}
    product = {
        "product_class": "ticket",
        "structure": "standalone",
        "title": "Plain",
        "slug": uuid.uuid4().hex,
        "stockrecords": [{**record, "num_in_stock": units, "price": "9.99"}],
    }
    made = shop.ask("/api/admin/products/", product, Authorization=admin).body["id"]
    steps = []
    for _ in range(buyers):
        basket = shop.ask("/api/basket/")
        cookies = basket.headers.get_all("Set-Cookie", [])
        cookie = {"Cookie": "; ".join(cooky.split(";")[0] for cooky in cookies)}
        line = {"url": f"{shop.url}/api/products/{made}/", "quantity": 1}
        assert shop.ask("/api/basket/add-product/", line, **cookie).status == 200
        order = {"basket": basket.body["url"], "guest_email": "plain@example.com"}
        steps.append(Post("/api/checkout/", order, cookie))
    return Sale(
        steps, shop.number("SELECT sum(quantity) FROM order_line WHERE product_id = %s", made)
    )


def pretix(shop: Shop, units: int, buyers: int) -> Sale:
    """Orders over the owner's interface, to be paid later."""
    owner = {"Authorization": "Token flash-sale-proof"}
    events, event = "/api/v1/organizers/flash/events/", f"p{uuid.uuid4().hex[:8]}"
    terms = {"date_from": "2100-01-01T20:00:00Z", "timezone": "UTC", "currency": "EUR"}
    shop.ask(events, {"name": {"en": "Plain"}, "slug": event, **terms}, **owner)
    path = f"{events}{event}/"
    ticket = {"name": {"en": "Ticket"}, "default_price": "9.99"}
    item = shop.ask(f"{path}items/", ticket, **owner).body["id"]
    quota = {"name": "Ticket", "size": units, "items": [item], "variations": []}
    assert shop.ask(f"{path}quotas/", quota, **owner).status == 201
    order = {"status": "n", "payment_provider": "manual", "positions": [{"item": item}]}
    order |= {"email": "plain@example.com", "locale": "en", "sales_channel": "web"}
    sold = """SELECT count(*) FROM pretixbase_orderposition p JOIN pretixbase_order o
        ON o.id = p.order_id WHERE item_id = %s AND NOT canceled AND status IN ('n', 'p')"""
    return Sale([Post(f"{path}orders/", order, owner)] * buyers, shop.number(sold, item))


def vendure(shop: Shop, units: int, buyers: int) -> Sale:
    """Guests with a session's token, in the state that awaits their payment."""

    def query(path: str, text: str, **headers: str) -> Answer:
        return shop.ask(path, {"query": text}, **headers)

    login = 'mutation { login(username: "superadmin", password: "flash-sale-proof") { __typename }}'
    owner = {"Authorization": f"Bearer {query('/admin-api', login).headers['vendure-auth-token']}"}
    names = 'languageCode: en, name: "Plain"'
    slug = uuid.uuid4().hex
    text = f'translations: [{{ {names}, slug: "{slug}", description: "" }}]'
    made = query(
        "/admin-api", f"mutation {{ createProduct(input: {{ {text} }}) {{ id }} }}", **owner
    )
    product = made.body["data"]["createProduct"]["id"]
    stock = f'productId: {product}, sku: "{slug}", price: 999, stockOnHand: {units}'
    new = f"createProductVariants(input: [{{ {stock}, translations: [{{ {names} }}] }}]) {{ id }}"
    found = query("/admin-api", f"mutation {{ {new} }}", **owner).body["data"]
    variant = found["createProductVariants"][0]["id"]
    steps = []
    for number in range(buyers):
        token = query("/shop-api", "{ activeOrder { id } }").headers["vendure-auth-token"]
        guest = {"Authorization": f"Bearer {token}"}
        who = f'firstName: "P", lastName: "C", emailAddress: "p{number}.{slug}@example.com"'
        for step in (
            f"addItemToOrder(productVariantId: {variant}, quantity: 1)",
            f"setCustomerForOrder(input: {{ {who} }})",
            'setOrderShippingAddress(input: { streetLine1: "1 Road", countryCode: "GB" })',
            "setOrderShippingMethod(shippingMethodId: [1])",
            'transitionOrderToState(state: "ArrangingPayment")',
        ):
            query("/shop-api", f"mutation {{ {step} {{ __typename }} }}", **guest)
        pay = 'addPaymentToOrder(input: { method: "standard-payment", metadata: {} })'
        steps.append(Post("/shop-api", {"query": f"mutation {{ {pay} {{ __typename }} }}"}, guest))
    sold = """SELECT sum(l.quantity) FROM order_line l JOIN "order" o ON o.id = l."orderId"
        WHERE l."productVariantId" = %s AND o.state IN ('PaymentAuthorized', 'PaymentSettled')"""
    return Sale(steps, shop.number(sold, variant))


def medusa(shop: Shop, units: int, buyers: int) -> Sale:
    """Guests with a cart and a payment session of the manual provider."""
    login = {"email": "admin@example.com", "password": "flash-sale-proof"}
    token = shop.ask("/auth/user/emailpass", login).body["token"]
    owner = {"Authorization": f"Bearer {token}"}
    place = shop.ask("/admin/stock-locations", **owner).body["stock_locations"][0]["id"]
    channel = shop.ask("/admin/sales-channels", **owner).body["sales_channels"][0]["id"]
    key = shop.ask("/admin/api-keys?type=publishable", **owner).body["api_keys"][0]["token"]
    level = [{"location_id": place, "stocked_quantity": units}]
    ticket = {"sku": uuid.uuid4().hex, "requires_shipping": False, "location_levels": level}
    item = shop.ask("/admin/inventory-items", ticket, **owner).body["inventory_item"]["id"]
    variant = {
        "title": "One",
        "options": {"Size": "One"},
        "prices": [{"currency_code": "gbp", "amount": 9.99}],
        "inventory_items": [{"inventory_item_id": item, "required_quantity": 1}],
    }
    product = {
        "title": ticket["sku"],
        "status": "published",
        "options": [{"title": "Size", "values": ["One"]}],
        "variants": [variant],
        "sales_channels": [{"id": channel}],
    }
    made = shop.ask("/admin/products", product, **owner).body["product"]["variants"][0]["id"]
    front = {"X_Publishable_Api_Key": key}
    steps = []
    for _ in range(buyers):
        cart = shop.ask("/store/carts", {"email": "plain@example.com"}, **front).body["cart"]["id"]
        line = {"variant_id": made, "quantity": 1}
        assert shop.ask(f"/store/carts/{cart}/line-items", line, **front).status == 200
        pays = shop.ask("/store/payment-collections", {"cart_id": cart}, **front).body
        path = f"/store/payment-collections/{pays['payment_collection']['id']}/payment-sessions"
        shop.ask(path, {"provider_id": "pp_system_default"}, **front)
        steps.append(Post(f"/store/carts/{cart}/complete", {}, front))
    sold = """SELECT sum(i.quantity) FROM order_item i JOIN "order" o ON o.id = i.order_id
        JOIN order_line_item l ON l.id = i.item_id WHERE l.variant_id = %s
        AND o.status <> 'canceled' AND o.deleted_at IS NULL AND i.deleted_at IS NULL"""
    return Sale(steps, shop.number(sold, made))


def evershop(shop: Shop, units: int, buyers: int) -> Sale:
    """Guests with a cart, each behind a proxy with an address of their own."""
    login = {"email": "admin@example.com", "password": "flash-sale-proof"}
    token = shop.ask("/api/user/tokens", login).body["data"]["accessToken"]
    sku = uuid.uuid4().hex
    product = {"name": "Plain", "url_key": sku, "sku": sku, "price": "9.99", "qty": units}
    product |= {"group_id": 1, "weight": 0, "no_shipping_required": True, "manage_stock": 1}
    product |= {"status": 1, "visibility": 1, "stock_availability": 1}
    shop.ask("/api/products", product, Authorization=f"Bearer {token}")
    address = {"full_name": "P C", "telephone": "5551234", "address_1": "1 Road", "city": "Austin"}
    address |= {"country": "US", "province": "US-TX", "postcode": "73301"}
    steps = []
    for number in range(buyers):
        guest = {"X_Forwarded_For": f"10.9.{number // 250}.{number % 250 + 1}"}
        new = shop.ask("/api/carts", {"items": [{"sku": sku, "qty": 1}]}, **guest)
        path = f"/api/carts/{new.body['data']['cartId']}"
        shop.ask(f"{path}/addresses", {"type": "billing", "address": address}, **guest)
        shop.ask(f"{path}/paymentMethods", {"method_code": "cod", "method_name": "COD"}, **guest)
        order = {"cart_id": path.rsplit("/", 1)[1], "customer": {"email": "plain@example.com"}}
        steps.append(Post(f"{path}/checkout", order, guest))
    return Sale(steps, shop.number("SELECT sum(qty) FROM order_item WHERE product_sku = %s", sku))


PLAIN: dict[str, Callable[[Shop, int, int], Sale]] = {
    "flash_sale": flash_sale,
    "flask_example": flask_example,
    "peer_django": peer,
    "peer_fastapi": peer,
    "oscar": oscar,
    "pretix": pretix,
    "vendure": vendure,
    "medusa": medusa,
    "evershop": evershop,
}
