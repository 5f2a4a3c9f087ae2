"""Requests that wait share a batch, each gets its own answers, and the queue is bounded."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from roberta_hub.errors import InputError, Place
from roberta_hub.server.batcher import Batcher, parts
from roberta_hub.server.refusals import RefusalError

Batch = tuple[str, list[Any]]
FIRST_MAY_END = threading.Event()


def run(
    question: Callable[[Batcher[str]], Awaitable[Any]],
    answer: Callable[[str, list[Any]], list[Any]] | None = None,
    **options: Any,
) -> tuple[Any, list[Batch]]:
    """Ask a batcher; return what it answers and its batches, by default in capitals.

    The first batch of a "first" row runs until `FIRST_MAY_END` is set.
    """
    batches: list[Batch] = []
    FIRST_MAY_END.clear()

    def noted(key: str, rows: list[Any]) -> list[Any]:
        batches.append((key, rows))
        if rows == ["first"]:
            assert FIRST_MAY_END.wait(60)
        return answer(key, rows) if answer else [key + row.upper() for row in rows]

    async def whole() -> Any:
        given = {"batch_tokens": 8, "wait": 0.0, "max_waiting": 1000, **options}
        batcher: Batcher[str] = Batcher(answer=noted, **given)
        running = asyncio.create_task(batcher.run())
        try:
            return await question(batcher)
        finally:
            assert batcher.waiting == 0
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    found = asyncio.run(whole())
    assert not [t for t in threading.enumerate() if t.name.startswith("roberta_hub_model")]
    return found, batches


async def begun(batcher: Batcher[str], key: str = "") -> asyncio.Task[Any]:
    """Ask for a row that runs alone until it may end; what is asked then waits."""
    first = asyncio.create_task(ask(batcher, key, ["first"]))
    while batcher._queue or not batcher.waiting:
        await asyncio.sleep(0)
    return first


async def end(first: asyncio.Task[Any], rest: list[Any]) -> Any:
    """Let what waits be answered."""
    tasks = [asyncio.ensure_future(one) for one in rest]
    await asyncio.sleep(0)
    FIRST_MAY_END.set()
    return await asyncio.gather(first, *tasks, return_exceptions=True)


def ask(batcher: Batcher[str], key: str, rows: list[Any], each: int = 1, most: int = 99) -> Any:
    return batcher.ask(key, rows, [each] * len(rows), most)


def test_what_waits_shares_a_batch_of_its_key() -> None:
    async def question(batcher: Batcher[str]) -> Any:
        first = await begun(batcher, "x")
        rest = [ask(batcher, key, [row]) for key, row in ["xb", "yc", "xd", "ye"]]
        return await end(first, rest)

    found, batches = run(question)
    assert found == [["xFIRST"], ["xB"], ["yC"], ["xD"], ["yE"]]
    assert batches == [("x", ["first"]), ("x", ["b", "d"]), ("y", ["c", "e"])]


def test_a_large_request_goes_in_parts_and_lets_others_between() -> None:
    done: list[str] = []

    async def named(name: str, question: Awaitable[Any]) -> Any:
        found = await question
        done.append(name)
        return found

    async def question(batcher: Batcher[str]) -> Any:
        large = asyncio.create_task(named("large", ask(batcher, "", list("abcdefgh"), each=4)))
        await asyncio.sleep(0)
        return await asyncio.gather(large, named("small", ask(batcher, "", ["z"], each=4)))

    (large, small), batches = run(question)
    assert large == list("ABCDEFGH") and small == ["Z"]
    assert done == ["small", "large"]
    assert max(len(rows) for _, rows in batches) == 2


def test_verbs_of_few_rows_and_rows_beyond_the_budget() -> None:
    assert parts([1] * 5, 100, 2) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert parts([50, 1, 1], 8, 9) == [slice(0, 1), slice(1, 3)]
    assert parts([], 8, 9) == []


def test_an_error_is_that_of_its_request_and_names_its_row() -> None:
    def answer(key: str, rows: list[Any]) -> list[Any]:
        for i, row in enumerate(rows):
            if row == "bad":
                raise InputError("no", place=Place("texts", i))
        return rows

    async def question(batcher: Batcher[str]) -> Any:
        first = await begun(batcher)
        asked = [["b"], ["c", "bad"], ["d"], [*"efghijklmn", "bad"]]
        return await end(first, [ask(batcher, "", rows) for rows in asked])

    found, _ = run(question, answer)
    assert found[:2] == [["first"], ["b"]] and found[3] == ["d"]
    assert str(found[2]) == "texts[1]: no"
    assert str(found[4]) == "texts[10]: no"  # in the second part of its request


def test_a_fault_of_ours_ends_no_thread() -> None:
    def answer(key: str, rows: list[Any]) -> list[Any]:
        if key == "fault":
            raise ZeroDivisionError
        return rows

    async def question(batcher: Batcher[str]) -> Any:
        asked = [ask(batcher, "fault", ["a"]), ask(batcher, "fault", ["b"])]
        return await asyncio.gather(*asked, return_exceptions=True), await ask(batcher, "", ["c"])

    (faults, after), _ = run(question, answer)
    assert [type(fault) for fault in faults] == [ZeroDivisionError] * 2
    assert after == ["c"]


def test_the_queue_is_bounded_and_says_when_to_come_again() -> None:
    async def question(batcher: Batcher[str]) -> Any:
        beyond = await ask(batcher, "", ["a"], each=50)  # alone it may be larger
        asked = [ask(batcher, "", [row], each=4) for row in "bcdefg"]
        return beyond, await asyncio.gather(*asked, return_exceptions=True)

    (beyond, found), _ = run(question, max_waiting=16)
    assert beyond == ["A"] and found[:4] == [["B"], ["C"], ["D"], ["E"]]
    for refusal in found[4:]:
        assert isinstance(refusal, RefusalError) and refusal.status == 429
        assert 1 <= int(refusal.headers["Retry-After"]) <= 60
        assert "16 tokens wait already, of at most 16" in refusal.sentence


def test_a_request_that_is_given_up_is_not_answered() -> None:
    async def question(batcher: Batcher[str]) -> Any:
        first = await begun(batcher)
        given_up = asyncio.create_task(ask(batcher, "", ["b"]))
        await asyncio.sleep(0)
        given_up.cancel()
        return await end(first, [ask(batcher, "", ["c"])])

    found, batches = run(question)
    assert found == [["FIRST"], ["C"]]
    assert batches == [("", ["first"]), ("", ["c"])]


def test_a_batch_waits_for_as_many_as_before_and_a_lone_client_once() -> None:
    async def question(batcher: Batcher[str]) -> list[float]:
        await end(await begun(batcher), [ask(batcher, "", [row]) for row in "abc"])
        late = asyncio.create_task(ask(batcher, "", ["d"]))
        await asyncio.sleep(0.01)
        await asyncio.gather(late, *[ask(batcher, "", [row]) for row in "ef"])
        seconds = []
        for _ in range(2):
            began = time.monotonic()
            await ask(batcher, "", ["alone"])
            seconds.append(time.monotonic() - began)
        return seconds

    (first, second), batches = run(question, wait=0.3)
    assert [rows for _, rows in batches[1:3]] == [["a", "b", "c"], ["d", "e", "f"]]
    assert first >= 0.3 > second


def test_each_of_many_clients_gets_its_own() -> None:
    chance = random.Random(1)

    async def client(batcher: Batcher[str], number: int) -> bool:
        for turn in range(10):
            rows = [f"{number}.{turn}.{i}" for i in range(chance.randint(1, 5))]
            key = chance.choice("xy")
            if await ask(batcher, key, rows, each=chance.randint(1, 6)) != [key + r for r in rows]:
                return False
        return True

    async def question(batcher: Batcher[str]) -> Any:
        return await asyncio.gather(*[client(batcher, number) for number in range(20)])

    found, batches = run(question, wait=0.001)
    assert all(found) and len(batches) < 20 * 10 * 3
