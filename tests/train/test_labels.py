"""Labels: what is one, how every layout is read, and what is said before a run begins."""

import json
import logging
import math

import pytest
from learning import jsonl, parquet, tsv

from roberta_hub.errors import InputError
from roberta_hub.train.config import compose
from roberta_hub.train.data.labels import group_alike, label_of
from roberta_hub.train.data.sentences import read_sentences
from roberta_hub.train.data.tagged_words import read_words
from roberta_hub.train.run import make_task, run


@pytest.mark.parametrize("suffix", ["tsv", "jsonl", "parquet"])
def test_white_space_around_labels_is_no_part_of_them(tmp_path, suffix):
    values = ["good", " good", "good ", "\u00a0good"]
    rows = [{"sentence": "A", "label": value} for value in values]
    path = tmp_path / f"x.{suffix}"
    if suffix == "tsv":
        tsv(path, ["sentence", "label"], [list(row.values()) for row in rows])
    else:
        {"jsonl": jsonl, "parquet": parquet}[suffix](path, rows)
    assert {e.labels for e in read_sentences(path)} == {("good",)}


def test_white_space_around_the_labels_of_glue_and_words(tmp_path):
    path = tmp_path / "rte.tsv"
    path.write_text("h\n0\tA.\tB.\tentailment \n")
    assert read_sentences(path, "rte")[0].labels == ("entailment",)
    words = jsonl(tmp_path / "x.jsonl", [{"words": ["A", "b"], "tags": [" O", "B-X "]}])
    assert read_words(words)[0].tags == ("O", "B-X")


WRONG = [
    (math.nan, "nothing in the column"),
    (math.inf, "the label is inf"),
    (None, "nothing in the column"),
    ({"a": 1}, "the label is a dict"),
    (["a"], "a list of labels; the task multi_label"),
    ("   ", "the label is empty"),
    ("\ud83d", r"label '\\ud83d' holds U\+D83D"),
    ("a\nb", r"label 'a\\nb' holds U\+000A"),
    ("a\x1b[31m", r"holds U\+001B"),
    ("a\u2028b", r"holds U\+2028"),
]


@pytest.mark.parametrize(("value", "words"), WRONG)
def test_what_is_no_label_is_said_with_its_line(tmp_path, value, words):
    rows = [{"sentence": "A", "label": "x"}, {"sentence": "B", "label": value}]
    path = jsonl(tmp_path / "x.jsonl", rows)
    with pytest.raises(InputError, match=rf"x\.jsonl:2: .*{words}"):
        read_sentences(path)


@pytest.mark.parametrize(
    "value", ["", "0.5", "0.5 0.2", "-0.5 1.5", "nan 1", "a b", [], [2, -1], 1, {"0": 0, "1": 1}]
)
def test_what_is_no_probability_is_said_with_its_line(tmp_path, value):
    rows = [{"sentence": "A", "label": "x", "p": "0.1 0.9"}]
    rows += [{"sentence": "B", "label": "x", "p": value}]
    path = jsonl(tmp_path / "x.jsonl", rows)
    columns = {"sentence": "sentence", "label": "label", "probabilities": "p"}
    with pytest.raises(InputError, match=r"x\.jsonl:2: .*is not the probability of each class"):
        read_sentences(path, columns=columns)


@pytest.mark.parametrize("value", [math.nan, None, b"\xff", {"a": 1}])
def test_what_is_no_label_in_parquet(tmp_path, value):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "x.parquet"
    table = pa.table({"sentence": ["A"], "label": pa.array([value])})
    pyarrow.parquet.write_table(table, path)
    with pytest.raises(InputError, match=r"x\.parquet:1: "):
        read_sentences(path)


@pytest.mark.parametrize("value", [["cat", None], ["cat", " "], ["cat", ["dog"]], [math.nan]])
def test_what_is_no_label_among_many(tmp_path, value):
    path = jsonl(tmp_path / "x.jsonl", [{"sentence": "A", "label": value}])
    with pytest.raises(InputError, match=r"x\.jsonl:1: the label is"):
        read_sentences(path, separator=",")


@pytest.mark.parametrize("tags", [["O", " "], ["O", "\ud83d"], ["O", "a\tb"]])
def test_what_is_no_label_of_a_word(tmp_path, tags):
    path = jsonl(tmp_path / "x.jsonl", [{"words": ["A", "b"], "tags": tags}])
    with pytest.raises(InputError, match=r"x\.jsonl:1: "):
        read_words(path)


@pytest.mark.system
@pytest.mark.parametrize("value", ["five", math.nan, True, "1e39", [1.0]])
def test_what_is_no_number(base, tmp_path, value):
    path = jsonl(tmp_path / "x.jsonl", [{"sentence": "A", "label": value}])
    settings = ["finetune=sts_b", f"model={base}", f"data.train={path}", "data.format=jsonl"]
    settings += ["data.columns={sentence: sentence, label: label}"]
    with pytest.raises(InputError, match=r"x\.jsonl:1: "):
        make_task(compose(settings))


def test_a_label_that_cannot_be_saved_is_said_before_the_first_update(base, tmp_path):
    """0.1.0 trained, and failed when it wrote config.json."""
    rows = [{"sentence": "A", "label": label} for label in ("x", "\ud83d", "x", "\ud83d")]
    path = jsonl(tmp_path / "x.jsonl", rows)
    settings = ["finetune=sst_2", f"model={base}", f"data.train={path}", "data.format=jsonl"]
    settings += [f"output={tmp_path}/run", "loop.max_updates=2", "loop.progress=false"]
    settings += ["optimizer.total_updates=null", "optimizer.warmup_updates=0"]
    with pytest.raises(InputError, match=r"x\.jsonl:2: label "):
        run(compose(settings))
    assert not (tmp_path / "run").exists()


def test_labels_alike_are_listed_with_their_counts(base, tmp_path, caplog):
    labels = ["Good", "good", "good", "bad", "ﬁne", "fine"]
    path = tmp_path / "x.tsv"
    tsv(path, ["sentence", "label"], [["A.", label] for label in labels])
    settings = ["finetune=sst_2", f"model={base}", f"data.train={path}", "data.format=tsv"]
    caplog.set_level(logging.INFO, "roberta_hub")
    with pytest.warns(UserWarning, match="Unicode spelling only") as caught:
        task = make_task(compose(settings))
    said = str(caught[0].message)
    assert "'Good' (1), 'good' (2)" in said and "'fine' (1), 'ﬁne' (1)" in said
    names = task.finish().head_labels("sst_2")
    assert len(names) == 5  # said, not merged
    assert any("labels of 6 examples: good 2" in line for line in caplog.messages)


def test_alike():
    assert group_alike(["a", "b", "e\u0301", "\u00e9"]) == [["e\u0301", "\u00e9"]]
    assert group_alike(["yes", "no"]) == []


@pytest.mark.parametrize("value", ["a b", "n/a", "0", 1, 1.0, "👍🏽", "מחמאה", "क्षमा"])
def test_labels_of_every_script_stay_as_they_are(value):
    assert label_of(value, "here") == str(value)
    assert json.loads(json.dumps(label_of(value, "here"))) == str(value)
