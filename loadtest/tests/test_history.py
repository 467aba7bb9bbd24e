"""The recorded files, history and snapshot: what is in them, what survives, what follows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.checker import SnapshotError, judge
from loadtest.checker import snapshot as s
from loadtest.files import RunFiles
from loadtest.history import (
    FAIL,
    INFO,
    NEVER,
    OK,
    Clock,
    HistoryError,
    Operation,
    Recorder,
    Shown,
    combine,
    events,
    operations,
    set_clock,
)
from loadtest.shops.flash_sale.answers import classify
from loadtest.shops.flash_sale.lifecycle import LIFECYCLE
from loadtest.tests.busy_run import sold_out_run


@pytest.mark.parametrize(
    ("status", "code", "order", "outcome"),
    [
        (201, "", "1", OK),
        (200, "", "1", OK),
        (201, "", None, INFO),
        (200, "", None, INFO),
        *((status, "", None, FAIL) for status in (400, 401, 403, 404, 409, 410, 422, 429)),
        (409, "price_changed", None, FAIL),
        (503, "busy", None, FAIL),
        (503, "outcome_unknown", None, INFO),
        (503, "", None, INFO),
        *((status, "", None, INFO) for status in (202, 302, 405, 500, 502, 504)),
        (0, "connection_refused", None, FAIL),
        *((0, code, None, INFO) for code in ("timeout", "reset", "empty_reply", "bad_reply", "")),
    ],
)
def test_answer_is_a_promise_a_refusal_or_unknown(
    status: int, code: str, order: str | None, outcome: str
) -> None:
    assert classify(status, code, order) == outcome
    if status in (200, 201):
        assert classify(status, code, order, op="look") == OK, "a look needs no order"


@given(st.lists(st.sampled_from([OK, FAIL, INFO]), min_size=1))
def test_answers_to_one_key_count_as_the_strongest(outcomes: list[str]) -> None:
    best = min(outcomes, key=[OK, INFO, FAIL].index)
    assert combine(outcomes) == best


def invoke(recorder: Recorder, call: str, **values: Any) -> None:
    recorder.invoke(
        Operation(0, call, "order", client="c", buyer="b", key=call, sale="1", quantity=1, **values)
    )


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_call_is_written_twice_and_read_as_one_operation(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    recorder = Recorder(tmp_path_factory.mktemp("text") / "h.jsonl")
    texts = ("client", "buyer", "sale", "item", "key", "cart")
    asked: dict[str, Any] = dict.fromkeys(texts, text)
    asked |= {"attempt": 2, "quantity": 3, "must": 422, "due": 5}
    told: dict[str, Any] = {"status": 201, "code": text, "order": text, "orders": [text, "92"]}
    told["shown"] = Shown(99_900, "CNY", text, 0, 1)
    recorder.invoke(Operation(0, text, text, **asked))
    recorder.complete(text, OK, **told)
    recorder.close()
    (found,) = operations(recorder.path)
    assert found.start <= found.end < NEVER
    whole: dict[str, Any] = {"start": found.start, "end": found.end, **asked, **told}
    assert found == Operation(call=text, op=text, outcome=OK, **whole)


def test_invocation_is_written_at_once_and_its_end_later(
    tmp_path: Path,
) -> None:
    recorder = Recorder(tmp_path / "h.jsonl")
    invoke(recorder, "c#1")
    recorder.complete("c#1", FAIL, status=409, code="sold_out")
    assert [line.call for line in events(recorder.path)] == ["c#1"]
    (operation,) = operations(recorder.path)
    assert (operation.outcome, operation.end) == (INFO, NEVER), "unknown without an end"
    recorder.flush()
    assert [line.call for line in events(recorder.path)] == ["c#1", "c#1"]
    recorder.close()


def test_recorder_owns_its_file_until_it_is_closed(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "h.jsonl")
    with pytest.raises(FileExistsError):
        Recorder(tmp_path / "h.jsonl")
    recorder.close()
    recorder.close()
    with pytest.raises(ValueError, match="closed"):
        invoke(recorder, "c#1")


def test_recorder_writes_whole_lines_from_many_threads(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "h.jsonl")

    def work(number: int) -> None:
        for turn in range(200):
            invoke(recorder, f"{number}#{turn}")
            recorder.complete(f"{number}#{turn}", "ok", status=201, order="1")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    recorder.close()
    assert len(list(events(recorder.path))) == 2 * 8 * 200
    assert all(each.outcome == OK for each in operations(recorder.path))


_ENDLESS = """
import sys
from loadtest.history import Operation, Recorder
recorder, number = Recorder(sys.argv[1]), 0
while True:
    number += 1
    recorder.invoke(Operation(0, f"c#{number}", "order", client="c", buyer="b", key=str(number)))
    print(number, flush=True)
    recorder.complete(f"c#{number}", "ok", status=201, order=str(number))
