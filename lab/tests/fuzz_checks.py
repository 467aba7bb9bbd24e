"""A check for Schemathesis: allowed requests are refused only for the shop's state.

Schemathesis loads this file. Its own `positive_data_acceptance` ignores problem codes and would
accept all or none of the 4xx responses.
"""

from __future__ import annotations

import json
from typing import Any

import schemathesis

PARTS = ("cancelOrder", "refundOrder")


@schemathesis.check
def refused_only_by_state(context: Any, response: Any, case: Any) -> None:
    """Fail if a request that the document allows is refused as invalid."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if response.status_code not in {400, 405, 413, 415, 422}:
        return
    code = json.loads(response.content).get("code")
    name = case.operation.definition.raw["operationId"]
    assert may_be_refused(code, name, case), f"{name}: allowed but refused with {code}"


def may_be_refused(code: str, name: str, case: Any) -> bool:
    """Whether a code describes a state that no schema can express."""
    if code == "idempotency_key_reused":
        return True
    if code == "idempotency_key_missing":
        return name in PARTS and "Idempotency-Key" not in (case.headers or {})
    if code == "invalid_quantity":
        return name in PARTS  # more than is left of the order
    if code == "invalid_cart":
        sales = [line["sale"] for line in case.body["lines"]]
        return len(set(sales)) < len(sales)
    if code == "invalid_request":
        return name == "changeTerms"  # a window that would end before it begins
    return False
