"""The former name of :mod:`shop.refusals`."""

from shop.refusals import Refusal as Refusal
