"""The admin's second factor: asked for where the setting requires it, and replaced by a command."""

from __future__ import annotations

import re
import time
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils.translation import override
from django_otp.oath import TOTP
from django_otp.plugins.otp_static.models import StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice

from shop.accounts.models import User
from shop.tests.catalogue import PASSWORD

pytestmark = pytest.mark.django_db(transaction=True)

ADMIN, SIGN_IN = "/admin/", "/admin/login/"
WRONG = "This code is not right"


@pytest.fixture(autouse=True)
def _required(settings: Any) -> None:
    settings.STAFF_SECOND_FACTOR = True
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django_otp.middleware.OTPMiddleware"]


@pytest.fixture
def chief() -> User:
    return User.objects.create_superuser("chief", "", PASSWORD)


def second_factor(user: User) -> list[str]:
    """Give a second factor; return the recovery codes."""
    said = StringIO()
    call_command("second_factor", user.get_username(), stdout=said)
    assert "otpauth://totp/" in said.getvalue()
    return re.findall(r"^  ([a-z2-7]{8})$", said.getvalue(), re.MULTILINE)


def code_of(user: User, steps: int = 0) -> str:
    device = TOTPDevice.objects.get(user=user)
    app = TOTP(device.bin_key)
    app.time = time.time() + 30 * steps
    return f"{app.token():06}"


def sign_in(client: Client, code: str, **different: str) -> Any:
    form = {"username": "chief", "password": PASSWORD, "code": code, "next": ADMIN, **different}
    return client.post(SIGN_IN, form)


def test_admin_opens_with_password_and_code(client: Client, chief: User) -> None:
    second_factor(chief)
    assert sign_in(client, code_of(chief)).url == ADMIN
    assert client.get(ADMIN).status_code == 200


@pytest.mark.parametrize("code", ["", "000000", "aaaaaaaa", "१२३४५६", "x" * 17])
def test_admin_stays_closed_without_the_right_code(client: Client, chief: User, code: str) -> None:
    second_factor(chief)
    assert sign_in(client, code).status_code == 200
    assert client.get(ADMIN).status_code == 302


def test_code_alone_is_not_enough(client: Client, chief: User) -> None:
    second_factor(chief)
    refused = sign_in(client, code_of(chief), password="wrong")
    assert WRONG not in refused.text
    assert client.get(ADMIN).status_code == 302


def test_code_of_somebody_else_is_refused(client: Client, chief: User) -> None:
    other = User.objects.create_superuser("other", "", PASSWORD)
    second_factor(chief)
    second_factor(other)
    assert WRONG in sign_in(client, code_of(other)).text


def test_code_works_once(client: Client, chief: User) -> None:
    second_factor(chief)
    code = code_of(chief)
    sign_in(client, code)
    assert WRONG in sign_in(Client(), code).text


def test_right_code_is_refused_right_after_a_wrong_one(client: Client, chief: User) -> None:
    second_factor(chief)
    sign_in(client, "000000")
    assert WRONG in sign_in(client, code_of(chief)).text


def test_recovery_code_works_once_and_after_a_wrong_code(client: Client, chief: User) -> None:
    codes = second_factor(chief)
    assert len(codes) == 10
    sign_in(client, "000000")
    assert sign_in(client, f" {codes[0].upper()} ").url == ADMIN
    assert WRONG in sign_in(Client(), codes[0]).text
    assert StaticToken.objects.count() == 9


def test_session_of_the_shops_sign_in_does_not_open_the_admin(client: Client, chief: User) -> None:
    second_factor(chief)
    client.post(reverse("sign-in"), {"username": "chief", "password": PASSWORD})
    assert "chief" in client.get("/").text
    assert client.get(ADMIN).headers["Location"] == f"{SIGN_IN}?next={ADMIN}"


def test_staff_without_a_second_factor_cannot_sign_in(client: Client, chief: User) -> None:
    assert WRONG in sign_in(client, "123456").text


def test_new_second_factor_ends_what_the_old_one_opened(client: Client, chief: User) -> None:
    codes = second_factor(chief)
    sign_in(client, codes[0])
    second_factor(chief)
    assert client.get(ADMIN).status_code == 302
    assert WRONG in sign_in(client, codes[1]).text
    assert sign_in(client, code_of(chief)).url == ADMIN


def test_command_refuses_whoever_is_not_staff() -> None:
    User.objects.create_user("buyer", "", None)
    for name in ("buyer", "nobody"):
        with pytest.raises(CommandError, match=f"no member of the staff called {name}"):
            call_command("second_factor", name)


def test_sign_in_page_is_in_chinese(client: Client, chief: User) -> None:
    second_factor(chief)
    client.cookies["django_language"] = "zh-hans"
    assert "验证码" in client.get(SIGN_IN).text
    with override("zh-hans"):
        assert "验证码不正确" in sign_in(client, "000000").text


def test_admin_asks_for_no_code_where_none_is_required(
    client: Client, chief: User, settings: Any
) -> None:
    settings.STAFF_SECOND_FACTOR = False
    assert 'name="code"' not in client.get(SIGN_IN).text
    assert sign_in(client, "").url == ADMIN
    assert client.get(ADMIN).status_code == 200
