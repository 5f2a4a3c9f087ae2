"""Each verb answers what the library answers, whatever holds the texts and whatever it writes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from shell.running import Run, runner, write_model

from roberta_hub import RobertaHubInterface, hub, load_model
from roberta_hub.arguments import short_repr
from roberta_hub.rows.tables import open_table
from roberta_hub.shell.reading import FIRST_WINDOW_TEXTS, MAX_WINDOW_TEXTS, Item, group_in_windows

TEXTS = ["A dog ran.", 'He said "no", twice.', "naïve 🙂 漢字", "Goal!"]
HARD = ["two\nlines", "a\ttab", ' spaces and "quotes" ', "=1+1", "\u2028 \x1b[31m", "Ende\r"]
PAIRS = [("A dog ran.", "An animal moved."), ("Goal!", "He sat."), ("a", "b")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("shell") / "model")


@pytest.fixture(scope="module")
def roberta(folder: Path) -> RobertaHubInterface:
    return load_model(folder)


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    folder: Path,
    roberta: RobertaHubInterface,
) -> Run:
    """Runs a verb on the small model, which is loaded once."""
    monkeypatch.chdir(tmp_path)
    loaded, load = roberta, hub.load_model
    monkeypatch.setattr(
        hub,
        "load_model",
        lambda name, **more: loaded if name == str(folder) else load(name, **more),
    )
    plain = runner(monkeypatch, capsys)

    def on_model(verb: str, *arguments: object, **more: Any) -> tuple[int, str, str]:
        model = () if "-m" in arguments else ("-m", folder)
        return plain(verb, *model, *arguments, **more)

    return on_model


def answers(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def ask(run: Run, *arguments: object, **more: Any) -> list[dict[str, Any]]:
    status, out, err = run(*arguments, **more)
    assert (status, err) == (0, "")
    return answers(out)


def nearly(value: Any) -> Any:
    """Equal up to rounding, in lists and dicts too."""
    if isinstance(value, dict):
        return {name: nearly(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return list(map(nearly, value))
    return pytest.approx(value, rel=2e-6, abs=2e-6) if isinstance(value, float) else value


# ---- what each verb answers ----


def test_classify(run: Run, roberta: RobertaHubInterface) -> None:
    found = ask(run, "classify", *TEXTS)
    for text, answer, wanted in zip(TEXTS, found, roberta.classify(TEXTS), strict=True):
        assert list(answer) == ["text", "label", "score", "scores"]
        assert (answer["text"], answer["label"]) == (text, wanted.label)
        assert answer["scores"] == nearly(dict(wanted.scores))
        assert list(answer["scores"]) == list(wanted.scores)
    (pair,) = ask(run, "classify", "--head", "nli", "--pair", *PAIRS[0])
    assert (pair["first"], pair["second"]) == PAIRS[0]
    assert pair["scores"] == nearly(dict(roberta.classify([PAIRS[0]], "nli")[0].scores))
    (multi,) = ask(run, "classify", "--multi-label", TEXTS[0])
    assert multi["scores"] == nearly(dict(roberta.classify(TEXTS[0], multi_label=True).scores))


def test_zero_shot(run: Run, roberta: RobertaHubInterface) -> None:
    options = ("--labels", 'a,"b, c"', "--hypothesis", "About {}.", "--head", "nli")
    found = ask(run, "zero-shot", *TEXTS, *options)
    wanted = roberta.zero_shot(TEXTS, ["a", "b, c"], hypothesis="About {}.", head="nli")
    assert [answer["scores"] for answer in found] == nearly([dict(w.scores) for w in wanted])


@pytest.mark.system
def test_zero_shot_by_each_way(run: Run, roberta: RobertaHubInterface) -> None:
    labels = ("--labels", "sports,cooking,weather_forecast")
    names = ["sports", "cooking", "weather_forecast"]
    tiny = hub.load_model("roberta.tiny")
    for by in (None, "entailment", "meaning", "both"):
        way = () if by is None else ("--by", by)
        found = ask(run, "zero-shot", "-m", "roberta.tiny", *TEXTS, *labels, *way)
        wanted = tiny.zero_shot(TEXTS, names, by=by)  # type: ignore[call-overload]
        assert [answer["scores"] for answer in found] == nearly([dict(w.scores) for w in wanted])
    status, _, err = run("zero-shot", "a", *labels, "--by", "luck")
    assert status == 2 and "entailment" in err
    status, _, err = run("zero-shot", "a", *labels, "--by", "both")
    assert status == 1 and "was not trained to make sentence vectors" in err
    assert "say --by entailment" in err
    status, _, err = run("zero-shot", "a", *labels, "--by", "meaning", "--head", "nli")
    assert status == 1 and "leave --head out" in err


def test_fill_mask(run: Run, roberta: RobertaHubInterface) -> None:
    texts = ["A <mask> ran.", "<mask> and <mask>"]
    found = ask(run, "fill-mask", *texts, "-k", 2)
    (one, two) = roberta.fill_mask(texts, topk=2)
    words = found[0]["words"]
    assert [(w["filled"], w["word"]) for w in words] == [(t, w.strip()) for t, _, w in one]
    assert [w["score"] for w in words] == nearly([p for _, p, _ in one])
    assert [w["mask"] for w in found[1]["words"]] == [1, 1, 2, 2]
    assert [w["filled"] for w in found[1]["words"]] == [t for mask in two for t, _, _ in mask]
    (targets,) = ask(run, "fill-mask", texts[0], "--targets", "dog,cat")
    assert {w["word"] for w in targets["words"]} == {"dog", "cat"}


def test_tag_answer_choose(run: Run, roberta: RobertaHubInterface) -> None:
    (tagged,) = ask(run, "tag", TEXTS[0])
    for span, wanted in zip(tagged["spans"], roberta.tag(TEXTS[0]), strict=True):
        assert span == nearly(vars(wanted))
    (answer,) = ask(run, "answer", "--pair", "Who?", "Ada wrote it.", "--always")
    wanted_answer = roberta.answer("Who?", "Ada wrote it.", no_answer=False)
    assert answer == {
        **{"question": "Who?", "context": "Ada wrote it.", "answer": wanted_answer.text},
        **{"start": wanted_answer.start, "end": wanted_answer.end},
        "score": nearly(wanted_answer.score),
    }
    (best,) = ask(run, "answer", "--pair", "Who?", "Ada wrote it.", "--always", "-k", "3")
    assert best["answers"][0] == {
        name: answer[name] for name in ("answer", "start", "end", "score")
    }
    assert len({each["answer"] for each in best["answers"]}) == 3
    wanted_choice = roberta.choose("Where?", ["here", "there"], "race")
    (choice,) = ask(run, "choose", "Where?", "--options", "here,there", "--head", "race")
    assert {o["option"]: o["score"] for o in choice["options"]} == nearly(
        dict(wanted_choice.scores)
    )
    lines = b"Where?\there\tthere\nWhat?\tthis\tthat\n"
    behind = ask(run, "choose", "--head", "race", stdin=lines)
    assert [row["text"] for row in behind] == ["Where?", "What?"]
    assert behind[0] == choice


def test_score_and_tokens(run: Run, roberta: RobertaHubInterface) -> None:
    found = ask(run, "score", *TEXTS)
    assert [answer["score"] for answer in found] == nearly(roberta.score(TEXTS))
    assert [a["tokens"] for a in found] == [len(roberta.tokenize(text)) for text in TEXTS]
    (tokens,) = ask(run, "tokens", TEXTS[0])
    assert tokens["ids"] == roberta.encode(TEXTS[0]).tolist()
    assert tokens["tokens"] == ["<s>", *roberta.tokenize(TEXTS[0]), "</s>"]


def test_embed_and_features(run: Run, roberta: RobertaHubInterface) -> None:
    vectors = [answer["vector"] for answer in ask(run, "embed", *TEXTS)]
    assert vectors == nearly(roberta.embed(TEXTS).tolist())
    prompted = ask(run, "embed", TEXTS[0], "--prompt", "query: ")
    assert prompted[0]["vector"] == nearly(roberta.embed(TEXTS[0], "query: ").tolist())
    cut = ask(run, "embed", TEXTS[0], "--truncate-dim", 8)
    assert cut[0]["vector"] == nearly(roberta.embed(TEXTS[0], truncate_dim=8).tolist())
    pooled = ask(run, "features", *TEXTS, "--pooling", "cls", "--layer", 1, "--normalize")
    wanted = roberta.features(TEXTS, pooling="cls", layer=1, normalize=True)
    assert [answer["vector"] for answer in pooled] == nearly(wanted.tolist())
    (long,) = ask(run, "features", "word " * 60, "--truncate")
    assert len(long["tokens"]) == len(long["vectors"]) == 48
    assert (long["tokens"][0], long["tokens"][-1]) == ("<s>", "</s>")
    assert long["vectors"] == nearly(roberta.features("word " * 60, truncate=True).tolist())


def test_the_score_of_a_cut_text_counts_what_was_read(run: Run) -> None:
    (long,) = ask(run, "score", "word " * 60, "--truncate")
    assert long["tokens"] == 46  # of 48 positions two are <s> and </s>
    assert long["per_token"] == nearly(long["score"] / 46)


def test_an_empty_text_of_a_corpus_is_one_note(run: Run, tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"text": "a"}\n{"text": ""}\n{"text": "  "}\n')
    status, _, err = run("similar", "a", "-i", "corpus.jsonl", "-c", "text")
    assert (status, err.count("note:")) == (0, 1)
    assert "2 texts look missing" in err and "corpus.jsonl:2" in err


def test_similar(run: Run, roberta: RobertaHubInterface, tmp_path: Path) -> None:
    corpus = [f"text number {i}" for i in range(40)]
    (tmp_path / "corpus.txt").write_text("\n".join(corpus))
    queries = ["number 7", "a"]
    found = ask(run, "similar", *queries, "-i", "corpus.txt", "-k", 3)
    assert found == ask(run, "similar", *queries, "-k", 3, stdin="\n".join(corpus).encode())
    for query, answer, hits in zip(
        queries, found, roberta.search(queries, corpus, topk=3), strict=True
    ):
        assert answer["query"] == query
        assert answer["hits"] == [nearly(vars(hit)) for hit in hits]


def test_similar_by_words_and_by_a_second_look(
    run: Run, folder: Path, roberta: RobertaHubInterface, tmp_path: Path
) -> None:
    pytest.importorskip("bm25s")
    corpus = [f"text number {i}" for i in range(40)]
    (tmp_path / "corpus.txt").write_text("\n".join(corpus))
    for flags, keywords in (
        (("--words",), {"words": True}),
        (("--rerank", folder), {"rerank": roberta}),
        (("--words", "--rerank", folder, "--truncate-dim", 8), {"words": True, "rerank": roberta}),
    ):
        found = ask(run, "similar", "number 7", "-i", "corpus.txt", "-k", 3, *flags)
        more: Any = keywords | ({"truncate_dim": 8} if "--truncate-dim" in flags else {})
        wanted = roberta.search("number 7", corpus, 3, **more)
        assert found[0]["hits"] == [nearly(vars(hit)) for hit in wanted]
    assert ask(run, "similar", "7", "-i", "corpus.txt", "-k", 1, "--words")[0]["hits"]


# ---- what holds texts ----


def table(path: Path, *columns: str, rows: list[tuple[str, ...]], **options: Any) -> None:
    with path.open("w", newline="", encoding=options.pop("encoding", "utf-8")) as file:
        writer = csv.writer(file, **options)
        writer.writerows([columns, *rows])


def jsonl(path: Path, name: str = "text") -> None:
    path.write_text("".join(json.dumps({"id": 1, name: text}) + "\n" for text in TEXTS))


def parquet(path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    rows = [{"id": i, "text": text} for i, text in enumerate(TEXTS)]
    pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), path)


LINES = "\n".join(TEXTS).encode()
CONTAINERS: dict[str, tuple[str, Callable[[Path], object], tuple[str, ...]]] = {
    "lines": ("x.txt", lambda p: p.write_bytes(LINES + b"\n"), ()),
    "lines without a last end": ("x.txt", lambda p: p.write_bytes(LINES), ()),
    "a file without an ending": ("x", lambda p: p.write_bytes(LINES), ()),
    "lines with CRLF": ("x.txt", lambda p: p.write_bytes(LINES.replace(b"\n", b"\r\n")), ()),
    "lines with a BOM": ("x.txt", lambda p: p.write_bytes(b"\xef\xbb\xbf" + LINES), ()),
    "gzipped lines": ("x.txt.gz", lambda p: p.write_bytes(gzip.compress(LINES)), ()),
    "xz lines": ("x.txt.xz", lambda p: p.write_bytes(lzma.compress(LINES)), ()),
    "csv, one column": ("x.csv", lambda p: table(p, "any", rows=[(t,) for t in TEXTS]), ()),
    "csv, the column text": (
        "x.csv",
        lambda p: table(p, "id", "text", rows=[("1", t) for t in TEXTS]),
        (),
    ),
    "csv, a column by name": (
        "x.csv",
        lambda p: table(p, "id", "review", rows=[("1", t) for t in TEXTS]),
        ("--column", "review"),
    ),
    "csv, a name with a comma": (
        "x.csv",
        lambda p: table(p, "id", "a, b", rows=[("1", t) for t in TEXTS]),
        ("--column", '"a, b"'),
    ),
    "csv with semicolons": (
        "x.csv",
        lambda p: table(p, "id", "text", rows=[("1", t) for t in TEXTS], delimiter=";"),
        (),
    ),
    "csv of a spreadsheet": (
        "x.csv",
        lambda p: table(
            p,
            "id",
            "text",
            rows=[("1", t) for t in TEXTS],
            encoding="utf-8-sig",
            quoting=csv.QUOTE_ALL,
        ),
        (),
    ),
    "gzipped csv": (
        "x.csv.gz",
        lambda p: p.write_bytes(gzip.compress(b"text\n" + quoted())),
        (),
    ),
    "tsv": (
        "x.tsv",
        lambda p: p.write_text("id\ttext\n" + "".join(f"1\t{t}\n" for t in TEXTS)),
        (),
    ),
    "jsonl": ("x.jsonl", jsonl, ()),
    "ndjson": ("x.ndjson", lambda p: jsonl(p, "body"), ("--column", "body")),
    "parquet": ("x.parquet", parquet, ()),
    "pq": ("x.pq", parquet, ("--column", "text")),
}
"""A file's name, what writes it, and what else the command line says."""


