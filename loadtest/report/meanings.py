"""The meaning of each property in one sentence, without assumed background."""

MEANINGS = {
    "P1": "At no moment were more units sold or held than in stock.",
    "P2": "Every unit is available, held or sold, and the ledger adds up to the available units.",
    "P3": "Every confirmed order is in the database.",
    "P4": "No buyer has an order that they did not request or that was refused.",
    "P5": "Repeats with the same key gave one order, and no buyer got more than the limit.",
    "P6": "Promised ≤ sold ≤ promised + unanswered, in units.",
    "P7": "“Sold out” was true whenever a buyer was told so, and no unit was left behind.",
    "P8": "A sold-out sale stayed sold out, and orders were readable once confirmed.",
    "P9": "A process that lost the item's lock wrote nothing afterwards.",
    "P10": "The follow-up of each order happened exactly once.",
    "P11": "By the payment provider's ledger, no buyer was charged twice or refunded too much.",
    "P12": "After each fault the shop soon sold again, and its API and pages answered correctly.",
    "P13": "There were enough sales, refusals and repeated requests for a meaningful verdict.",
}

SUMMARIES = {
    "pass": ("PROVED", "All properties hold."),
    "fail": ("BROKEN", "At least one property does not hold."),
    "unknown": ("COULD NOT BE JUDGED", "Data for a verdict are missing. This is not a pass."),
}

OPEN_LOOP = (
    "Open loop: buyers arrived independently of the shop's speed. Latency counts from the intended "
    "time of the request, so that queueing counts."
)
CLOSED_LOOP = (
    "Closed loop: each user waits for an answer before the next request, so a slow shop gets fewer "
    "requests. The percentiles describe requests that were sent, not buyers who would have arrived."
)