"""


def test_recorder_that_is_killed_has_written_its_invocations(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", _ENDLESS, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(500):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        sent = [int(line) for line in process.stdout.read().splitlines()]
    found = {int(each.key): each for each in operations(path)}
    assert set(range(1, max(sent, default=500) + 1)) <= set(found)
    assert sum(each.outcome == INFO for each in found.values()) <= 2


def test_files_are_merged_by_time_and_paired_across(tmp_path: Path) -> None:
    recorders = [Recorder(tmp_path / f"{number}.jsonl") for number in range(3)]
    for turn in range(30):
        invoke(recorders[turn % 3], f"c#{turn}")
        recorders[turn % 3].complete(f"c#{turn}", "ok", status=201, order=str(turn))
    for recorder in recorders:
        recorder.close()
    paths = [recorder.path for recorder in recorders]
    times = [line.time for line in events(*paths)]
    assert times == sorted(times)
    assert [each.call for each in operations(*paths)] == [f"c#{turn}" for turn in range(30)]


@pytest.mark.parametrize(
    ("clock", "start", "end"),
    [(Clock(-30, -20), 70, 180), (Clock(40, 45), 140, 245), (Clock(-5, 5), 100, 200)],
)
def test_call_of_another_machine_lasts_as_long_as_it_may_have(
    clock: Clock, start: int, end: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"event":"invoke","time":100,"call":"a","op":"look","client":"c","buyer":"b"}\n'
        '{"event":"ok","time":200,"call":"a","status":200,"code":"","order":null}\n'
    )
    set_clock(path, clock)
    (call,) = operations(path)
    assert (call.start, call.end) == (start, end)


def good_lines(tmp_path: Path) -> list[bytes]:
    recorder = Recorder(tmp_path / "good.jsonl")
    invoke(recorder, "c#1")
    recorder.complete("c#1", "ok", status=201, order="1")
    invoke(recorder, "c#2")
    recorder.close()
    return recorder.path.read_bytes().splitlines(keepends=True)


def test_torn_last_line_is_passed_over(tmp_path: Path) -> None:
    first, second, third = good_lines(tmp_path)
    path = tmp_path / "torn.jsonl"
    for length in range(len(third)):
        path.write_bytes(first + second + third[:length])
        assert [each.outcome for each in operations(path)] == [OK]


@pytest.mark.parametrize(
    "damage",
    [
        b"\n",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b"\xff\xfe\n",
        b'{"event":"invoke"}\n',
        b'{"event":"ok","time":-1,"call":"c#1","status":200,"code":"","order":null}\n',
        b'{"event":"ok","time":true,"call":"c#1","status":200,"code":"","order":null}\n',
        b'{"event":["ok"],"time":1}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_damaged_line_is_named(tmp_path: Path, damage: bytes) -> None:
    first, second, third = good_lines(tmp_path)
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(first + second + damage + third)
    with pytest.raises(HistoryError, match=r"damaged\.jsonl:3"):
        list(operations(path))


@pytest.mark.parametrize(
    ("order", "why"), [((2, 0, 1), "earlier"), ((0, 1, 1), "without"), ((0, 0), "twice")]
)
def test_history_with_impossible_lines_is_refused(
    order: tuple[int, ...], why: str, tmp_path: Path
) -> None:
    lines = good_lines(tmp_path)
    path = tmp_path / "h.jsonl"
    path.write_bytes(b"".join(lines[number] for number in order))
    with pytest.raises(HistoryError, match=why):
        list(operations(path))


def test_call_id_may_be_used_again_after_its_end(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(b"".join(good_lines(tmp_path)).replace(b"c#2", b"c#1"))
    assert len(list(operations(path))) == 2


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)


def verdict_or_refusal(files: RunFiles) -> str:
    try:
        return judge(files).verdict
    except (HistoryError, SnapshotError) as error:
        return str(error)


@settings(max_examples=80, deadline=None)
@given(
    data=st.data(),
    file=st.sampled_from(["a.jsonl", "final.snapshot", "during-000.snapshot", "ledger.snapshot"]),
)
def test_damaged_files_are_judged_or_refused_without_a_crash(
    data: st.DataObject, file: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    files = RUN.write(folder)
    lines = (folder / file).read_bytes().splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    match data.draw(st.sampled_from(["bytes", "value", "cut", "drop"])):
        case "bytes":
            lines[at] = data.draw(st.binary()) + b"\n"
        case "value":
            values = json.loads(lines[at])
            values[data.draw(st.sampled_from(sorted(values)))] = data.draw(json_values)
            lines[at] = json.dumps(values).encode() + b"\n"
        case "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
        case "drop":
            del lines[at]
    (folder / file).write_bytes(b"".join(lines))
    assert verdict_or_refusal(files)


RUN = sold_out_run(1)
ROWS = [*LIFECYCLE, *RUN.rows, *RUN.ledger, *RUN.deliveries, *RUN.terms]


def test_snapshot_is_read_as_it_was_written(tmp_path: Path) -> None:
    s.write(tmp_path / "s", s.Header(12, ("confirmation",)), iter(ROWS))
    header, rows = s.read(tmp_path / "s")
    assert header == s.Header(12, ("confirmation",))
    assert list(rows) == ROWS


def test_snapshot_that_was_cut_short_is_refused(tmp_path: Path) -> None:
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
def test_snapshot_row_that_is_invalid_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "s").write_text(f"{s.to_json(s.Header(12))}\n{line}\n")
    with pytest.raises(s.SnapshotError, match="s:2: cannot be understood"):
        list(s.read(tmp_path / "s")[1])
