"""`roberta-hub preprocess`: folders that fairseq and `train` read, whole or not there at all."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from families import write_family
from running import Run, runner, write_model

from roberta_hub import load_model
from roberta_hub.errors import InputError, VocabularyError
from roberta_hub.files import write_files
from roberta_hub.text import Tokenizer
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.train.config import compose
from roberta_hub.train.data.data_bins import (
    class_names,
    find_splits,
    read_labelled,
    renumbering,
)
from roberta_hub.train.data.indexed_files import open_indexed
from roberta_hub.train.data.preprocessing import preprocess_labelled, preprocess_text
from roberta_hub.train.data.streams import build_stream, open_stream
from roberta_hub.train.run import make_task
from roberta_hub.train.vocabularies import read_vocabulary

TEXT = "Hello world!\nHello.\n\n  Hello again.  \n"
IDS = [[31414, 232, 328, 2], [31414, 4, 2], [2], [31414, 456, 4, 2]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    return runner(monkeypatch, capsys)


def lines_of(prefix: Path) -> list[list[int]]:
    return [ids.tolist() for ids in open_indexed(prefix).examples()]


def test_text_becomes_a_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"Hello.\n"))
    (tmp_path / "c.jsonl").write_text('{"text": "Hello.\\n  Hello. "}\n{"text": "Hello."}\n')
    status, printed, error = run(
        "preprocess", "a.txt", "b.txt.gz", "--valid", "c.jsonl", "--output", "out/data-bin"
    )
    assert (status, printed) == (0, "")
    assert error == "out/data-bin: train 6 lines, 16 tokens; valid 4 lines, 10 tokens\n"
    assert lines_of(tmp_path / "out/data-bin/train") == [*IDS, [2], [31414, 4, 2]]
    hello = [31414, 4, 2]
    assert lines_of(tmp_path / "out/data-bin/valid") == [hello, hello, [2], hello]
    assert sorted(os.listdir(tmp_path / "out")) == ["data-bin"]
    assert sorted(os.listdir(tmp_path / "out/data-bin")) == [
        "dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx"
    ]  # fmt: skip


def test_what_was_written_is_learnt_by_the_model_it_is_for(run: Run, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    (tmp_path / "a.txt").write_text(TEXT)
    assert run("preprocess", "a.txt", "-o", "bin", "--vocabulary", model)[0] == 0
    own = ["task.name=masked_lm", "task.options.sentences=eos", "loop.max_updates=1"]
    config = compose([*own, f"model={model}", "data.train=bin", f"output={tmp_path}/run"])
    found = make_task(config)
    tokenizer = load_model(model).tokenizer
    wanted = [tokenizer.encode(line.strip()).tolist() for line in TEXT.splitlines()]
    assert list(found.lengths(0)) == [len(ids) for ids in wanted]


@pytest.mark.parametrize("pairs", [False, True])
def test_a_labelled_table(run: Run, tmp_path: Path, pairs: bool) -> None:
    head = "text\tsecond\tlabel\n" if pairs else "text\tlabel\n"
    second = "\tHello again." if pairs else ""
    rows = [("Hello.", "no"), ("Hello world!", "yes"), ("Hello world!", "yes")]
    table = head + "".join(f"{text}{second}\t{label}\n" for text, label in rows)
    (tmp_path / "train.tsv").write_text(table)
    columns = "text,second" if pairs else "text"
    status, _, error = run(
        "preprocess", "train.tsv", "--valid", "train.tsv", "--text", columns, "--label", "label",
        "--output", "bin",
    )  # fmt: skip
    assert (status, error) == (0, "bin: train 3 examples; valid 3 examples\n")
    assert class_names(tmp_path / "bin") == ("yes", "no")  # by frequency
    found = read_labelled(find_splits("bin", "valid")[0], Tokenizer.shipped(), numbers=False)
    again = ((31414, 456, 4, 2),) if pairs else ()
    assert [(e.ids, e.labels[0]) for e in found] == [
        (((31414, 4, 2), *again), "no"),
        *[(((31414, 232, 328, 2), *again), "yes")] * 2,
    ]


def test_numbers_go_into_lines(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("sentence,label\nHello.,0.25\nHello world!,-3\n")
    assert run("preprocess", "train.csv", "--label", "label", "--regression", "-o", "bin")[0] == 0
    assert (tmp_path / "bin/label/train.label").read_text() == "0.25\n-3.0\n"
    split = find_splits("bin", "train")[0]
    found = read_labelled(split, Tokenizer.shipped(), numbers=True)
    assert [e.labels for e in found] == [("0.25",), ("-3.0",)]


def test_a_set_of_glue_by_its_layout(run: Run, tmp_path: Path) -> None:
    cells = ["0", "a", "b", "c", "d", "e", "f", "Hello.", "Hello world!", "2.5"]
    (tmp_path / "train.tsv").write_text("head\n" + "\t".join(cells) + "\n")
    assert run("preprocess", "train.tsv", "--format", "sts_b", "-o", "bin")[0] == 0
    assert (tmp_path / "bin/label/train.label").read_text() == "0.5\n"  # of 5, as fairseq's script
    assert lines_of(tmp_path / "bin/input1/train") == [IDS[0]]


@pytest.mark.system
def test_what_cannot_be_written_is_refused_and_leaves_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    write_family("bert", tmp_path / "bert")
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "bad.txt").write_bytes(b"Hello.\n\xff\n")
    (tmp_path / "t.tsv").write_text("sentence\tlabel\nHello.\tyes\n")
    (tmp_path / "u.tsv").write_text("sentence\tlabel\nHello.\tmaybe\n")
    refused = {
        ("a.txt", "--valid", "empty.txt"): "empty.txt: there is no text in it",
        ("bad.txt",): "bad.txt:2: not UTF-8",
        ("none.txt",): "none.txt: no such file",
        ("a.txt", "--vocabulary", "bert"): "a dict.txt can only say 0, 1, 2 and 3",
        ("a.txt", "--regression"): "--regression is for labelled tables",
        ("a.txt", "--format", "csv"): "--format is for labelled tables",
        ("a.txt", "--text", "a,b"): "--text names 2 columns",
        ("t.tsv", "t.tsv", "--label", "label"): "the split train has several tables",
        ("t.tsv", "--valid", "u.tsv", "--label", "label"): "'maybe', which the training set does",
        ("t.tsv", "--label", "label", "--regression"): "label 'yes' is no number",
        ("t.tsv", "--label", "verdict"): "verdict",
    }
    for words, said in refused.items():
        status, _, error = run("preprocess", *words, "-o", "bin")
        assert status in (1, 2), words
        assert said in error, (words, error)
        assert not (tmp_path / "bin").exists()
        assert not list(tmp_path.glob(".*")), words
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("kept")
    assert "full is there already; give a folder" in run("preprocess", "a.txt", "-o", "full")[2]
    assert (tmp_path / "full/mine").read_text() == "kept"


def test_other_pieces_under_the_same_names_are_refused(tmp_path: Path) -> None:
    """Every byte-level BPE calls its pieces 0, 1, 2 and so on: their merges tell two apart."""
    (tmp_path / "a.txt").write_text("abab\n")
    dictionary = "".join(f"{number} 1\n" for number in range(257))
    tokenizers = []
    for name, merge in (("one", (b"a", b"b")), ("other", (b"b", b"a"))):
        engine, folder = GPT2BPE([merge]), tmp_path / name
        write_files(folder, {"dict.txt": dictionary.encode(), **engine.fairseq_files()})
        tokenizers.append(read_vocabulary(str(folder)))
    one, other = tokenizers
    assert one.dictionary.symbols == other.dictionary.symbols
    assert one.engine.fingerprint != other.engine.fingerprint
    build_stream(tmp_path / "a.txt", tmp_path / "tokens", one)
    with pytest.raises(InputError, match="ids of another vocabulary"):
        open_stream(tmp_path / "tokens", other)
    preprocess_text({"train": [str(tmp_path / "a.txt")]}, tmp_path / "bin", one)
    assert sorted(os.listdir(tmp_path / "bin")) == [
        "dict.txt", "encoder.json", "train.bin", "train.idx", "vocab.bpe"
    ]  # fmt: skip
    assert read_vocabulary(str(tmp_path / "bin")).encode("ab").tolist() == one.encode("ab").tolist()
    renumbering(tmp_path / "bin", one)
    with pytest.raises(InputError, match="ids of other pieces than the model's"):
        renumbering(tmp_path / "bin", other)


def test_a_vocabulary_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    preprocess_text({"train": [str(tmp_path / "a.txt")]}, tmp_path / "bin", Tokenizer.shipped())
    again = read_vocabulary(str(tmp_path / "bin"))
    assert again.dictionary.symbols == Tokenizer.shipped().dictionary.symbols
    (tmp_path / "bin/dict.txt").write_text("hello 5\nworld 3\n")
    with pytest.raises(InputError, match=r"no symbol of its dict\.txt, such as 'hello'"):
        read_vocabulary(str(tmp_path / "bin"))
    (tmp_path / "bin/dict.txt").write_text("hello\n")
    with pytest.raises(VocabularyError, match=r"line 1"):
        read_vocabulary(str(tmp_path / "bin"))


def test_pairs_and_single_texts_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "one.tsv").write_text("sentence\tlabel\nHello.\tyes\n")
    (tmp_path / "two.tsv").write_text("sentence\tsentence2\tlabel\nHello.\tHello.\tyes\n")
    sources = {"train": str(tmp_path / "two.tsv"), "valid": str(tmp_path / "one.tsv")}
    with pytest.raises(InputError, match=r"one\.tsv: single texts"):
        preprocess_labelled(sources, tmp_path / "bin", Tokenizer.shipped())


@pytest.mark.system
def test_a_kill_leaves_no_half_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT * 400_000)
    words = [sys.executable, "-m", "roberta_hub", "preprocess", "a.txt", "-o", "bin"]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".incomplete-bin~*/parts/*.bin")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.system
def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    """Eight times the text within 60 MB of the same memory."""
    program = (
        "import resource, sys\n"
        "from roberta_hub.shell.main import main\n"
        "from roberta_hub.train.data import streams\n"
        "streams.CHUNK_CHARACTERS = 200_000\n"
        "status = main(sys.argv[1:])\n"
        "print(status, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    peaks = []
    for copies in (20_000, 160_000):
        (tmp_path / f"{copies}.txt").write_text(TEXT * copies)
        words = ["preprocess", f"{copies}.txt", "-o", f"bin{copies}", "--workers", "1"]
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        status, peak = done.stdout.split()
        assert status == "0"
        peaks.append(int(peak) // 1024)
    assert peaks[1] - peaks[0] < 60, peaks


GLUE_TESTS = {
    "rte": ("index sentence1 sentence2 label", "0|A b.|C d.|entailment", "0|A b.|C d."),
    "sst_2": ("sentence label", "A b.|1", "0|A b."),
    "cola": ("", "gj04|1||A b.", "0|A b."),
    "qqp": ("id qid1 qid2 one two is_duplicate", "0|1|2|A b.|C d.|1", "0|A b.|C d."),
    "sts_b": ("index b c d e f g h i score", "0||||||1|A b.|C d.|5.0", "0||||||1|A b.|C d."),
}
"""Sets of GLUE: header and row of a training file, and a row of the test file, without a label."""


@pytest.mark.parametrize("name", GLUE_TESTS)
def test_a_test_set_of_glue_has_texts_and_no_labels(name: str, run: Run, tmp_path: Path) -> None:
    """fairseq's preprocess_GLUE_tasks.sh: the inputs of test.tsv, and labels of train and dev."""
    own_header, labelled, unlabelled = GLUE_TESTS[name]
    train = [*filter(None, [own_header.replace(" ", "\t")]), labelled.replace("|", "\t")]
    row = unlabelled.replace("|", "\t")
    cells = row.count("\t")
    header = "\t".join(["index", *(f"column{i}" for i in range(cells))])
    (tmp_path / "train.tsv").write_text("\n".join(train) + "\n")
    (tmp_path / "test.tsv").write_text(f"{header}\n{row}\n{row}\n")
    words = ("preprocess", "train.tsv", "--format", name, "--output", "bin")
    status, _, err = run(*words, "--test", "test.tsv")
    assert status == 0 and "train 1 examples; test 2 examples" in err, err
    assert not list((tmp_path / "bin/label").glob("test*"))
    for part, text in (("input0", "A b."), ("input1", "C d."))[: 1 + ("C d." in row)]:
        own = open_indexed(tmp_path / "bin" / part / "test")
        ids = load_model().encode(text)[1:].tolist()
        assert [own[i].tolist() for i in range(len(own))] == [ids, ids]
    status, _, err = run("preprocess", "test.tsv", "--format", name, "--output", "other")
    assert status == 1 and "test.tsv: no labels, as GLUE's test sets have none" in err
