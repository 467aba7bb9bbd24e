"""`combining`: the seller of `inventory`, as one strategy among the others."""

from inventory.selling.seller import Seller
from lab.strategies.base import Strategy


class Combining(Seller, Strategy):
    """What sells where there is no lab."""

    fenced = True
    summary = "requests combined per process, one guarded transaction for the batch"
