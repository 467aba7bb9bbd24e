"""The meaning of each property in one sentence, without assumed background."""

MEANINGS = {
    "P1": "At no moment were more units sold or held than in stock.",
    "P2": "Every unit is available, held or sold, and the ledger adds up to the available units.",
    "P3": "Every confirmed order is in the database.",
    "P4": "No buyer has an order that they did not request or that was refused.",
    "P5": "Repeats with the same key gave one order or part, and no buyer got more than the limit.",
    "P6": "Promised ≤ sold ≤ promised + unanswered, in units.",
    "P7": "“Sold out” was true whenever a buyer was told so, and no unit was left behind.",
    "P8": "A sold-out sale stayed sold out; orders were readable at once and only went forward.",
    "P9": "A process that lost the item's lock wrote nothing afterwards.",
    "P10": "The follow-up of each order happened exactly once.",
    "P11": "By the payment provider's ledger, no buyer was charged twice or refunded too much.",
    "P12": "After each fault the shop soon sold again, and its API and pages answered correctly.",
    "P13": "There were enough sales, refusals and repeated requests for a meaningful verdict.",
    "P14": "Every order, part, payment and refund has the right amount, to the minor unit.",
    "P15": "Nothing was sold before a sale began, after it ended, or while it was paused.",
    "P16": "Unpaid orders expired in time, not before, and as a whole; paid ones never did.",
    "P17": "Each cart was bought as a whole, in one order, or not at all.",
    "P18": "No buyer saw or changed another buyer's order.",
    "P19": "Each mail reached its buyer, once, about the right order and amount.",
    "P20": "What answers said was so; no refusal hid an order, and no invalid request was granted.",
    "P21": "Who had a sale to themselves was answered exactly as the API promises.",
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
