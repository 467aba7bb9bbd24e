"""The snapshot's form: what is written is read, and a part is never taken for the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtest.checker import snapshot as s

ROWS: list[s.Row] = [
    s.Item("7", 10, 9, 1, 0, 9, 5),
    s.Sale("1", "7", 2),
    s.Reservation("1", "7", "b", "k", 1, s.HELD),
    s.Order("o1", "1", "1", "7", "b", "k", 1, 999, "pending", 1_767_225_600_000_000),
    s.Movement(1, "7", 10, "restock", 4),
    s.Effect("o1", "confirmation", 1),
    s.Outbox("1", "order_opened", True),
    s.Payment("c1", "o1", "capture", 999),
    s.Terms("1", 1_767_225_600_000_000, 1_767_225_600_000_002, 999, 0, 1_767_225_700_000_000, True),
    s.Status("paid", 2, s.CONFIRMED, paid=True),
    s.Step("part_cancelled", "cancel", mail="cancelled"),
    s.Mail("confirmation", "reserved", deadline=True),
    s.Event(1, "o1", "part_cancelled", 1_767_225_600_000_001, 999, 1, "1"),
    s.Buyer("b", "b@example.com"),
    s.Delivery("<confirmation.o1@shop>", "b@example.com", "Reserved", "9.99", "confirmation", "o1"),
]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    s.write(tmp_path / "s", s.Header(12, ("confirmation",)), iter(ROWS))
    header, rows = s.read(tmp_path / "s")
    assert header == s.Header(12, ("confirmation",))
    assert list(rows) == ROWS


def test_a_snapshot_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    s.write(path, s.Header(12), ROWS)
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in range(1, len(lines)):
        path.write_bytes(b"".join(lines[:kept]))
        with pytest.raises(s.SnapshotError, match="cut short"):
            list(s.read(path)[1])
    path.write_bytes(b"".join(lines[:3] + lines[4:]))
    with pytest.raises(s.SnapshotError, match=f"{len(ROWS) - 1} rows where {len(ROWS)}"):
        list(s.read(path)[1])


@pytest.mark.parametrize(
    "line",
    [
        '{"kind":"item"}',
        '{"kind":"nothing"}',
        '{"kind":"effect","order":"o1","name":"confirmation","count":"1"}',
        '{"kind":"effect","order":"o1","name":"confirmation","count":true}',
        '{"kind":"effect","order":"o1","name":"confirmation","count":1,"more":1}',
        '{"kind":"reservation","id":"1","item":"7","buyer":"b","key":"k","quantity":1,"state":"?"}',
        "[]",
        "{",
    ],
)
def test_a_row_that_is_not_one_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "s").write_text(f"{s.to_json(s.Header(12))}\n{line}\n")
    with pytest.raises(s.SnapshotError, match="s:2: not a line"):
        list(s.read(tmp_path / "s")[1])
