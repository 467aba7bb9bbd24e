"""The admin shows who holds and who waits for an item's lock, and breaks it with a reason."""

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.urls import reverse

from inventory.models import Item
from inventory.redis import ITEM_LOCK, DegradableLock
from locking import LockLost
from locking.backends.redis_status import status_of
from locking.tests.helpers import eventually
from shop.accounts.models import User
from shop.tests.catalogue import a_buyer, a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)

US = f"{socket.gethostname()}/{os.getpid()}"
LONG = DegradableLock("item", lease=60.0, timeout=60.0)
"""The item's lock, held for longer than a sale does, so that a page can be looked at."""


@pytest.fixture
def item():
    return a_sale(stock=5).item


@contextmanager
def a_waiter(item: Item) -> Iterator[None]:
    """A thread that waits for the lock."""

    def wait() -> None:
        LONG.make(item.pk).acquire(timeout=30).release()

    thread = threading.Thread(target=wait)
    thread.start()
    eventually(lambda: status_of(LONG.make(item.pk)).waiters)
    try:
        yield
    finally:
        thread.join(30)


def page(item):
    return reverse("admin:inventory_item_lock", args=[item.pk])


def shown(client, item):
    return client.get(page(item)).content.decode()


def shown_list(client):
    return client.get(reverse("admin:inventory_item_changelist")).content.decode()


def a_clerk(client, *permissions):
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(clerk)


def test_a_free_lock_is_shown_as_free(admin_client, item):
    text = shown(admin_client, item)
    assert text.count("nobody") == 2
    assert "Fencing token" not in text
    assert ">free</a>" in shown_list(admin_client)


def test_holder_token_lease_and_waiters_are_shown(admin_client, item):
    lease = LONG.make(item.pk).acquire()
    with a_waiter(item):
        try:
            text, listed = shown(admin_client, item), shown_list(admin_client)
        finally:
            lease.release()
    assert f"<td>{US}</td>" in text
    assert f"<td>{lease.token}</td>" in text
    assert re.search(r"<td>(5\d|60)\.\d s left</td>", text)
    assert f"1. {US}" in text
    assert f">held by {US}, 1 waiting</a>" in listed


def test_a_lock_is_broken_with_a_reason_that_the_log_keeps(admin_client, item):
    lease = LONG.make(item.pk).acquire()
    answer = admin_client.post(page(item), {"reason": "web-1 is stuck"}, follow=True)
    assert f"Broke the lock, last seen with {US}, token {lease.token}." in answer.rendered_content
    assert status_of(ITEM_LOCK.make(item.pk)).owner is None
    with pytest.raises(LockLost):
        lease.release()
    [entry] = LogEntry.objects.filter(object_id=str(item.pk))
    assert entry.user.username == "admin"
    assert entry.change_message == (
        f"Broke the lock, last seen with {US}, token {lease.token}: web-1 is stuck"
    )


def test_sales_go_on_after_the_lock_was_broken(admin_client):
    sale = a_sale(stock=5)
    lease = LONG.make(sale.item_id).acquire()
    admin_client.post(page(sale.item), {"reason": "stuck"})
    an_order(sale)
    assert lease.token is not None
    assert Item.objects.get(pk=sale.item_id).fence > lease.token, "sold under the lock"
    with pytest.raises(LockLost):
        lease.release()


def test_nothing_is_broken_without_a_reason(admin_client, item):
    with LONG.make(item.pk).acquire():
        for reason in ("", "   "):
            assert "errorlist" in admin_client.post(page(item), {"reason": reason}).rendered_content
        assert status_of(ITEM_LOCK.make(item.pk)).owner == US
    assert not LogEntry.objects.exists()


def test_a_free_lock_is_not_broken(admin_client, item):
    answer = admin_client.post(page(item), {"reason": "stuck"}, follow=True)
    assert "Nobody held the lock." in answer.rendered_content
    assert not LogEntry.objects.exists()


def test_who_may_only_look_sees_the_lock_and_does_not_break_it(client, item):
    a_clerk(client, "view_item")
    with LONG.make(item.pk).acquire():
        assert US in shown(client, item)
        assert "Break the lock" not in shown(client, item)
        assert client.post(page(item), {"reason": "stuck"}).status_code == 403
        assert status_of(ITEM_LOCK.make(item.pk)).owner == US


def test_who_may_not_see_items_sees_no_lock(client, item):
    a_clerk(client, "view_sale")
    assert client.get(page(item)).status_code == 403
    client.force_login(a_buyer())
    assert client.get(page(item)).status_code == 302


def test_without_redis_the_pages_say_so(admin_client, item, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert "Redis does not answer. Sales go on without the lock" in shown(admin_client, item)
    assert "Redis does not answer" in shown_list(admin_client)
    answer = admin_client.post(page(item), {"reason": "stuck"}, follow=True)
    assert "Redis does not answer. Please try again." in answer.rendered_content
    assert not LogEntry.objects.exists()
