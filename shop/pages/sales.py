"""The home page and the page of a sale, with stock and status by the database's clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from uuid import UUID

from django.apps import apps
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.paginator import Page, Paginator
from django.db.models import Case, Count, DurationField, F, Q, QuerySet, Value, When
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import add_never_cache_headers
from django.utils.functional import cached_property
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from shop.catalogue.models import Sale, local_texts
from shop.catalogue.sale_cache import opens_for, why_closed
from shop.catalogue.sales import database_time, held
from shop.checkout import buy
from shop.orders.details import Details, complete
from shop.orders.models import Order
from shop.orders.totals import Basket, PricedLine, fees_function, total
from shop.pages import refusals
from shop.pages.forms import BuyForm
from shop.pages.keys import amount_of, new_key
from shop.refusals import Refusal

SALES_PER_PAGE = 24

EARLY_CODE = "early_code"
"""Name of the session's entry with the visitor's code for buying earlier."""

MAX_CODE = 100
"""Characters of a code."""

MAX_PAGES = 1000
"""Pages of the home page that are looked for; a larger number is read as this one."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A sale with its product and item at one moment.

    Attributes:
        opens: when it opens for the visitor; for everybody if None.
    """

    sale: Sale
    now: datetime
    held: bool
    opens: datetime | None = None

    @property
    def opens_at(self) -> datetime:
        """Return when the sale opens for the visitor."""
        return self.opens or self.sale.starts_at

    @property
    def is_early(self) -> bool:
        """Whether the visitor may buy before others."""
        return self.opens_at < self.sale.starts_at

    @property
    def asks_for_code(self) -> bool:
        """Whether a code would open the sale earlier for the visitor."""
        waits = self.now < self.sale.starts_at and not self.is_early
        return waits and bool(self.sale.early_starts_at and self.sale.early_code)

    @property
    def status(self) -> str:
        """Return the sale's status as in the API."""
        return why_closed(self.sale, self.now, self.opens) or (
            "open" if self.sale.item.available else "sold_out"
        )

    @property
    def may_come_back(self) -> bool:
        """Whether all units are taken but some are unpaid."""
        return self.status == "sold_out" and self.held

    @property
    def badge(self) -> str:
        """Return the status that the page shows."""
        return "may_come_back" if self.may_come_back else self.status

    @property
    def counts_down(self) -> bool:
        """Whether the page shows a countdown."""
        return self.status not in {"sold_out", "ended"}

    @property
    def may_go_into_cart(self) -> bool:
        """Whether the page offers the cart."""
        return self.status in {"open", "not_started"}

    @property
    def counts_down_to(self) -> datetime:
        """Return when the sale opens, or when it ends once it is open."""
        return self.opens_at if self.status == "not_started" else self.sale.ends_at

    @property
    def seconds_to_opening(self) -> int:
        """Return the whole seconds until the sale is certainly open."""
        return max(int((self.opens_at - self.now).total_seconds()) + 1, 1)

    @property
    def minutes_to_pay(self) -> int:
        """Return the time to pay, in minutes."""
        return max(int(self.sale.hold.total_seconds() // 60), 1)

    @property
    def discount(self) -> int:
        """Return the percentage off the list price, rounded down."""
        product = self.sale.product
        if not product.list_price or product.currency != self.sale.currency:
            return 0
        return (product.list_price - self.sale.price) * 100 // product.list_price


def of(sales: Iterable[int]) -> list[Offer]:
    """Return the sales that exist, ordered by id."""
    return list(offers_of(Sale.objects.filter(pk__in=list(sales)).order_by("pk")))


class Listed:
    """The listed sales in the order of the home page, as a sequence for Django's `Paginator`.

    First what can be bought, then what opens next, then what is sold out, then what is over. The
    sales that are not over are few and are sorted by that; those that are over may be many, so they
    are read in the order of their index.
    """

    def __init__(self) -> None:
        listed = Sale.objects.filter(listed=True)
        upcoming = Q(starts_at__gt=Now())
        rank = Case(
            When(upcoming, then=Value(1)),
            When(item__available=0, then=Value(2)),
            default=Value(0),
        )
        # Of those that run, the newest first: it is what most visitors come for.
        from_start = Case(
            When(upcoming, then=F("starts_at") - Now()),
            default=Now() - F("starts_at"),
            output_field=DurationField(),
        )
        self._current = listed.filter(ends_at__gt=Now()).order_by(rank, from_start, "-pk")
        self._over = listed.filter(ends_at__lte=Now()).order_by("-ends_at", "-pk")

    @cached_property
    def _counts(self) -> tuple[int, int]:
        ended = Q(ends_at__lte=Now())
        counts = Sale.objects.filter(listed=True).aggregate(
            current=Count("pk", filter=~ended), over=Count("pk", filter=ended)
        )
        return counts["current"], counts["over"]

    def count(self) -> int:
        """Return the number of listed sales."""
        return sum(self._counts)

    def __len__(self) -> int:
        return self.count()

    def __getitem__(self, part: slice, /) -> list[Offer]:
        current, _ = self._counts
        offers: list[Offer] = []
        if part.start < current:
            offers += offers_of(self._current[part])
        if part.stop > current:
            offers += offers_of(self._over[max(part.start - current, 0) : part.stop - current])
        return offers


@dataclass(frozen=True, slots=True)
class Shelves:
    """A page of the home page.

    Attributes:
        page: of Django's `Paginator`.
        sections: its sales by the section's name, without empty sections.
    """

    page: Page[Offer]
    sections: list[tuple[str, list[Offer]]]


def shelves(number: int) -> Shelves:
    """Return a page of the home page, the last one if there are fewer, in at most three queries
    (and two for names in another language than the shop's first).
    """
    # A paginator only counts and slices, whatever the stubs say.
    paginator: Paginator[Offer] = Paginator(Listed(), SALES_PER_PAGE)  # type: ignore[arg-type]
    page = paginator.get_page(number)
    offers = list(page.object_list)
    full = [
        ("on_now", _of(offers, "open", "paused")),
        ("coming_up", _of(offers, "not_started")),
        ("over", _of(offers, "sold_out", "ended")),
    ]
    return Shelves(page, [(heading, shown) for heading, shown in full if shown])


def offers_of(sales: QuerySet[Sale]) -> Iterable[Offer]:
    """Return sales with their product, item and the database's time, in one query; in another
    language than the shop's first, in a second one the products' names.
    """
    rows = sales.select_related("product", "item").annotate(now=Now(), held=held())
    rows = rows.prefetch_related(*local_texts("product"))
    return (Offer(sale, sale.now, sale.held) for sale in rows)


def _of(offers: Iterable[Offer], *statuses: str) -> list[Offer]:
    return [offer for offer in offers if offer.status in statuses]


@require_safe
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    """Show the current, upcoming and past sales, page by page.

    A page is the same for all visitors and cached for a second, because everyone looks at an
    opening. The template calls `shelves` when the cache is empty.
    """
    number = page_number(request.GET.get("page"))
    context = {"shelves": partial(shelves, number), "number": number, "now": database_time()}
    return render(request, "shop/home.html", context)


def page_number(text: str | None) -> int:
    """Return the number of a page that an address asks for: 1 for what is no number."""
    try:
        number = int(text or 1)
    except ValueError:
        return 1
    return min(max(number, 1), MAX_PAGES)


# Never cached, so that each visit gets a new key: a click there is a new purchase, whereas a double
# click, a form sent again and a retry after a refusal repeat the key. The key says the price that
# the page showed.
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def sale(request: HttpRequest, sale: int) -> HttpResponse:
    """Show a sale (GET) or buy in it (POST)."""
    if request.method != "POST":
        return _show(request, sale, None, BuyForm())
    if not request.user.is_authenticated:
        return redirect_to_login(request.path)
    form = BuyForm(request.POST)
    try:
        if not form.is_valid():
            raise Refusal(form.refusal())
        key, quantity = form.cleaned_data["key"], form.cleaned_data["quantity"]
        bought = buy(
            sale,
            request.user.pk,
            key,
            quantity,
            form.details(),
            expected_amount=_expected(sale, key, quantity, form.details()),
            early_code=early_code(request),
        )
        return redirect("order", bought.order.pk)
    except Refusal as refusal:
        return _refuse(request, sale, form, refusal)


def early_code(request: HttpRequest) -> str:
    """Return the visitor's code for buying earlier: of this address, or of one seen before."""
    if (given := request.GET.get("code", "").strip()[:MAX_CODE]) and "\0" not in given:
        request.session[EARLY_CODE] = given
    return str(request.session.get(EARLY_CODE, ""))


def _expected(sale: int, key: UUID, quantity: int, details: Details) -> int | None:
    """Return what the buyer expects to pay: at the price that the page showed, with its fees."""
    price = amount_of(key)
    if price is None:
        return None
    if fees_function(settings.FEES) is None:
        return price * quantity
    currency = Sale.objects.values_list("currency", flat=True).filter(pk=sale).first()
    lines = [PricedLine(sale, quantity, price)]
    return total(Basket(lines, currency or "", complete(details))).amount


def _refuse(request: HttpRequest, sale: int, form: BuyForm, why: Refusal) -> HttpResponse:
    """Show the page with the refusal, and with the same key if a retry may use it."""
    code = why.code
    key = None if code in refusals.NEW_KEY else form.cleaned_data["key"]
    message = refusals.message(code, **why.more)
    quantity = form.cleaned_data.get("quantity", 1)
    response = _show(request, sale, key, form, quantity=quantity, refusal=message)
    return refusals.mark(response, code)


def show_again(request: HttpRequest, sale: int, message: str) -> HttpResponse:
    """Show a sale's page with what was typed into its form, and a message; nothing was done."""
    form = BuyForm(request.POST)
    form.is_valid()
    key, quantity = form.cleaned_data.get("key"), form.cleaned_data.get("quantity", 1)
    response = _show(request, sale, key, form, quantity=quantity, refusal=message)
    response.status_code = 409
    response._has_been_logged = True  # type: ignore[attr-defined]
    add_never_cache_headers(response)
    return response


def _show(
    request: HttpRequest,
    sale: int,
    key: UUID | None,
    form: BuyForm,
    *,
    quantity: int = 1,
    refusal: str = "",
) -> HttpResponse:
    offers = of([sale])
    if not offers:
        raise Http404
    if offers[0].sale.kind == Sale.Kind.DRAW and apps.is_installed("shop.draws"):
        return redirect("draw", sale)
    mine = Order.objects.none()
    if request.user.is_authenticated:
        mine = Order.objects.filter(lines__sale=sale, buyer=request.user.pk).order_by("-pk")[:10]
    shown = offers[0].sale
    offer = replace(offers[0], opens=opens_for(shown, request.user.pk, early_code(request)))
    context = {
        "offer": offer,
        "key": key or new_key(shown.price),
        "quantity": quantity,
        "form": form,
        "refusal": refusal,
        "mine": mine,
        "pays": bool(settings.PAYMENT_PROVIDER),
        "fees": total(Basket([PricedLine(sale, 1, shown.price)], shown.currency, {})).fees,
    }
    return render(request, "shop/sale.html", context)