def quoted() -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer).writerows([(text,) for text in TEXTS])
    return buffer.getvalue().encode()


@pytest.mark.parametrize("kind", CONTAINERS)
def test_every_file_gives_the_same_texts(run: Run, tmp_path: Path, kind: str) -> None:
    name, write, options = CONTAINERS[kind]
    write(tmp_path / name)
    wanted = [row["ids"] for row in ask(run, "tokens", *TEXTS)]
    assert [row["ids"] for row in ask(run, "tokens", "-i", name, *options)] == wanted


STREAMS = {
    "lines": (LINES + b"\n", ()),
    "lines by their name": (LINES, ("-i", "-")),
    "CRLF and BOM": (b"\xef\xbb\xbf" + LINES.replace(b"\n", b"\r\n"), ()),
    "JSONL": (
        "\n\n".join(json.dumps({"t": text}) for text in TEXTS).encode(),
        ("--column", "t"),
    ),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_every_stream_gives_the_same_texts(run: Run, kind: str) -> None:
    stdin, options = STREAMS[kind]
    wanted = [row["ids"] for row in ask(run, "tokens", *TEXTS)]
    assert [row["ids"] for row in ask(run, "tokens", *options, stdin=stdin)] == wanted


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_named_pipe_is_read(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(LINES,), daemon=True)
    writer.start()
    assert [row["text"] for row in ask(run, "tokens", "-i", "pipe")] == TEXTS
    writer.join(10)


def test_pairs_are_pairs_however_they_come(run: Run, tmp_path: Path) -> None:
    table(tmp_path / "x.csv", "premise", "id", "hypothesis", rows=[(a, "1", b) for a, b in PAIRS])
    table(tmp_path / "ours.csv", "first", "second", rows=PAIRS)
    tabs = "".join(f"{a}\t{b}\n" for a, b in PAIRS).encode()
    (tmp_path / "x.txt").write_bytes(tabs)
    wanted = ask(run, "tokens", *(word for pair in PAIRS for word in ("--pair", *pair)))
    assert [(row["first"], row["second"]) for row in wanted] == PAIRS
    named = ask(run, "tokens", "-i", "x.csv", "--column", "premise,hypothesis")
    assert [row["ids"] for row in named] == [row["ids"] for row in wanted]
    assert ask(run, "tokens", "-i", "ours.csv", "--column", "first,second") == wanted
    assert ask(run, "tokens", "-i", "ours.csv") == wanted
    assert ask(run, "tokens", "-i", "x.txt") == wanted
    assert ask(run, "tokens", stdin=tabs) == wanted


def test_what_one_verb_writes_another_reads(run: Run) -> None:
    status, out, _ = run("classify", *TEXTS)
    assert status == 0
    again = ask(run, "tokens", "--column", "text", stdin=out.encode())
    assert [row["text"] for row in again] == TEXTS


def test_order_is_kept_across_windows_and_lengths(run: Run, roberta: RobertaHubInterface) -> None:
    texts = [f"{i} " + "word " * (i * 7 % 30) for i in range(150)]
    found = ask(run, "embed", stdin="\n".join(texts).encode())
    assert [row["text"] for row in found] == texts
    ours = torch.tensor([row["vector"] for row in found])
    torch.testing.assert_close(ours, roberta.embed(texts), atol=2e-5, rtol=0)


def test_windows_grow_and_end_where_nothing_is_there_yet() -> None:
    def items(*counts: int) -> Iterator[Item | None]:
        for count in counts:
            yield from [Item(("text",), "here")] * count
            yield None

    sizes = [len(window) for window in group_in_windows(items(2000))]
    assert (
        sizes[:3] == [FIRST_WINDOW_TEXTS, 2 * FIRST_WINDOW_TEXTS, 4 * FIRST_WINDOW_TEXTS]
        and max(sizes) == MAX_WINDOW_TEXTS
    )
    assert sum(sizes) == 2000
    assert [len(window) for window in group_in_windows(items(1, 3, 0, 2))] == [1, 3, 2]
    large = [Item(("x" * 600_000,), "here")] * 4
    assert [len(window) for window in group_in_windows(iter(large))] == [2, 2]


# ---- what is written ----


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_hard_texts_come_back_from_every_format(run: Run, tmp_path: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    texts = [*TEXTS, *HARD]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    status, out, err = run("classify", "-i", "in.jsonl", "-o", f"out.{ending}")
    assert (status, out, err) == (0, "", "")
    rows = [row.values for row in open_table(tmp_path / f"out.{ending}").rows()]
    assert [row["text"] for row in rows] == texts
    wanted = ask(run, "classify", "-i", "in.jsonl")
    assert [row["label"] for row in rows] == [row["label"] for row in wanted]
    scores = [float(row["score"]) for row in rows]
    assert scores == nearly([row["score"] for row in wanted])
    if ending in ("csv", "tsv"):
        assert list(rows[0]) == ["text", "label", "score", "scores.art", "scores.sport"]
    else:
        assert rows[0]["scores"] == nearly(wanted[0]["scores"])


def test_an_answer_of_several_is_several_rows_of_a_csv(run: Run) -> None:
    status, out, _ = run("fill-mask", "A <mask>.", "<mask>", "-k", 2, "-f", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0
    assert [row["text"] for row in rows] == ["A <mask>."] * 2 + ["<mask>"] * 2
    assert list(rows[0])[1:] == ["words.mask", "words.word", "words.score", "words.filled"]
    assert run("tokens", "a b", "-f", "csv")[1].splitlines()[1] == "a b,<s> a Ġb </s>,0 102 741 2"


def test_vectors_in_parquet_and_npy(run: Run, roberta: RobertaHubInterface, tmp_path: Path) -> None:
    numpy, arrow = pytest.importorskip("numpy"), pytest.importorskip("pyarrow")
    import pyarrow.parquet

    assert run("embed", *TEXTS, "-o", "x.npy")[0] == 0
    assert run("embed", *TEXTS, "-o", "x.parquet")[0] == 0
    wanted = roberta.embed(TEXTS)
    matrix = numpy.load(tmp_path / "x.npy")
    assert matrix.dtype == numpy.float32 and matrix.flags.c_contiguous
    torch.testing.assert_close(torch.from_numpy(matrix), wanted, atol=1e-6, rtol=0)
    read = pyarrow.parquet.read_table(tmp_path / "x.parquet")
    assert read.schema.field("vector").type == arrow.list_(arrow.float32(), 32)
    assert read.column("text").to_pylist() == TEXTS
    assert read.column("vector").to_pylist() == matrix.tolist()
    assert run("features", *TEXTS, "-o", "f.parquet")[0] == 0
    read = pyarrow.parquet.read_table(tmp_path / "f.parquet")
    # As one list, as the command asks: alone a text may differ in the last bit.
    states = roberta.features(TEXTS)
    for wanted, vectors in zip(states, read.column("vectors").to_pylist(), strict=True):
        torch.testing.assert_close(torch.tensor(vectors), wanted, atol=1e-6, rtol=0)
    for name in ("x.parquet", "f.parquet"):  # and what was written can be read
        assert len(list(open_table(tmp_path / name).rows())) == len(TEXTS)


def test_vectors_of_fewer_bytes(run: Run, roberta: RobertaHubInterface, tmp_path: Path) -> None:
    numpy, arrow = pytest.importorskip("numpy"), pytest.importorskip("pyarrow")
    import pyarrow.parquet

    lines = "\n".join(f"text {i}" for i in range(120)).encode()
    assert run("embed", "--dtype", "int8", "-o", "a.parquet", stdin=lines)[0] == 0
    wanted = roberta.embed([f"text {i}" for i in range(120)], dtype="int8")
    read = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    assert read.schema.field("vector").type == arrow.list_(arrow.int8(), 32)
    found = torch.tensor(read.column("vector").to_pylist())
    assert int((found - wanted.int()).abs().max()) <= 1  # rounding of another batch
    later = ask(run, "embed", "text 7", "--dtype", "int8", "--ranges", "a.parquet")
    again = roberta.embed("text 7", dtype="int8", ranges="a.parquet")
    assert later[0]["vector"] == again.tolist()
    for dtype, kind in (("float16", "float16"), ("binary", "int8"), ("ubinary", "uint8")):
        assert run("embed", *TEXTS, "--dtype", dtype, "-o", "x.npy")[0] == 0
        assert run("embed", *TEXTS, "--dtype", dtype, "-o", "x.parquet")[0] == 0
        matrix = numpy.load(tmp_path / "x.npy")
        assert matrix.dtype == kind
        assert matrix.tolist() == roberta.embed(TEXTS, dtype=dtype).tolist()
        read = pyarrow.parquet.read_table(tmp_path / "x.parquet")
        assert read.schema.field("vector").type.value_type == getattr(arrow, kind)()
        assert read.column("vector").to_pylist() == matrix.tolist()
    status, _, err = run("embed", "one", "--dtype", "int8", "-o", "y.parquet")
    assert status == 1 and "--ranges FILE" in err and not (tmp_path / "y.parquet").exists()
    status, _, err = run("embed", *TEXTS, "--dtype", "int8")
    assert status == 2 and "give -o FILE.parquet" in err
    (tmp_path / "hole.csv").write_text('text\na\n""\nb\n')
    status, _, err = run("embed", "-i", "hole.csv", "--dtype", "binary", "-o", "y.npy")
    assert status == 1 and "hole.csv:3" in err and ".parquet" in err
    assert not (tmp_path / "y.npy").exists()


def test_a_parquet_file_has_large_groups(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    monkeypatch.setattr("roberta_hub.shell.binary.ROW_GROUP_ROWS", 300)
    lines = "\n".join(f"text {i}" for i in range(1000)).encode()
    assert run("tokens", "-o", "x.parquet", stdin=lines)[0] == 0
    file = pyarrow.parquet.ParquetFile(tmp_path / "x.parquet")
    assert file.metadata.num_rows == 1000
    assert 2 <= file.num_row_groups <= 4


@pytest.mark.parametrize("verb", ["embed", "tokens", "score", "tag", "fill-mask", "features"])
def test_no_texts_make_an_empty_file_with_its_columns(run: Run, tmp_path: Path, verb: str) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "none.txt").touch()
    status, out, err = run(verb, "-i", "none.txt")
    assert (status, out) == (0, "") and "no texts" in err
    assert run(verb, "-o", "x.parquet")[0] == 0
    assert open_table(tmp_path / "x.parquet").columns[0] == "text"
    if verb == "embed":
        assert run(verb, "-o", "x.npy")[0] == 0
        assert pytest.importorskip("numpy").load(tmp_path / "x.npy").shape == (0, 0)
    elif verb != "features":
        assert run(verb, "-o", "x.csv")[0] == 0
        header = (tmp_path / "x.csv").read_text()
        assert header.startswith("text,") and header.count("\n") == 1


def test_a_link_stays_one_and_a_device_is_written_to(run: Run, tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    assert run("tokens", "a", "-o", "link.csv")[0] == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("text,tokens")
    assert run("tokens", "a", "-o", "/dev/null", "-f", "csv")[0] == 0
    assert not Path("/dev/null").is_file()


# ---- what cannot be read ----

BAD: dict[str, tuple[str, bytes, tuple[str, ...], str]] = {
    "UTF-16": ("x.txt", "texts".encode("utf-16"), (), "x.txt:1: not UTF-8 but UTF-16"),
    "three texts": ("x.txt", b"a\tb\tc\n", (), "x.txt:1: 3 texts; it takes 1 to 2"),
    "a quote left open": ("x.csv", b'id,text\n1,a\n2,"b\n3,c\n', (), "x.csv:3: a quote opens"),
    "no Parquet": ("x.parquet", b"PAR1 no", (), "x.parquet: not a readable Parquet"),
    "an array": ("x.json", b'["a", "b"]', (), "write an object a line, as .jsonl"),
    "a spreadsheet": ("x.xlsx", b"PK\x03\x04", (), "save the sheet as CSV"),
}
"""What stops a run: a file that is something else, or in which the ends of rows are not known."""
BAD_ROWS: dict[str, tuple[str, bytes, str]] = {
    "not UTF-8": ("x.txt", b"fine\ncaf\xe9\nb\n", "x.txt:2: not UTF-8"),
    "a tab in some lines": ("x.txt", b"a\nb\tc\nb\n", "x.txt:2: 2 texts with tabs"),
    "an empty line": ("x.txt", b"a\n\nb\n", "x.txt:2: an empty line"),
    "too long": ("x.txt", b"a\n" + b"word " * 60 + b"\nb\n", "x.txt:2: too long: 63 tokens > 48"),
    "a row that is short": ("x.csv", b"id,text\n1,a\n2\n3,b\n", "x.csv:3: 1 fields"),
    "an empty cell": ("x.csv", b"id,text\n1,a\n2,\n3,b\n", "x.csv:3: nothing in the column 'te"),
    "no JSON": ("x.jsonl", b'{"text": "a"}\n{"text": \n{"text": "b"}', "x.jsonl:2: not JSON"),
    "a list": ("x.jsonl", b'{"text": "a"}\n["b"]\n{"text": "b"}', "x.jsonl:2: a JSON list"),
    "null": ("x.jsonl", b'{"text": "a"}\n{"text": null}\n{"text": "b"}', "x.jsonl:2: nothing in"),
    "no such key": (
        "x.jsonl",
        b'{"text": "a"}\n{}\n{"text": "b"}',
        "x.jsonl:2: no column 'text'; there are none",
    ),
    "a number": ("x.jsonl", b'{"text": "a"}\n{"text": 7}\n{"text": "b"}', "x.jsonl:2: the column"),
}
"""A file of three rows, of which the second cannot be answered, and what is said of it."""


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_row_is_named_and_nothing_is_left(run: Run, tmp_path: Path, kind: str) -> None:
    name, content, options, words = BAD[kind]
    (tmp_path / name).write_bytes(content)
    (tmp_path / "out.csv").write_text("old")
    before = sorted(tmp_path.iterdir())
    status, out, err = run("classify", "-i", name, *options, "-o", "out.csv")
    assert (status, out) == (1, "")
    assert err.startswith("roberta-hub: ") and words in err and err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "out.csv").read_text() == "old"


@pytest.mark.parametrize("kind", BAD_ROWS)
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_a_row_without_an_answer_costs_no_other_row_its_own(
    run: Run, tmp_path: Path, kind: str, ending: str
) -> None:
    """It has null, is named at the end, and ends with 1; or a column says why."""
    name, content, words = BAD_ROWS[kind]
    (tmp_path / name).write_bytes(content)
    labels = [row["label"] for row in ask(run, "classify", "a", "b")]
    status, out, err = run("classify", "-i", name, "-o", f"out.{ending}")
    assert (status, out) == (1, "")
    assert err.startswith("roberta-hub: 1 row of 3 without an answer") and words in err
    assert err.count("\n") == 1
    rows = [row.values for row in open_table(tmp_path / f"out.{ending}").rows()]
    assert [row["label"] or None for row in rows] == [labels[0], None, labels[1]]
    assert not rows[1]["score"] and "error" not in rows[1]
    status, out, err = run("classify", "-i", name, "-o", f"out.{ending}", "--errors", "column")
    assert (status, out) == (0, "")
    assert err.startswith("roberta-hub: note: 1 row of 3 without an answer")
    rows = [row.values for row in open_table(tmp_path / f"out.{ending}").rows()]
    assert [row["label"] or None for row in rows] == [labels[0], None, labels[1]]
    why = words.partition(": ")[2]
    assert [(row["error"] or "")[: len(why)] for row in rows] == ["", why, ""]


@pytest.mark.parametrize("kind", [kind for kind in BAD_ROWS if BAD_ROWS[kind][0] == "x.txt"])
def test_a_bad_line_of_standard_input_is_named(run: Run, kind: str) -> None:
    _, content, words = BAD_ROWS[kind]
    status, out, err = run("classify", stdin=content)
    assert status == 1 and words.replace("x.txt", "standard input") in err
    assert [row["label"] is None for row in answers(out)] == [False, True, False]


def test_a_line_without_an_end_is_no_way_to_fill_memory(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roberta_hub.rows.lines.MAX_ROW_BYTES", 100_000)
    status, _, err = run("tokens", stdin=b"x" * 1_000_000)
    assert status == 1 and "standard input:1: a line of more than 100,000 bytes" in err


def test_errors_name_the_line_in_a_later_window(run: Run) -> None:
    lines = [b"text"] * 100
    lines[77] = b"word " * 60
    status, out, err = run("classify", stdin=b"\n".join(lines))
    assert status == 1 and "standard input:78: too long" in err
    assert "--truncate cuts it, --stride N reads windows" in err
    nulls = [n for n, row in enumerate(answers(out), 1) if row["label"] is None]
    assert (nulls, len(answers(out))) == ([78], 100)
    lines = [b"word " * 60] * 7 + [b"text"] * 3
    status, out, err = run("classify", stdin=b"\n".join(lines))
    assert status == 1 and "7 rows of 10 without an answer" in err and "; and 2 more; " in err
    assert err.count("--truncate cuts it") == 1  # a remedy is said once
    assert [row["label"] is None for row in answers(out)] == [True] * 7 + [False] * 3
    lines = [b"text"] * 100
    lines[77] = b"word " * 60
    status, _, err = run("fill-mask", stdin=b"a <mask>\nb\n")
    assert status == 1 and "standard input:2: 'b' has no mask" in err
    status, _, err = run("similar", "a", stdin=b"\n".join(lines))
    assert status == 1 and "standard input:78: too long" in err
    status, _, err = run("similar", "a", "word " * 60, stdin=b"a\nb\nc\n")
    assert status == 1 and "argument 2: too long" in err


# ---- wrong usage ----

USAGE: dict[str, tuple[tuple[str, ...], str]] = {
    "a file as a text": (("classify", "x.csv"), "-i x.csv reads it"),
    "texts and a file": (("classify", "a", "-i", "x.csv"), "give texts or -i, not both"),
    "texts and pairs": (("classify", "a", "--pair", "a", "b"), "give texts or --pair, not both"),
    "a column of arguments": (("classify", "a", "-c", "text"), "--text is for a table"),
    "a column of lines": (("classify", "-i", "x.txt", "-c", "text"), "x.txt is no table"),
    "a column that is not there": (
        ("classify", "-i", "x.csv", "-c", "revew"),
        "did you mean review? Its columns, with two rows: review ('good', 'bad'); id ('1', '2')",
    ),
    "no column named": (("answer", "-i", "x.csv"), "which the context? Say --text QUESTION,CON"),
    "three columns": (("classify", "-i", "x.csv", "-c", "a,b,c"), "3 texts; it takes 1 to 2"),
    "two columns for one text": (("tag", "-i", "x.csv", "-c", "a,b"), "2 texts; it takes 1"),
    "a pair for one text": (("tag", "--pair", "a", "b"), "2 texts; it takes 1"),
    "one text for a pair": (("answer", "a"), "--pair QUESTION CONTEXT"),
    "no options": (("choose", "a"), "give --options A,B"),
    "no labels": (("zero-shot", "a"), "Missing option '--labels'"),
    "a label twice": (("zero-shot", "a", "--labels", "b,b"), "one twice"),
    "no query": (("similar", "-i", "x.csv"), "as arguments, and the corpus with -i"),
    "an unknown ending": (("tokens", "a", "-o", "x.foo"), "its name does not say the format"),
    "an unknown format": (("tokens", "a", "-f", "xml"), "'xml' is not one of"),
    "vectors in a CSV": (("embed", "a", "-o", "x.csv"), "no cells for vectors"),
    "npy without vectors": (("tokens", "a", "-o", "x.npy"), "it is for vectors"),
    "npy of many vectors": (("features", "a", "-o", "x.npy"), "--pooling mean"),
    "Parquet to a terminal": (("tokens", "a", "-f", "parquet"), "give -o FILE"),
    "a cut and windows": (("classify", "a", "--truncate", "--stride", "3"), "choose one"),
    "windows without a model": (("tokens", "a", "--stride", "3"), "verbs that ask the model"),
    "a stride below 0": (("tokens", "a", "--stride", "-1"), "--stride"),
    "an option that is none": (("tokens", "a", "--colum", "b"), "Did you mean '--column'?"),
    "a text with a dash": (("tokens", "-7"), "begins with - after --"),
}


@pytest.mark.parametrize("kind", USAGE)
def test_wrong_usage_is_told(run: Run, tmp_path: Path, kind: str) -> None:
    (tmp_path / "x.csv").write_text("review,id\ngood,1\nbad,2\n")
    (tmp_path / "x.txt").write_text("a\n")
    arguments, words = USAGE[kind]
    before = sorted(tmp_path.iterdir())
    status, out, err = run(*arguments)
    assert (status, out) == (2, "") and words in err
    assert sorted(tmp_path.iterdir()) == before


def test_a_csv_on_standard_input_is_told_how_to_come(run: Run) -> None:
    status, out, err = run("tokens", "--column", "text", stdin=b"id,text\n1,a\n")
    assert (status, out) == (2, "") and "takes JSONL from standard input" in err
    assert "-i FILE" in err


def test_a_file_cannot_be_read_and_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text\na\n")
    (tmp_path / "y.csv").symlink_to("x.csv")
    for target in ("x.csv", "./x.csv", "y.csv"):
        status, _, err = run("tokens", "-i", "x.csv", "-o", target)
        assert status == 1 and "cannot be written too" in err
    assert (tmp_path / "x.csv").read_text() == "text\na\n"
    for target, words in ((".", "is a folder"), ("none/x.csv", "no such folder")):
        status, _, err = run("tokens", "a", "-o", target, "-f", "csv")
        assert status == 1 and words in err


def test_the_model_in_the_box_says_what_to_do_with_single_texts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plain = runner(monkeypatch, capsys)
    (tmp_path / "x.csv").write_text("text\na\n")
    for status, arguments, stdin in (
        (2, ("It was great.",), b""),
        (1, (), b"It was great.\n"),
        (2, ("-i", tmp_path / "x.csv", "--column", "text"), b""),
    ):
        found, out, err = plain("classify", *arguments, stdin=stdin)
        assert (found, out) == (status, "")
        assert "roberta-hub zero-shot TEXT --labels" in err and "roberta-hub fit" in err
    status, out, _ = plain("classify", "--pair", "A dog ran.", "An animal moved.")
    assert status == 0
    assert set(json.loads(out)["scores"]) == {"contradiction", "neutral", "entailment"}


SAID: dict[str, tuple[tuple[str, ...], str]] = {
    "no such head": (("tag", "a", "--head", "foo"), "no token head 'foo'"),
    "a head of another kind": (("tag", "a", "--head", "nli"), "'nli' is for classify and choose"),
    "a task": (("classify", "a", "--head", "ner-"), "; `roberta-hub fit`"),
    "a task of a pipeline": (
        ("classify", "a", "--head", "zero-shot-classification"),
        "here it is a verb: roberta-hub zero-shot",
    ),
    "outputs": (("choose", "a", "--options", "b,c", "--head", "topic"), "has 2 outputs"),
    "a prompt": (("embed", "a", "--prompt-name", "q"), "--prompt takes a text of your own"),
    "a target": (
        ("fill-mask", "a <mask>", "--targets", "unbelievableness"),
        "`roberta-hub score`",
    ),
    "pairs": (("classify", "a", "--head", "nli"), "give pairs (--pair A B, or two columns)"),
    "a question": (
        ("answer", "--pair", "a?", "b", "--pair", "a " * 60, "b"),
        "argument 2: question: too long: with its marks",
    ),
    "an option": (
        ("choose", "a", "b", "--options", "c," + "d " * 60),
        "argument 1: options[1]: too long: 66 tokens > 48",
    ),
    "no room": (
        ("features", "a", "word " * 60, "--stride", "47"),
        "argument 2: 48 tokens leave 46 for its longest sentence",
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_an_error_of_the_model_speaks_of_the_shell(name: str, run: Run) -> None:
    arguments, words = SAID[name]
    status, out, err = run(*arguments)
    assert (status, out) == (1, "") and words in err


NAMES = ["text 0", "texts[0]", "multi_label=True", "pass stride=N instead", "load_model('FOLDER')"]


@pytest.mark.parametrize("name", NAMES)
def test_what_the_user_wrote_is_said_as_he_wrote_it(name: str, run: Run) -> None:
    """Names like what errors once were searched for: a place, an advice."""
    status, _, err = run("classify", "--head", name, "--pair", "a", "b")
    assert status == 1 and f"no classification head {short_repr(name)}; this model has " in err
    status, _, err = run("embed", "a", "--prompt-name", name)
    assert status == 1 and f"no prompt is named {short_repr(name)}; " in err
    status, _, err = run("fill-mask", "a <mask>", "--targets", name)
    assert status == 1 and f"target {short_repr(name)} is " in err
    status, out, _ = run(
        "zero-shot", "a", "--head", "nli", "--labels", f"art,{name}", "-f", "jsonl"
    )
    assert status == 0 and name in json.loads(out)["scores"]
