"""The admin's pages for the acts of staff on an order: each with a form, a reason and a button.

The page explains what the button will do; nothing is done before it is pressed. A user needs
only the act's permission, and not the permission to see orders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, cast
from uuid import uuid4

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from inventory.admin import ReadOnly
from inventory.postgresql.base import may_have_effects
from shop.mails.rendering import Kind as MailKind
from shop.money import plain, to_major, to_minor
from shop.operating import outage
from shop.orders import Part
from shop.orders.models import Order, Status
from shop.orders.transitions import Act
from shop.payments.models import Discrepancy
from shop.refusals import OF_STAFF, PROBLEMS, Problem, Refusal
from shop.staff import orders as staff

MAX_MINUTES = 30 * 24 * 60
"""How long staff may hold an order's units: a month."""


def reason_field() -> forms.CharField:
    """Return the field for why somebody acts on orders."""
    return forms.CharField(
        max_length=500,
        label=_("Reason"),
        help_text=_("The order's history keeps it with your name. Buyers do not see it."),
        widget=forms.TextInput(attrs={"size": 60}),
    )


class ActForm(forms.Form):
    """What every act needs: a reason, and the key of this page."""

    key = forms.UUIDField(widget=forms.HiddenInput)
    reason = reason_field()

    def __init__(self, order: Order, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.order = order
        self.fields["key"].initial = uuid4
        self.order_fields([*(name for name in self.fields if name != "reason"), "reason"])


class RefundForm(ActForm):
    """The whole order, or some units of a line."""

    line = forms.ChoiceField(label=_("What comes back"), required=False)
    units = forms.IntegerField(
        label=_("Units"), required=False, min_value=1, max_value=1000,
        help_text=_("only if not the whole order comes back"),
    )  # fmt: skip

    def __init__(self, order: Order, *arguments: Any, **named: Any) -> None:
        super().__init__(order, *arguments, **named)
        live = [(str(line.sale_id), line) for line in order.lines.all() if line.live]
        choices = [(sale, f"{line.live} × {line.sale.local_name}") for sale, line in live]
        cast("forms.ChoiceField", self.fields["line"]).choices = [
            ("", gettext("the whole order")),
            *choices,
        ]

    def clean(self) -> dict[str, Any]:
        """Require the line with the units, and the units with the line."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors and bool(cleaned["line"]) != bool(cleaned["units"]):
            raise forms.ValidationError(gettext("Choose a line and its units, or neither."))
        return cleaned


class AmountForm(ActForm):
    """An amount of money, which is typed in major units."""

    amount = forms.DecimalField(label=_("Amount"), min_value=0)

    def __init__(self, order: Order, *arguments: Any, **named: Any) -> None:
        super().__init__(order, *arguments, **named)
        left = to_major(order.amount - order.refunded, order.currency)
        self.fields["amount"].help_text = gettext("in %(currency)s; at most %(left)s") % {
            "currency": order.currency,
            "left": left,
        }

    def clean_amount(self) -> int:
        """Return the amount in minor units."""
        amount: Decimal = self.cleaned_data["amount"]
        try:
            minor = to_minor(amount, self.order.currency)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error
        if not minor:
            raise forms.ValidationError(gettext("Nothing is no amount."))
        return minor


class NumberForm(AmountForm):
    """An amount that has gone back, and the provider's number for it."""

    number = forms.CharField(max_length=100, label=_("Number at the provider"))


class DisputeForm(NumberForm):
    """A dispute that is lost; an open one is offered."""

    def __init__(self, order: Order, *arguments: Any, **named: Any) -> None:
        super().__init__(order, *arguments, **named)
        disputes = Discrepancy.objects.filter(
            payment__order=order, kind=Discrepancy.Kind.DISPUTE, closed=None
        )
        self.fields["number"].initial = disputes.values_list("number", flat=True).first()


class HoldForm(ActForm):
    """How long the units are held, from now on."""

    minutes = forms.IntegerField(
        label=_("Minutes from now"), min_value=1, max_value=MAX_MINUTES, initial=30
    )


class MailForm(ActForm):
    """Which mail is sent again."""

    kind = forms.ChoiceField(label=_("Mail"))

    def __init__(self, order: Order, *arguments: Any, **named: Any) -> None:
        super().__init__(order, *arguments, **named)
        cast("forms.ChoiceField", self.fields["kind"]).choices = [
            (kind, MAILS[kind]) for kind in staff.mails_of(order)
        ]


MAILS: dict[MailKind, Promise] = {
    MailKind.CONFIRMATION: _("order received"),
    MailKind.PAID: _("payment received"),
    MailKind.EXPIRED: _("order expired"),
    MailKind.CANCELLED: _("order cancelled by the shop"),
    MailKind.REFUNDED: _("money given back"),
    MailKind.TOO_LATE: _("paid too late or too much"),
}


@dataclass(frozen=True, slots=True)
class ActPage:
    """An act on an order.

    Attributes:
        permission: of this app.
        title: of the page, and of the link to it.
        about: what the button does.
        form: what the act needs.
        states: statuses of orders in which the order's page has a link to it.
        run: does it, with the form's values.
    """

    permission: str
    title: Promise
    about: Promise
    form: type[ActForm]
    states: frozenset[str]
    run: Callable[[Order, Act, dict[str, Any]], None]


def _refund(order: Order, act: Act, given: dict[str, Any]) -> None:
    part = Part(given["units"], given["key"], int(given["line"])) if given["line"] else None
    staff.refund(order, act, part)


def _concede(order: Order, act: Act, given: dict[str, Any]) -> None:
    staff.concede(order, act, given["amount"], given["key"])


def _refund_by_hand(order: Order, act: Act, given: dict[str, Any]) -> None:
    staff.record_refund_by_hand(order, act, given["amount"], given["number"], given["key"])


def _lost_dispute(order: Order, act: Act, given: dict[str, Any]) -> None:
    staff.record_lost_dispute(order, act, given["amount"], given["number"], given["key"])


def _hold(order: Order, act: Act, given: dict[str, Any]) -> None:
    staff.hold(order, act, timedelta(minutes=given["minutes"]), given["key"])


def _resend(order: Order, act: Act, given: dict[str, Any]) -> None:
    staff.resend(order, act, MailKind(given["kind"]), given["key"])


ACTS = {
    "cancel": ActPage(
        "cancel_order",
        _("Cancel"),
        _("The order is cancelled, its units are released, and the buyer gets a mail."),
        ActForm,
        frozenset({Status.AWAITING_PAYMENT}),
        lambda order, act, _given: staff.cancel(order, act),
    ),
    "hold": ActPage(
        "extend_order",
        _("Hold for longer"),
        _(
            "The buyer gets time to pay, from now on. The units of an expired order are held "
            "again if they are still in stock."
        ),
        HoldForm,
        frozenset({Status.AWAITING_PAYMENT, Status.EXPIRED}),
        _hold,
    ),
    "refund": ActPage(
        "refund_order",
        _("Return and refund"),
        _(
            "The units come back, also after they were handed over, and the buyer gets back what "
            "was paid for them. This cannot be undone."
        ),
        RefundForm,
        staff.KEPT,
        _refund,
    ),
    "goodwill": ActPage(
        "refund_order",
        _("Goodwill"),
        _(
            "The buyer gets this amount back and keeps the units. This cannot be undone. What is "
            "returned later is refunded less this amount."
        ),
        AmountForm,
        staff.KEPT,
        _concede,
    ),
    "refund-by-hand": ActPage(
        "record_refund",
        _("Record a refund made by hand"),
        _(
            "Somebody has refunded the buyer at the provider. The shop only writes it down: it "
            "takes the place of a refund of the same amount that has failed; otherwise the buyer "
            "keeps the units."
        ),
        NumberForm,
        # An order that had ended may have a refund of money that came late.
        staff.KEPT | {Status.REFUND_PENDING, Status.EXPIRED, Status.CANCELLED},
        _refund_by_hand,
    ),
    "lost-dispute": ActPage(
        "record_refund",
        _("Record a lost dispute"),
        _(
            "The buyer's bank has taken the money back for good. The shop writes it down, and "
            "closes the dispute."
        ),
        DisputeForm,
        staff.KEPT,
        _lost_dispute,
    ),
    "mail": ActPage(
        "resend_mail",
        _("Send a mail again"),
        _("The buyer gets this mail once more, as the order is now."),
        MailForm,
        frozenset(Status) - {Status.CANCELLED},
        _resend,
    ),
}
"""By the end of the page's address."""


class OrderActs(ReadOnly):
    """The orders' admin with a page for each act."""

    def get_urls(self) -> list[URLPattern]:
        """Add the acts' pages."""
        view = self.admin_site.admin_view(self.act)
        own = [
            path(f"<int:pk>/{name}/", view, {"name": name}, name=f"shop_order_{name}")
            for name in ACTS
        ]
        return [*own, *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Add links to the acts that the order's state and the user's permissions allow."""
        order = self.get_object(request, object_id)
        acts = []
        if order is not None:
            acts = [
                (page.title, reverse(f"admin:shop_order_{name}", args=[order.pk]))
                for name, page in ACTS.items()
                if order.status in page.states and self._may(request, page)
            ]
        context = {"acts": acts, **(extra_context or {})}
        return super().change_view(request, object_id, form_url, context)

    def act(self, request: HttpRequest, pk: int, name: str) -> HttpResponse:
        """Show an act's form; on POST, do it.

        Runs outside a transaction: the acts have their own, and call the provider without any.
        """
        page = ACTS[name]
        if not self._may(request, page):
            raise PermissionDenied
        order = self.get_object(request, str(pk))
        if order is None:
            raise Http404
        form = page.form(order, request.POST if request.method == "POST" else None)
        status = 200
        if request.method == "POST" and form.is_valid():
            code = self._do(request, page, order, form.cleaned_data)
            if not code:
                return self._back(request, order)
            form.add_error(None, _why(code))
            status = _problem(code).status
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"{page.title} · {order}",
            "act": page,
            "row": order,
            "order": order,
            "form": form,
            "amount": plain(order.amount, order.currency),
            "refunded": plain(order.refunded, order.currency),
            "may_view": self.has_view_permission(request),
        }
        return TemplateResponse(request, "admin/shop/order/act.html", context, status=status)

    def _may(self, request: HttpRequest, page: ActPage) -> bool:
        return request.user.has_perm(f"{self.opts.app_label}.{page.permission}")

    def _do(self, request: HttpRequest, page: ActPage, order: Order, given: dict[str, Any]) -> str:
        """Do an act; return the code of its refusal, or nothing."""
        may_have_effects.set(False)
        act = Act(request.user.get_username(), given["reason"])
        try:
            page.run(order, act, given)
        except Refusal as refusal:
            return refusal.code
        except (OperationalError, InterfaceError) as error:
            return outage.refusal(error).code
        text = f"{page.title}: {given['reason']}"
        self.log_change(request, order, text)
        messages.success(request, f"{order}: {page.title}")
        return ""

    def _back(self, request: HttpRequest, order: Order) -> HttpResponse:
        if self.has_view_permission(request):
            return redirect("admin:shop_order_change", order.pk)
        return redirect("admin:index")


def _why(code: str) -> str:
    if code == "outcome_unknown":
        return gettext(
            "It is written down, but the provider has not answered yet. The shop asks again by "
            "itself; pressing the button again does nothing twice."
        )
    return str(_problem(code).title)


def _problem(code: str) -> Problem:
    return PROBLEMS.get(code) or OF_STAFF[code]
