import django

django.setup()

from pretix.base.models import Organizer  # noqa: E402

organizer = Organizer.objects.create(name="Flash", slug="flash")
team = organizer.teams.create(
    name="All", all_events=True, all_event_permissions=True, all_organizer_permissions=True
)
team.tokens.create(name="proof", token="flash-sale-proof")
