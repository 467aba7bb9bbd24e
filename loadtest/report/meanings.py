"""Sentences of the report and of the closing line."""

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
