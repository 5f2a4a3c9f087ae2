"""The larger model that labels pairs: what it computes, learns, and does after a stop."""

import lzma
import random
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
import torch
from scripts import TOOLS, load_script

import roberta_hub

transformers = pytest.importorskip("transformers")
LABELS = ("contradiction", "neutral", "entailment")
WORDS = ("a", "b", "c", "d", "no", "maybe", "yes")


@pytest.fixture(scope="module")
def teacher() -> ModuleType:
    load_script(TOOLS / "growing.py")
    return load_script(TOOLS / "pair_teacher.py")


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """A small MPNet with random weights, whose tokens are words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder = tmp_path_factory.mktemp("mpnet")
    vocabulary = {word: i for i, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *WORDS])}
    tokens = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    tokens.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, **names).save_pretrained(folder)
    torch.manual_seed(1)
    config = transformers.MPNetConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
    )
    model = transformers.MPNetModel(config, add_pooling_layer=False)
    model.encoder.relative_attention_bias.weight.data.normal_()
    model.save_pretrained(folder)
    return folder


def pairs(count: int) -> list[tuple[str, str, str]]:
    """Pairs whose hypothesis ends with a word that says the label."""
    luck = random.Random(1)
    rows = []
    for _ in range(count):
        number = luck.randrange(3)
        words = [" ".join(luck.choices(WORDS[:4], k=luck.randint(1, 6))) for _ in range(2)]
        rows.append((words[0], f"{words[1]} {WORDS[4 + number]}", LABELS[number]))
    return rows


def test_its_states_are_those_of_transformers(teacher, small, monkeypatch):
    """Batches with padding too, in bfloat16 as it computes, by the mean before the head."""
    monkeypatch.setattr(teacher, "FROZEN", 1)
    network = teacher.PairModel(small)
    asked = [row[:2] for row in pairs(9)]
    seen = {}
    network.head.register_forward_pre_hook(lambda _, given: seen.update(mean=given[0]))
    with torch.no_grad():
        network(network.encode(asked))
        model = transformers.MPNetModel.from_pretrained(small, add_pooling_layer=False).eval()
        for row, (first, second) in enumerate(asked):
            ids = torch.tensor([network.encode([(first, second)])[0]])
            wanted = model(ids).last_hidden_state.mean(1)[0]
            assert torch.allclose(seen["mean"][row], wanted, atol=0.05)
            assert torch.cosine_similarity(seen["mean"][row], wanted, dim=0) > 0.999


@pytest.mark.system
def test_it_learns_and_a_stopped_run_ends_the_same(teacher, small, tmp_path, monkeypatch):
    for name, value in {"FROZEN": 1, "BATCH": 8, "RATE": 5e-3, "WARM_UP": 5, "SAVED": 0}.items():
        monkeypatch.setattr(teacher, name, value)
    rows = pairs(640)
    state = teacher.learn(rows, small, tmp_path / "whole")

    class Stop(Exception):
        pass

    cross_entropy, left = teacher.F.cross_entropy, iter(range(30))

    def stopping(*given):
        if next(left, None) is None:
            raise Stop
        return cross_entropy(*given)

    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr(teacher.F, "cross_entropy", stopping)
        teacher.learn(rows, small, tmp_path / "parts")
    (stopped,) = (tmp_path / "parts").iterdir()
    assert torch.load(stopped, weights_only=True)["done"] == 30
    assert teacher.learn(rows, small, tmp_path / "parts") == stopped
    whole, parts = (torch.load(file, weights_only=True) for file in (state, stopped))
    assert whole["done"] == parts["done"] == 80
    for name, weight in whole["model"].items():
        assert torch.equal(weight, parts["model"][name]), name

    asked = [row[:2] for row in pairs(900)[700:]]
    found = teacher.probable(asked, small, state)
    right = [
        LABELS[max(range(3), key=found[a, b].__getitem__)] == label
        for a, b, label in pairs(900)[700:]
    ]
    assert sum(right) > 190
    assert all(abs(sum(row) - 1) < 0.01 for row in found.values())
    # Nothing is asked twice, not even where the model is gone; a cut last line is.
    again = teacher.probable(asked, tmp_path, state)
    assert again.keys() == found.keys()
    file = state.with_suffix(".tsv")
    text = file.read_text()
    file.write_text(text[:-4])
    teacher.probable(asked, small, state)
    assert sorted(file.read_text().split("\n")) == sorted(text.split("\n"))


@pytest.mark.parametrize("updates", [1, 2, 5, 100, 101, 4000])
def test_the_learning_rate_rises_and_falls(teacher, updates):
    shares = [teacher.share_of_rate(number, updates) for number in range(updates)]
    assert all(0 < share <= 1 for share in shares)
    peak = shares.index(max(shares))
    assert shares == sorted(shares[:peak]) + sorted(shares[peak:], reverse=True)


def test_a_file_that_ends_within_a_letter(tmp_path):
    growing = load_script(TOOLS / "growing.py")
    file = tmp_path / "x.tsv"
    assert growing.lines(file) == []
    file.write_bytes("é\tone\né".encode()[:-1])
    assert growing.lines(file) == [["é", "one"]]
    with growing.growing(file) as out:
        out.write("two\n")
    assert growing.lines(file) == [["é", "one"], ["two"]]


def test_the_lower_layers_stay(teacher, small, tmp_path, monkeypatch):
    monkeypatch.setattr(teacher, "FROZEN", 2)
    state = teacher.learn(pairs(64), small, tmp_path)
    assert teacher.learn(pairs(65), small, tmp_path) != state  # of other rows
    before = teacher.PairModel(small).state_dict()
    after = torch.load(state, weights_only=True)["model"]
    moved = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
    assert moved and all(name.startswith(("encoder.layer.2.", "head.")) for name in moved)


@pytest.fixture
def tables(teacher, tmp_path, monkeypatch):
    """The tool, with texts of 500 short documents each in the place of the shared ones."""
    for name in ("draw_topics", "moods", "small_lm", "cut_words", "tiny_tables"):
        tables = load_script(TOOLS / f"{name}.py")
    folder = tmp_path / "shared/data/pretrain"
    folder.mkdir(parents=True)
    for name in tables.TEXTS:
        text = "\n\n".join(f"A hobgoblin of {name} owns {n} coins." for n in range(500))
        (folder / f"{name}.txt.xz").write_bytes(lzma.compress(text.encode()))
    monkeypatch.setattr(tables, "SHARED", tmp_path / "shared")
    monkeypatch.setattr(tables, "WORK", tmp_path)
    return tables


def test_what_is_held_out_is_in_no_text_or_sentence(tables, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "COVERED", 10_000)
    wiki = [lines[0] for lines in tables.documents("simplewiki_2022")]
    asked = "This hobgoblin is asked about."
    tables.write_prose()
    tables.cover_words([asked, "This hobgoblin is learnt."], {asked})
    text = (tmp_path / "distil.txt").read_text()
    rows = {row[0] for row in tables.read_table("distil_single")}
    for number, line in enumerate(wiki):
        held_out = number % tables.EVERY == 0
        assert (line in rows) == (not held_out)
        assert not (held_out and line in text)
    assert wiki[1] in text and wiki[2] not in text
    assert text.count("oanc_slate") == 500
    assert "This hobgoblin is learnt." in rows and asked not in rows
    assert "the hobgoblin" in rows


@pytest.mark.system
def test_the_table_of_labelled_pairs(teacher, small, tables, tmp_path, monkeypatch):
    """People's labels count half, moods are sure, new pairs are the model's, none is held out."""
    for name, value in {"FROZEN": 1, "BATCH": 8, "RATE": 5e-3, "WARM_UP": 5}.items():
        monkeypatch.setattr(teacher, name, value)
    monkeypatch.setattr(teacher, "unpacked", lambda _: small)
    roberta_hub.load_model().save(tmp_path / "minilm")
    people = [[*row, "mnli"] for row in dict.fromkeys(pairs(400))]
    monkeypatch.setattr(tables, "LETTERS", 40)
    held_out, long = people[0][1], " ".join(["maybe"] * 7)
    moods = [["a b", "maybe", "neutral", "mood"]]
    odd = ["b", held_out, "entailment", "mnli"]
    unseen = [long, "maybe", "neutral", "mnli"]
    header = ["premise", "hypothesis", "label", "source"]
    tables.write_table("moods_train", header, [*people, odd, unseen, *moods])
    tables.write_table("nli_valid", header, [["a lone row", held_out, "neutral", "mnli"]])
    tables.label_pairs()

    rows = tables.read_table("distil_train")
    assert not any(held_out in row[:2] for row in rows)
    likely = {tuple(row[:2]): [float(p) for p in row[4].split()] for row in rows}
    assert all(abs(sum(found) - 1) < 0.001 for found in likely.values())
    assert likely["a b", "maybe"] == likely[long, "maybe"] == [0.0, 1.0, 0.0]
    network = teacher.trained(small, next((tmp_path / "pair_teacher").glob("*.pt")))
    rows = [row for row in rows if row[0] != long]
    own, new = ([row for row in rows if (row[3] == "mpnet") == is_new] for is_new in (0, 1))
    assert len(own) == len([row for row in people if held_out not in row[:2]]) + 1
    assert {(row[1], row[0]) for row in people} & {tuple(row[:2]) for row in new}
    for premise, hypothesis, label, source, _ in [*own[:20], *new[:20]]:
        (wanted,) = network.probabilities([(premise, hypothesis)])
        if source == "mnli":
            wanted = [(p + (label == name)) / 2 for p, name in zip(wanted, LABELS, strict=True)]
        elif source == "mpnet":
            assert label == LABELS[wanted.index(max(wanted))]
        else:
            continue
        assert likely[premise, hypothesis] == pytest.approx(wanted, abs=0.03)  # bfloat16


def test_captions_are_learnt_with_as_many_of_each_label(tables, tmp_path):
    """Where neutral captions were rare, the opinion is put right; other rows stay as they were."""
    header = ["premise", "hypothesis", "label", "source", "probabilities"]
    people = [
        [f"p{n}", f"h{n}", LABELS[which], "snli", " ".join(map(str, likely))]
        for n, (which, likely) in enumerate(
            4 * [(0, (1.0, 0.0, 0.0)), (2, (0.0, 0.0, 1.0))] + 2 * [(1, (0.25, 0.5, 0.25))]
        )
    ]
    opinions = [["p0", "h9", "contradiction", "mpnet", "0.4 0.3 0.3"]]
    opinions += [["p0", f"h{n}", "entailment", "mpnet", "0 0 1"] for n in (2, 3)]
    opinions += [["p1", "h4", "contradiction", "mpnet", "1 0 0"]]
    other = [["q", f"r{n}", LABELS[n % 3], "mnli", "0.3 0.4 0.3"] for n in range(7)]
    mood = [["q", "good", "entailment", "mood", "0.0 0.0 1.0"]]
    tables.write_table("distil_train", header, [*people, *opinions, *other, *mood])
    tables.write_table("nli_valid", header[:4], [row[:4] for row in people])
    tables.balance()

    rows = tables.read_table("balanced_train")
    count = Counter((row[3], row[2]) for row in rows)
    wanted = {"snli": 2, "mnli": 2, "mpnet of captions": 1}
    assert count.pop(("mood", "entailment")) == 1
    assert count == {(name, label): n for name, n in wanted.items() for label in LABELS}
    likely = {tuple(row[:2]): [float(p) for p in row[4].split()] for row in rows}
    # Of people's captions 4, 2 and 4 are of each label: .4/4, .3/2, .3/4, made to sum up to one.
    assert likely["p0", "h9"] == pytest.approx([4 / 13, 6 / 13, 3 / 13], abs=1e-4)
    # Half of the target is people's label; the model's half, (.5, 0, .5), stays.
    assert likely["p8", "h8"] == pytest.approx([0.25, 0.5, 0.25])
    assert all(
        likely["q", f"r{n}"] == [0.3, 0.4, 0.3] for n in range(7) if ("q", f"r{n}") in likely
    )
    assert Counter(row[2] for row in tables.read_table("balanced_valid")) == dict.fromkeys(
        LABELS, 2
    )


def test_an_opinion_is_put_right_by_how_often_each_label_was_learnt(tables):
    assert tables.evened([0.2, 0.3, 0.5], [7, 7, 7]) == pytest.approx([0.2, 0.3, 0.5])
    assert tables.evened([0.4, 0.1, 0.5], [4, 1, 5]) == pytest.approx([1 / 3] * 3)
