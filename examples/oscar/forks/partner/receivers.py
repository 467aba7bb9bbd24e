"""Oscar's receivers, which its configuration loads from the fork's folder."""

from oscar.apps.partner.receivers import *  # noqa: F403
