"""Text becomes one stream of ids, and that becomes blocks, without losing or moving a token."""

import json
import lzma
import random
import signal
import time
from pathlib import Path

import forks
import pytest
import torch

from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.train.data import blocks, streams
from roberta_hub.train.data.blocks import cut_blocks
from roberta_hub.train.data.streams import build_stream, open_stream, read_documents, source_files

TOKENIZER = Tokenizer.shipped()
WORDS = ["river", "stone", " über", "42", "—", "“so”", "naïve", "🙂", "a", "</s>", "<mask>"]


def corpus(seed, count=60):
    """Documents of lines of our own making, words like </s> among them."""
    draw = random.Random(seed)
    return [
        [" ".join(draw.choices(WORDS, k=draw.randint(1, 30))) for _ in range(draw.randint(1, 6))]
        for _ in range(count)
    ]


def text_of(found):
    return "\n".join("\n".join(lines) + "\n" for lines in found)


def expected(found):
    """The stream by the plain road: one line after another."""
    ids = [
        piece
        for lines in found
        for piece in [*(TOKENIZER.encode(line)[1:] for line in lines), torch.tensor([2])]
    ]
    return torch.cat(ids)


@pytest.fixture
def written(tmp_path):
    found = corpus(1)
    (tmp_path / "text.txt").write_text(text_of(found), encoding="utf-8")
    return tmp_path, found


def test_the_stream_is_every_line_and_every_boundary(written):
    folder, found = written
    stream = build_stream(folder / "text.txt", folder / "tokens", TOKENIZER)
    assert stream.dtype == torch.uint16
    assert torch.equal(stream.long(), expected(found))
    assert torch.equal(open_stream(folder / "tokens", TOKENIZER).long(), expected(found))


@pytest.mark.parametrize("chunk", [1, 50, 700])
def test_chunks_and_threads_do_not_show(written, monkeypatch, chunk):
    folder, found = written
    monkeypatch.setattr(streams, "CHUNK_CHARACTERS", chunk)
    monkeypatch.setattr(blocks, "TOKENS_PER_SCAN", 7)
    stream = build_stream(folder / "text.txt", folder / "tokens", TOKENIZER, threads=5)
    assert torch.equal(stream.long(), expected(found))
    assert (
        cut_blocks(stream, 32, bos=0, eos=2).lengths()
        == cut_blocks(expected(found), 32, bos=0, eos=2).lengths()
    )


def test_every_kind_of_file(written):
    parquet = pytest.importorskip("pyarrow.parquet")
    from pyarrow import table

    folder, found = written
    plain = expected(found)
    for name in ("x.txt.xz", "x.jsonl", "x.parquet"):
        (folder / name).mkdir()
        path = folder / name / name
        if name == "x.txt.xz":
            path.write_bytes(lzma.compress(text_of(found).encode()))
        elif name == "x.jsonl":
            path.write_text("".join(json.dumps({"body": "\n".join(d)}) + "\n" for d in found))
        else:
            body = table({"body": ["\n".join(d) for d in found]})
            parquet.write_table(body, path, row_group_size=7)
        stream = build_stream(folder / name, folder / f"{name}.tokens", TOKENIZER, column="body")
        assert torch.equal(stream.long(), plain), name


def test_folders_and_patterns_are_read_in_order(tmp_path):
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / name).write_text(f"{name}\n")
    assert [p.name for p in source_files(tmp_path)] == ["a.txt", "b.txt", "c.md"]
    assert [p.name for p in source_files(str(tmp_path / "*.txt"))] == ["a.txt", "b.txt"]
    assert [lines for p in source_files(tmp_path) for lines in read_documents(p)] == [
        ["a.txt"],
        ["b.txt"],
        ["c.md"],
    ]


def test_built_once_and_again_where_the_text_changed(written):
    folder, _ = written
    build_stream(folder / "text.txt", folder / "tokens", TOKENIZER)
    before = (folder / "tokens/tokens.bin").stat().st_mtime_ns
    build_stream(folder / "text.txt", folder / "tokens", TOKENIZER)
    assert (folder / "tokens/tokens.bin").stat().st_mtime_ns == before
    more = corpus(2)
    (folder / "text.txt").write_text(text_of(more), encoding="utf-8")
    assert torch.equal(
        build_stream(folder / "text.txt", folder / "tokens", TOKENIZER).long(), expected(more)
    )


@pytest.mark.system
def test_killed_and_started_again(tmp_path):
    """What was tokenized is not tokenized again, and the stream is the same."""
    found = corpus(3, count=4000)
    (tmp_path / "text.txt").write_text(text_of(found), encoding="utf-8")
    program = (
        "import sys, time\nfrom roberta_hub.train.data import streams\n"
        "from roberta_hub.text.tokenizer import Tokenizer\nstreams.CHUNK_CHARACTERS = 20000\n"
        "own = Tokenizer.encode_batch\n"
        "def slow(self, texts, threads=None):\n    time.sleep(0.05)\n    return own(self, texts, "
        "threads)\n"
        "Tokenizer.encode_batch = slow\n"
        "streams.build_stream(sys.argv[1], sys.argv[2], Tokenizer.shipped(), threads=1)\n"
    )
    process = forks.start("-c", program, tmp_path / "text.txt", tmp_path / "tokens")
    parts = tmp_path / "tokens/parts"
    while len(list(parts.glob("*.bin"))) < 3:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "tokens/index.json").exists()
    kept = {path.name: path.stat().st_mtime_ns for path in parts.glob("*.bin")}
    done: list[str] = []
    original = Path.replace

    def watched(self, target):
        done.append(Path(target).name)
        return original(self, target)

    chunk, streams.CHUNK_CHARACTERS = streams.CHUNK_CHARACTERS, 20000
    try:
        Path.replace = watched
        stream = build_stream(tmp_path / "text.txt", tmp_path / "tokens", TOKENIZER, threads=1)
    finally:
        Path.replace, streams.CHUNK_CHARACTERS = original, chunk
    assert len(kept) >= 3 and not set(kept) & set(done)
    assert torch.equal(stream.long(), expected(found))
    assert not parts.exists()


