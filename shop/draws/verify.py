#!/usr/bin/env python3
"""Check a draw from its public file, with nothing but this file and Python's standard library:

    python verify.py draw.jsonl
    python verify.py draw.jsonl --number 17
    python verify.py draw.jsonl --receipt receipt.json

The file has a header and one line for each entry and each withdrawal (`docs/draws.md`). This
program checks that the seed is the one to which the shop had committed itself, that the lines form
an unbroken chain of hashes up to the published last one, and computes everybody's place.

It ends with 0 if all of that is so, with 1 if something contradicts, and with 2 if the file cannot
be read or the draw is not over. The shop computes its draws with the functions of this file.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import sys
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ENTRY, WITHDRAWAL = b"\x00", b"\x01"


class Contradiction(Exception):
    """Two published things that cannot both be true."""


class NotOver(Exception):
    """Something that is needed has not been published."""


def number_bytes(number: int) -> bytes:
    """Write a number as 8 bytes, the most significant first."""
    return number.to_bytes(8, "big")


def commitment_to(seed: bytes) -> bytes:
    """Return what the shop publishes before the window opens."""
    return hashlib.sha256(seed).digest()


def first_hash(commitment: bytes, source: str) -> bytes:
    """Return the hash of the empty list.

    Args:
        commitment: 32 bytes.
        source: where the public value comes from; empty if there is none.
    """
    return hashlib.sha256(commitment + source.encode()).digest()


def mark_of(secret: bytes, sale: int, buyer: int) -> bytes:
    """Return what the list says of an entry: its buyer can show that it is theirs, nobody else can
    find out whose it is.

    Args:
        secret: 32 bytes of the receipt.
        sale: number of the sale.
        buyer: number of the account.
    """
    return hashlib.sha256(secret + number_bytes(sale) + number_bytes(buyer)).digest()


def after_entry(before: bytes, number: int, mark: bytes) -> bytes:
    """Return the running hash after a line that enters somebody.

    Args:
        before: the running hash before it.
        number: of the line, from 1.
        mark: of the entry.
    """
    return hashlib.sha256(before + number_bytes(number) + ENTRY + mark).digest()


def after_withdrawal(before: bytes, number: int, withdraws: int) -> bytes:
    """Return the running hash after a line that withdraws the entry with a number."""
    content = WITHDRAWAL + number_bytes(withdraws)
    return hashlib.sha256(before + number_bytes(number) + content).digest()


def key_of(seed: bytes, last_hash: bytes, public_value: str) -> bytes:
    """Return the key by which entries are ordered."""
    return seed + last_hash + public_value.encode()


def order_by(key: bytes, number: int) -> bytes:
    """Return what an entry is ordered by, the smallest first."""
    return hmac.digest(key, number_bytes(number), "sha256")


def ordered(key: bytes, numbers: Iterable[int]) -> list[int]:
    """Return the entries' numbers in the order of the draw."""
    return sorted(numbers, key=lambda number: (order_by(key, number), number))


