"""A rush on any shop: the buyers meet at the cart and at the last step, and the books are judged.

result = rush_shop(Adapter(url), units=20, buyers=120, rounds=5, host=url)
result.exit_code    # 0 holds, 1 broken, 2 could not be judged
print(*lines(result), sep="\\n")
"""

from loadtest.release import Release, together
from loadtest.rush.result import RushResult
from loadtest.rush.run import rush_shop

__all__ = ["Release", "RushResult", "rush_shop", "together"]
