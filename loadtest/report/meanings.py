"""What each property means, in one sentence for somebody who sees it for the first time."""

MEANINGS = {
    "P1": "At no moment was more sold or held than there was.",
    "P2": "Every unit is somewhere: left, held or sold; and the ledger adds up to what is left.",
    "P3": "Whoever was told “you have it” has it: every promised order is in the database.",
    "P4": "Nobody has an order that they did not ask for, or that they were refused.",
    "P5": "Asking twice with a key gave one order or part, and nobody got more than the limit.",
    "P6": "The units sold lie between what was promised and what was promised or left unanswered.",
    "P7": "“Sold out” was true whenever it was said, and no unit is left while it was said.",
    "P8": "Once it was sold out it stayed so; orders could be read at once and only went forward.",
    "P9": "Whoever lost the item's lock changed nothing any more.",
    "P10": "What had to follow each order happened, and happened once.",
    "P11": "By the payment provider's own books nobody was charged twice, or refunded too much.",
    "P12": "After each fault the shop soon sold again, and its API and pages answered well.",
    "P13": "There were enough sales, refusals and repeated requests for all this to mean anything.",
    "P14": "Every order, part, payment and refund has the right amount, to the minor unit.",
    "P15": "Nothing was sold before a sale began, after it ended, or while it was paused.",
    "P16": "Unpaid orders expired in time and not before; paid ones and halves of carts never did.",
    "P17": "Each cart was bought as a whole, in one order, or not at all.",
    "P18": "Nobody saw or changed another buyer's order.",
    "P19": "Each mail reached its buyer, once, about the right order and amount.",
    "P20": "Every refusal was true when it was said, and none hid an order.",
}

SUMMARIES = {
    "pass": ("PROVED", "Every property that was asked for holds."),
    "fail": ("BROKEN", "At least one property does not hold."),
    "unknown": ("COULD NOT BE JUDGED", "Something needed for a verdict is missing: not a pass."),
}

OPEN_LOOP = (
    "Open loop: buyers came at times of their own, however slow the shop was. Latency is counted "
    "from the moment at which a buyer meant to ask, so that waiting in line counts as waiting."
)
CLOSED_LOOP = (
    "Closed loop: each user waits for an answer before the next request, so a slow shop is asked "
    "less often. The percentiles are those of requests that were sent, not of buyers who would "
    "have come meanwhile."
)