@pytest.mark.parametrize("size", [3, 8, 20, 64, 500])
def test_full_sentences(size):
    """Every token of text is in one block, in order; only separators at a block's edge go."""
    found = corpus(4)
    stream = expected(found)
    made = cut_blocks(stream, size, bos=0, eos=2)
    pieces = made.sequences(range(len(made)))
    assert all(len(ids) <= size and ids[0] == 0 and len(ids) > 1 for ids in pieces)
    assert made.lengths() == [len(ids) for ids in pieces]
    assert all(ids[1] != 2 for ids in pieces)
    text = torch.cat([ids[1:] for ids in pieces])
    assert torch.equal(text[text != 2], stream[stream != 2])
    for ids, start, end in zip(pieces, made.starts.tolist(), made.ends.tolist(), strict=True):
        assert torch.equal(ids[1:], stream[start:end])
        if ids[-1] != 2:  # only a line longer than a block is cut
            assert len(ids) == size and not ids[1:].eq(2).any()
    # As many lines as fit: the first line of the next block would not have.
    lines = (stream == 2).nonzero()[:, 0] + 1
    for end, following in zip(made.ends.tolist(), made.starts.tolist()[1:], strict=False):
        next_end = int(lines[lines > following][0])
        start = int(made.starts[made.ends.tolist().index(end)])
        assert next_end - start > size - 1 or stream[end - 1] != 2


@pytest.mark.parametrize("size", [8, 64, 500])
def test_doc_sentences_stay_within_documents(size):
    found = corpus(5)
    stream = expected(found)
    pieces = cut_blocks(stream, size, mode="doc", bos=0, eos=2)
    texts = [torch.cat([TOKENIZER.encode(line)[1:] for line in d]) for d in found]
    if size == 500:
        whole = [t for t in texts if len(t) < 500]
        assert len(whole) == len(found)
        for ids, wanted in zip(pieces.sequences(range(len(pieces))), whole, strict=True):
            assert torch.equal(ids[1:], wanted)
    joined = torch.cat([ids[1:] for ids in pieces.sequences(range(len(pieces)))])
    wanted = torch.cat(texts)  # the </s> of a line that was cut just before it goes
    assert torch.equal(joined[joined != 2], wanted[wanted != 2])
    assert all(
        (ids[1:][:-1].eq(2) & ids[1:][1:].eq(2)).sum() == 0
        for ids in pieces.sequences(range(len(pieces)))
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "no text"), ("\n\n \n", "no text"), (None, "no such file"), (b"\xff\xfe bad", "UTF-8")],
)
def test_what_is_no_text(tmp_path, content, words):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=words):
        build_stream(path, tmp_path / "tokens", TOKENIZER)
    assert not (tmp_path / "tokens/index.json").exists()


def test_a_table_without_the_column(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"body": "Hello."}\n')
    with pytest.raises(InputError, match=r"x\.jsonl:1: no text in column 'text'; it has body"):
        build_stream(tmp_path / "x.jsonl", tmp_path / "tokens", TOKENIZER)


def test_damaged_and_impossible(written):
    folder, _ = written
    build_stream(folder / "text.txt", folder / "tokens", TOKENIZER)
    with (folder / "tokens/tokens.bin").open("ab") as file:
        file.write(b"more")
    with pytest.raises(InputError, match=r"delete the folder"):
        open_stream(folder / "tokens", TOKENIZER)
    index = folder / "tokens/index.json"
    index.write_text(index.read_text().replace('"vocabulary": "', '"vocabulary": "0'))
    with pytest.raises(InputError, match="ids of another vocabulary"):
        open_stream(folder / "tokens", TOKENIZER)
    with pytest.raises(InputError, match="holds no token blocks"):
        open_stream(folder, TOKENIZER)
    with pytest.raises(InputError, match="block size 2"):
        cut_blocks(torch.tensor([5, 2]), 2, bos=0, eos=2)
    with pytest.raises(UnknownNameError, match="did you mean full"):
        cut_blocks(torch.tensor([5, 2]), 9, mode="ful", bos=0, eos=2)


@pytest.mark.parametrize("name", ["x.ndjson", "x.JSONL", "x.csv", "x.tsv"])
def test_tables_are_read_whatever_their_ending(tmp_path, name):
    sign = {"x.csv": ",", "x.tsv": "\t"}.get(name)
    row = (
        f"id{sign}text\n7{sign}The sun rises.\n" if sign else '{"id": 7, "text": "The sun rises."}'
    )
    (tmp_path / name).write_text(row)
    assert list(read_documents(tmp_path / name)) == [["The sun rises."]]
    with pytest.raises(InputError, match=r"no text in column 'body'; it has id, text"):
        list(read_documents(tmp_path / name, "body"))
