"""`manage.py second_factor NAME`: give somebody of the staff a second factor, or another one."""

from argparse import ArgumentParser
from base64 import b32encode
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice

from shop.accounts.models import User, normal

RECOVERY_CODES = 10


class Command(BaseCommand):
    """Replace the devices of one account, and show their secrets once."""

    help = "Give a member of the staff a new authenticator key and new recovery codes."

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("name", help="the account's user name")

    def handle(self, *, name: str, **options: Any) -> None:  # noqa: D102
        with transaction.atomic():
            named = User.objects.select_for_update().filter(username=normal(name))
            user = named.order_by("pk").first()
            if user is None or not user.is_staff:
                raise CommandError(f"There is no member of the staff called {name}.")
            for kind in (TOTPDevice, StaticDevice):
                kind.objects.filter(user=user).delete()
            device = TOTPDevice.objects.create(user=user, name="app")
            recovery = StaticDevice.objects.create(user=user, name="recovery codes")
            codes = [StaticToken.random_token() for _ in range(RECOVERY_CODES)]
            StaticToken.objects.bulk_create(
                StaticToken(device=recovery, token=code) for code in codes
            )
        key = b32encode(device.bin_key).decode()
        self.stdout.write(
            f"For the authenticator app of {user.get_username()}, as a link or as a key:\n"
            f"  {device.config_url}\n  {key}\n"
            "Recovery codes, each for one sign-in without the app:\n  "
            + "\n  ".join(codes)
            + "\nThey are not shown again. Earlier ones, and the sessions signed in with them, "
            "no longer open the admin."
        )
