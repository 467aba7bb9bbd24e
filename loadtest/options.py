"""The options on the command line and in Locust's start form."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from loadtest.address import RunImpossible
from loadtest.faults.process import NONE, chosen
from loadtest.mix.plan import BUYERS, RUSH
from loadtest.run_plan import RunPlan
from loadtest.scenarios import MIXES
from loadtest.shops import OURS

# In place of a sale's id: a fresh one for every run.
FRESH = "new"


class Number(NamedTuple):
    """An option with a number, which must be at least `minimum`."""

    default: float
    minimum: int
    meaning: str


NUMBERS = {
    "stock": Number(100, 1, "Units of the fresh sale"),
    "limit": Number(1, 1, "Units per buyer in the fresh sale"),
    "arrivals": Number(
        0.0, 0, "Open loop: buyers per second, however slow the shop is; 0: closed loop"
    ),
    "rounds": Number(
        1,
        0,
        "How often each user comes, every time as another buyer; a rush plays so many rounds of "
        "each level; 0, except in a rush: without end",
    ),
    "seed": Number(0, 0, "Repeats the behaviour of a run; 0 draws a seed and logs it"),
}
CUSTOM = "custom"
PRESETS: dict[str, dict[str, Any]] = {
    CUSTOM: {},
    "flash": {"mix": "rush", "rounds": 1, "arrivals": 0.0},
    "long-sale": {"mix": "all", "rounds": 0, "arrivals": 0.0},
    "payers": {"mix": "payers", "rounds": 1, "arrivals": 0.0},
    "bots": {"mix": "bots", "rounds": 1, "arrivals": 0.0},
}
"""Choices that fit together, by name; each replaces the fields of the form that it names."""

FOR_ANY_SHOP = ("mix", "stock", "weights", "arrivals", "rounds", "seed")
"""What of the form applies to a shop that is named by its adapter."""
HIDDEN = {
    "further-sales": "Further sales by role, such as cart_a=7,brief=8",
    "history": "Folder for the history of every call; empty for none",
    "totals": "File for the counts of all buyers together; empty for none",
    "runs": "Folder in which the page keeps the last runs and their reports",
    "tokens": "File with the tokens of a deployed shop's accounts, one a line, on each machine",
    "shops": "Folder of the shops that are installed on this machine",
    "hosting": "Command that runs the shop of a name, until its input ends",
    "target": "File that says what faults act on (loadtest/faults)",
}
"""Texts that the form does not show."""

SWITCHES = {
    "i-own-this-host": "The shop may be loaded though it is elsewhere",
    "until-done": "End the run when every user has played all their buyers",
}
"""Switches, which the form does not show either."""

# The form's users, and how many of them start per second: several for each unit of a fresh sale,
# all there within seconds.
USERS, SPAWN_RATE = 500, 100


def add_options(
    parser: Any,
    strategies: Sequence[str] = (),
    faults: Sequence[str] = (),
    shops: Sequence[str] = (),
    *,
    mixes: Sequence[str] = (*MIXES, BUYERS),
    adapter: bool = False,
) -> None:
    """Add the options of this project to Locust's.

    `strategies` are those of the shop, as far as they are known yet; `faults` those that it can
    have, which is none unless `--target` says where it is; `shops` those that can be loaded in
    place of it, which is none unless `--shops` says where they are installed; `mixes` those that
    may come; `adapter` whether a shop was chosen by its adapter on the command line, whose form
    shows no other choices than apply to any shop.
    """
    parser.set_defaults(num_users=USERS, spawn_rate=SPAWN_RATE)

    def add(name: str, meaning: str, **more: Any) -> None:
        if adapter and name not in FOR_ANY_SHOP:
            more["include_in_web_ui"] = False
        variable = f"LOADTEST_{name.upper().replace('-', '_')}"
        parser.add_argument(f"--{name}", env_var=variable, help=meaning, **more)

    def add_numbers(*names: str) -> None:
        for name in names:
            default, _, meaning = NUMBERS[name]
            add(name, meaning, type=type(default), default=default)

    if shops:
        meaning = "Shop to load and judge; make prove-shop SHOP=NAME installs more"
        add("shop", meaning, choices=shops, default=OURS)
    else:
        meaning = "Load another shop, by the name of its adapter, or path.to:Adapter"
        add("shop", meaning, default=OURS, include_in_web_ui=False)
    meaning = f"Fields that fit together: mix, rounds and arrivals; {CUSTOM}: the fields below"
    add("preset", meaning, choices=list(PRESETS), default=CUSTOM)
    add("sale", f"Id of the sale, or {FRESH}: a fresh one for every run", default=FRESH)
    usual = strategies[0] if strategies else "combining"
    add("strategy", "Strategy of the fresh sale", default=usual, choices=strategies or None)
    add_numbers("stock", "limit")
    meaning = "Which buyers come"
    if BUYERS in mixes:
        meaning += f"; to another shop {RUSH} (all at one moment) or {BUYERS} (at their own pace)"
    add("mix", meaning, choices=list(mixes), default=RUSH)
    if faults:
        meaning = "Inject this fault during the run, which then goes on until it is stopped"
        add("fault", meaning, choices=faults, default=faults[0])
    such_as = "buy=60,cancel=0" if adapter else "buy_once=60,look_around=0"
    add("weights", f"Other weights than the mix's, such as {such_as}", default="")
    add_numbers("arrivals", "rounds", "seed")
    for name, meaning in HIDDEN.items():
        add(name, meaning, default="", include_in_web_ui=False)
    for name, meaning in SWITCHES.items():
        add(name, meaning, action="store_true", include_in_web_ui=False)


def wrong_numbers(given: Mapping[str, Any]) -> Iterator[str]:
    """Say what is wrong with each number of a start, by the names of options or of the form."""
    users = Number(1, 1, "Users")
    for name, key, number in (
        ("users", "num_users", users),
        ("users", "user_count", users),
        *((name, name, number) for name, number in NUMBERS.items()),
    ):
        if given.get(key) is None:
            continue
        try:
            too_small = type(number.default)(given[key]) < number.minimum
        except ValueError:
            kind = "a whole number" if isinstance(number.default, int) else "a number"
            yield f"{name} must be {kind}"
            continue
        if too_small:
            yield f"{name} must be at least {number.minimum}"


REPEATED_MINUTES = 1.0
"""Minutes for the command that repeats a fault run of the page."""


def plan_of(options: Namespace) -> RunPlan:
    """Read the plan of a run; its sales are not open yet.

    Raises:
        RunImpossible: numbers are too small; names all of them.
    """
    if problems := list(wrong_numbers(vars(options))):
        raise RunImpossible("; ".join(problems))
    faults = chosen(getattr(options, "fault", NONE), options.target)
    return RunPlan(
        buyers=options.num_users or 1,
        seed=int(options.seed or 0),
        stock=int(options.stock),
        limit=int(options.limit),
        strategy=options.strategy,
        mix=options.mix,
        arrivals=float(options.arrivals),
        target=options.target,
        endless=int(options.rounds) == 0,
        minutes=REPEATED_MINUTES if faults else 0.0,
        faults=faults,
    )
