"""The registry of properties: one class each, one file per group."""

from __future__ import annotations

from collections.abc import Collection

from loadtest.checker.properties.delivery import DeliveredMails, FollowUpComplete
from loadtest.checker.properties.draw import FairDraw
from loadtest.checker.properties.hold import Hold, Window
from loadtest.checker.properties.orders import (
    AllOrNothing,
    NoDuplicate,
    NoLostOrder,
    NoPhantomOrder,
    PaidFor,
    Privacy,
    VoucherLimit,
)
from loadtest.checker.properties.price import AtMostOneCharge, Price
from loadtest.checker.properties.property import Need, Property
from loadtest.checker.properties.recovery import NotVacuous, Recovery
from loadtest.checker.properties.refusals import NoPhantomRejection, RealTimeOrder
from loadtest.checker.properties.stock import Bounds, Conservation, Fencing, NoOversell
from loadtest.checker.properties.truth import TrueAnswers
from loadtest.shop import Level

__all__ = ["BY_ANSWERS", "PROPERTIES", "Need", "Property", "not_judged"]

PROPERTIES: dict[str, Property] = {
    judged.id: judged
    for judged in (
        NoOversell(),
        Conservation(),
        NoLostOrder(),
        NoPhantomOrder(),
        NoDuplicate(),
        Bounds(),
        NoPhantomRejection(),
        RealTimeOrder(),
        Fencing(),
        FollowUpComplete(),
        AtMostOneCharge(),
        Recovery(),
        NotVacuous(),
        Price(),
        Window(),
        Hold(),
        AllOrNothing(),
        Privacy(),
        DeliveredMails(),
        TrueAnswers(),
        VoucherLimit(),
        PaidFor(),
        FairDraw(),
    )
}


BY_ANSWERS = ("P1", "P3", "P5", "P8", "P13", "P18", "P20")
"""Properties of which what buyers are answered shows something, also where the shop's books cannot
be read."""


def not_judged(levels: Collection[Level], has: Collection[Need]) -> dict[str, str]:
    """Return the properties that a run says nothing about, and why not."""
    reasons = {identity: judged.why_not(levels, has) for identity, judged in PROPERTIES.items()}
    return {identity: why for identity, why in reasons.items() if why}
