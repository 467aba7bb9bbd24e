"""Oscar's order app, forked by its own means."""

from oscar.apps.order.apps import OrderConfig as CoreOrderConfig


class OrderConfig(CoreOrderConfig):
    """Oscar's configuration under the fork's name."""

    name = "forks.order"
