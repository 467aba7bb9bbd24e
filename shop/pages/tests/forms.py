"""Read pages and send their forms."""

import re
from uuid import uuid4


def key_on(text: str) -> str:
    found = re.search(r'name="key" value="([^"]+)"', text)
    assert found is not None
    return found[1]


def buy_by_form(browser, sale, **different):
    form = {"key": str(uuid4()), "quantity": "1", **different}
    return browser.post(sale.get_absolute_url(), form)
