"""Mails that let people choose a new password.

A request only leaves an outbox message with the user's id, so it takes equally long whether the
address is known or not, and a mail server that hangs delays no page. The link's token is made when
the mail is sent and is stored nowhere.

A mail is sent at most once: a second link that nobody asked for looks like an attack. If the mail
server does not say whether it took the mail, or the worker is killed meanwhile, it is not repeated,
and the user may ask for another one.
"""

from __future__ import annotations

from smtplib import SMTPRecipientsRefused, SMTPResponseException
from typing import Any

from django.conf import settings
from django.contrib.auth.tokens import default_token_generator
from django.core.mail import EmailMessage, get_connection
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext, override

from inventory.outbox import NoEffect
from shop.accounts.models import User

TOPIC = "accounts.password_reset"


def send(payload: Any) -> None:
    """Send a mail with a link that sets a new password; the handler of the outbox's messages.

    Raises:
        NoEffect: the mail server did not take it; the message is tried again.
    """
    server = get_connection()
    try:
        user = User.objects.filter(pk=payload["user"], is_active=True).exclude(email="").first()
        if user is None:
            return
        mail = _mail(user)
        server.open()
    except Exception as error:
        raise NoEffect from error
    try:
        server.send_messages([mail])
    except (SMTPResponseException, SMTPRecipientsRefused) as error:
        raise NoEffect from error
    finally:
        server.close()


def _mail(user: User) -> EmailMessage:
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    token = default_token_generator.make_token(user)
    link = settings.PUBLIC_URL + reverse("password_reset_confirm", args=[uid, token])
    languages = [_texts(language, user) for language, _name in settings.LANGUAGES]
    subject = " / ".join(each["subject"] for each in languages)
    text = render_to_string("mail/password_reset.txt", {"languages": languages, "link": link})
    return EmailMessage(subject, text, settings.DEFAULT_FROM_EMAIL, [user.email])


def _texts(language: str, user: User) -> dict[str, str]:
    hours = settings.PASSWORD_RESET_TIMEOUT // 3600
    with override(language):
        return {
            "subject": gettext("Choose a new password"),
            "body": gettext(
                "We were asked for a new password for your account %(name)s. The link below "
                "works once, for %(hours)s hours. If it was not you, ignore this mail: your "
                "password stays as it is."
            )
            % {"name": user.get_username(), "hours": hours},
        }
