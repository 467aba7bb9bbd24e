"""Oscar's partner app, forked by its own means."""

from oscar.apps.partner.apps import PartnerConfig as CorePartnerConfig


class PartnerConfig(CorePartnerConfig):
    """Oscar's configuration under the fork's name."""

    name = "forks.partner"