class Checked:
    """A draw whose file was checked.

    Attributes:
        header: of the file.
        hashes: the running hash after each line, one after another, of 32 bytes each.
        entered: numbers of the entries that were not withdrawn, in ascending order.
    """

    def __init__(self, lines: Iterator[str]) -> None:
        """Read the file's lines.

        Raises:
            Contradiction: something in it contradicts.
            NotOver: the draw is not closed, or the seed or the public value is missing.
            ValueError: it is no such file.
        """
        self.header: dict[str, Any] = json.loads(next(lines, ""))
        self._check_seed()
        self.hashes = bytearray()
        self.entered: list[int] = []
        self._check_chain(lines)

    def _check_seed(self) -> None:
        for name in ("last_hash", "seed"):
            if self.header[name] is None:
                raise NotOver(f"the shop has not published `{name}`")
        if self.header["source"] and not self.header["public_value"]:
            raise NotOver("the public value is not known yet")
        if not self.header["source"] and self.header["public_value"]:
            raise Contradiction("there is a public value, but no source was named for one")
        if commitment_to(self.seed).hex() != self.header["commitment"]:
            raise Contradiction("the seed is not the one that the shop had committed itself to")

    def _check_chain(self, lines: Iterator[str]) -> None:
        running = first_hash(bytes.fromhex(self.header["commitment"]), self.header["source"])
        # Whether each entry is in: a byte each, so that a million of them need little memory.
        is_in = array("b", [0])
        for number, line in enumerate(map(json.loads, lines), start=1):
            if line["number"] != number:
                raise Contradiction(f"line {number} has the number {line['number']}")
            withdraws = line.get("withdraws")
            if withdraws is None:
                running = after_entry(running, number, bytes.fromhex(line["entry"]))
                is_in.append(1)
            else:
                running = after_withdrawal(running, number, withdraws)
                if not (0 < withdraws < number and is_in[withdraws]):
                    raise Contradiction(f"line {number} withdraws {withdraws}, which is not in")
                is_in[withdraws] = 0
                is_in.append(0)
            if running.hex() != line["hash"]:
                raise Contradiction(f"the hash of line {number} does not follow from those before")
            self.hashes += running
        if len(is_in) - 1 != self.header["lines"]:
            raise Contradiction(f"{len(is_in) - 1} lines, and not {self.header['lines']}")
        if running.hex() != self.header["last_hash"]:
            raise Contradiction("the last hash is not the one that was published at the close")
        self.entered = [number for number, one in enumerate(is_in) if one]

    @property
    def seed(self) -> bytes:
        """The revealed seed."""
        return bytes.fromhex(self.header["seed"])

    def order(self) -> list[int]:
        """Return the numbers of all entries, the first winner first."""
        last_hash = bytes.fromhex(self.header["last_hash"])
        key = key_of(self.seed, last_hash, self.header["public_value"] or "")
        return ordered(key, self.entered)

    def check_receipt(self, receipt: dict[str, Any]) -> None:
        """Check that the list has what a receipt says.

        Raises:
            Contradiction: it has not.
        """
        number = receipt["number"]
        if not 1 <= number <= self.header["lines"]:
            raise Contradiction(f"the list has no number {number}")
        if self.hashes[32 * (number - 1) : 32 * number].hex() != receipt["hash"]:
            raise Contradiction(f"the list up to number {number} is not the one of the receipt")
        secret, sale = bytes.fromhex(receipt["secret"]), receipt["sale"]
        mark = mark_of(secret, sale, receipt["buyer"])
        before = (
            self.hashes[32 * (number - 2) : 32 * (number - 1)]
            if number > 1
            else first_hash(bytes.fromhex(self.header["commitment"]), self.header["source"])
        )
        if after_entry(bytes(before), number, mark).hex() != receipt["hash"]:
            raise Contradiction(f"number {number} is not the entry of this receipt's buyer")


def main(arguments: list[str] | None = None) -> int:
    """Check the file that the command line names; print what was found."""
    parser = argparse.ArgumentParser(description="Check a draw from its public file.")
    parser.add_argument("file", help="draw.jsonl")
    parser.add_argument("--number", type=int, help="print the place of this entry")
    parser.add_argument("--receipt", help="check a receipt, the JSON that the shop gave you")
    parser.add_argument("--order", action="store_true", help="print all numbers, by place")
    options = parser.parse_args(arguments)
    try:
        with Path(options.file).open(encoding="utf-8") as file:
            checked = Checked(file)
        number = options.number
        if options.receipt:
            receipt = json.loads(Path(options.receipt).read_text(encoding="utf-8"))
            checked.check_receipt(receipt)
            number = receipt["number"]
            print(f"The receipt of number {number} agrees with the list.")
    except Contradiction as error:
        print(f"CONTRADICTION: {error}.")
        return 1
    except NotOver as error:
        print(f"Not over: {error}.")
        return 2
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"This file cannot be read: {type(error).__name__}: {error}")
        return 2
    order = checked.order()
    print(f"{checked.header['lines']} lines, {len(order)} entries: the seed and the chain agree.")
    if options.order:
        for place, each in enumerate(order, start=1):
            print(f"{place}\t{each}")
    if number is not None:
        if number not in checked.entered:
            print(f"Number {number} is no entry, or was withdrawn.")
            return 1
        print(f"Number {number} has place {order.index(number) + 1}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
