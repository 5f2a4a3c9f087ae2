"""A broken download goes on where it broke, and never with the bytes of another file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from archives import GOOD, OTHER, PATH, TOY, TOY_FILE, WEIGHTS, assert_model, visible
from server import Answer, Server, body, cut, forced, ranged, status

from roberta_hub.checkpoint.fetch import http
from roberta_hub.checkpoint.fetch.download import fetch_model
from roberta_hub.errors import DownloadError

HALF = len(GOOD) // 2


def span(start: int, end: int, total: int | str) -> dict[str, str]:
    return {"Content-Range": f"bytes {start}-{end}/{total}", "ETag": '"v1"'}


@pytest.mark.parametrize("sent", [0, 1, HALF, len(GOOD) - 1])
def test_only_the_rest_is_asked_for(server: Server, cache: Path, sent: int):
    server.plan[PATH] = [ranged(GOOD, sent=sent), ranged(GOOD)]
    assert_model(fetch_model(TOY))
    assert server.ranges == ["", f"bytes={sent}-" if sent else ""]
    seen = json.loads((cache / "digests.json").read_text())[TOY_FILE.url]
    assert seen["size"] == len(GOOD)
    assert visible(cache) == {"toy", "digests.json"}


def test_a_rest_may_break_too(server: Server):
    server.plan[PATH] = [ranged(GOOD, sent=50)]
    with pytest.raises(DownloadError, match=f"failed 5 times.*250 of {len(GOOD)} bytes"):
        fetch_model(TOY)
    assert server.ranges == ["", *(f"bytes={n}-" for n in (50, 100, 150, 200))]


def test_attempts_that_get_on_are_not_counted(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http, "PROGRESS_BYTES", 20)
    server.plan[PATH] = [ranged(GOOD, sent=20)]
    assert_model(fetch_model(TOY))
    assert server.hits[PATH] == -(-len(GOOD) // 20) > 2 * http.MAX_ATTEMPTS


def test_beginning_again_and_again_is_not_getting_on(
    server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(http, "PROGRESS_BYTES", 20)
    server.plan[PATH] = [cut(GOOD, 100)]
    with pytest.raises(DownloadError, match="failed 5 times"):
        fetch_model(TOY)
    assert server.hits[PATH] == http.MAX_ATTEMPTS


def test_a_last_modified_date_serves_as_well(server: Server):
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    server.plan[PATH] = [ranged(GOOD, date, sent=HALF, name="Last-Modified")] * 2
    assert_model(fetch_model(TOY))
    assert server.ranges == ["", f"bytes={HALF}-"]


@pytest.mark.parametrize("tag", ['W/"v1"', ""])
def test_without_a_name_of_the_version_it_begins_again(server: Server, tag: str):
    server.plan[PATH] = [ranged(GOOD, tag, sent=HALF), ranged(GOOD, tag)]
    assert_model(fetch_model(TOY))
    assert server.ranges == ["", ""]


CHANGED = {
    "If-Range makes it 200": ranged(OTHER, '"v2"'),
    "range ignored": body(OTHER),
}


@pytest.mark.parametrize("answer", CHANGED.values(), ids=CHANGED)
def test_another_version_is_taken_whole(server: Server, answer: Answer):
    server.plan[PATH] = [ranged(GOOD, sent=HALF), answer]
    assert_model(fetch_model(TOY), WEIGHTS[::-1])
    assert server.ranges == ["", f"bytes={HALF}-"]


REST = GOOD[HALF:]
MISFITS = {
    "416": status(416, {"Content-Range": f"bytes */{HALF}"}),
    "no Content-Range": forced(206, REST, {"ETag": '"v1"'}),
    "nonsense": forced(206, REST, {"Content-Range": "bytes all", "ETag": '"v1"'}),
    "earlier bytes": forced(206, GOOD[HALF - 1 :], span(HALF - 1, len(GOOD) - 1, len(GOOD))),
    "later bytes": forced(206, GOOD[HALF + 1 :], span(HALF + 1, len(GOOD) - 1, len(GOOD))),
    "another size": forced(206, REST + b"!", span(HALF, len(GOOD), len(GOOD) + 1)),
    "If-Range ignored": forced(
        206, OTHER[HALF:], {**span(HALF, len(GOOD) - 1, len(GOOD)), "ETag": '"v2"'}
    ),
    "several parts": forced(206, REST, {"Content-Type": "multipart/byteranges; boundary=x"}),
}


@pytest.mark.parametrize("misfit", MISFITS.values(), ids=MISFITS)
def test_a_rest_that_does_not_fit_is_thrown_away(server: Server, cache: Path, misfit: Answer):
    server.plan[PATH] = [ranged(GOOD, sent=HALF), misfit, ranged(GOOD)]
    assert_model(fetch_model(TOY))
    assert server.ranges == ["", f"bytes={HALF}-", ""]
    assert visible(cache) == {"toy", "digests.json"}


@pytest.mark.parametrize("total", [len(GOOD), "*"])
def test_a_shorter_rest_is_a_step_on_the_way(server: Server, total: int | str):
    server.plan[PATH] = [
        ranged(GOOD, sent=HALF),
        forced(206, GOOD[HALF : HALF + 10], span(HALF, HALF + 9, total)),
        ranged(GOOD),
    ]
    assert_model(fetch_model(TOY))
    assert server.ranges == ["", f"bytes={HALF}-", f"bytes={HALF + 10}-"]


def test_a_part_that_nobody_asked_for_is_refused(server: Server):
    server.plan[PATH] = [forced(206, GOOD, span(0, len(GOOD) - 1, len(GOOD)))]
    with pytest.raises(DownloadError, match="answered 206"):
        fetch_model(TOY)


def test_the_digest_of_a_resumed_file_is_still_checked(server: Server, cache: Path):
    """A server that lies about everything: same tag, same size, other bytes."""
    fetch_model(TOY)
    lie = GOOD[:HALF] + OTHER[HALF:].ljust(len(GOOD) - HALF, b"x")[: len(GOOD) - HALF]
    assert len(lie) == len(GOOD) and lie != GOOD
    server.plan[PATH] = [ranged(GOOD, sent=HALF), ranged(lie)]
    with pytest.raises(DownloadError, match="sha256"):
        fetch_model(TOY, force=True)
    assert_model(cache / "toy")
