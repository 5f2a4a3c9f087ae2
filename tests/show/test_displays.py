"""What the verbs show: numbers as a plain call gives them, text as text, lists as lists."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
from typing import Any

import pytest
import torch
from small_models import assert_close, small_roberta

from roberta_hub import Answer, RobertaHubInterface
from roberta_hub.errors import InputError, InputTypeError, MissingExtraError, UnknownNameError
from roberta_hub.show.display import Display, ShownList
from roberta_hub.show.sheet import LEAST_SHEET_WIDTH
from roberta_hub.terminal import width_of
from roberta_hub.verbs.fill_mask import view_one as filled_words

NLI = ("contradiction", "neutral", "entailment")
TEXT = "The capital of France is not a teapot, can’t you see?"
SIZES: dict[str, Any] = {"num_layers": 2, "max_positions": 80}
PAIR = ("A man plays.", "Nobody does!")


@pytest.fixture(scope="module")
def roberta() -> RobertaHubInterface:
    made = small_roberta(heads={"mnli": 3, "grade": 1}, labels={"mnli": NLI}, **SIZES)
    made.register_token_head("ner", labels=["O", "B-PER", "I-PER"])
    made.register_span_head("squad")
    return made.eval()


def log_probs(roberta: RobertaHubInterface, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = roberta.model(ids[None])[0][0]
    return logits.log_softmax(-1)  # (T, V)


# ---- explain ----


@pytest.mark.parametrize("text", [TEXT, PAIR, "epipheny ... 漢字 ", ""])
def test_surprise_is_that_of_a_plain_call(
    roberta: RobertaHubInterface, text: str | tuple[str, str]
) -> None:
    """Each word's pieces from left to right, the later ones masked (Kauf and Ivanova 2023)."""
    sentences = (text,) if isinstance(text, str) else text
    shown = roberta.explain(text).to_dict()
    ids, mask = roberta.encode(*sentences), roberta.task.mask_idx
    offsets = [
        (s, start, end) for s, one in enumerate(sentences) for start, end in roberta.offsets(one)
    ]
    places = [i for i in range(len(ids)) if ids[i] not in (0, 2)]
    assert len(places) == len(offsets)
    seen = 0
    for word in shown["words"]:
        assert sentences[word["sentence"]][word["start"] : word["end"]] == word["word"]
        own = [
            place
            for place, (s, start, end) in zip(places, offsets, strict=True)
            if s == word["sentence"]
            and start < word["end"]
            and end > word["start"]
            and sentences[s][start:end].strip()
        ]
        bits = 0.0
        for i, place in enumerate(own):
            masked = ids.clone()
            masked[own[i:]] = mask
            logs = log_probs(roberta, masked)[place]
            bits -= float(logs[ids[place]]) / math.log(2)
            if i == 0:
                better = logs[roberta.tokenizer.words] > logs[ids[place]]
                assert word["rank"] == int(better.sum()) + 1
                logs[ids[place]] = -math.inf
                best = int(logs.masked_fill(~roberta.tokenizer.words, -math.inf).argmax())
                assert word["instead"][0]["word"] == roberta.tokenizer.decode_id(best).strip()
                assert word["instead"][0]["probability"] == pytest.approx(
                    float(logs[best].exp()), rel=1e-4
                )
        assert word["bits"] == pytest.approx(bits, rel=1e-4)
        assert word["probability"] == pytest.approx(2**-bits, rel=1e-3)
        seen += len(own)
    assert shown["bits"] == pytest.approx(sum(word["bits"] for word in shown["words"]))
    blank = [one for s, *one in offsets if not sentences[s][slice(*one)].strip()]
    assert seen == len(places) - len(blank)


def test_words_of_one_piece_add_up_to_the_score(roberta: RobertaHubInterface) -> None:
    bits = roberta.explain("The dog was late.").to_dict()["bits"]
    assert bits == pytest.approx(-roberta.score("The dog was late.") / math.log(2), rel=1e-4)


def test_a_long_text_is_read_in_windows_or_cut(roberta: RobertaHubInterface) -> None:
    text = " ".join(f"word{i}" for i in range(40))
    with pytest.raises(InputError, match="too long"):
        roberta.explain(text)
    for head in (None, "grade"):
        whole = roberta.explain(text, head, stride=8).to_dict()["words"]
        assert [word["word"] for word in whole] == text.split()
    cut = roberta.explain(text, truncate=True).to_dict()["words"]
    assert 0 < len(cut) < 40 and [word["word"] for word in cut] == text.split()[: len(cut)]


@pytest.mark.parametrize(("text", "head"), [(PAIR, "mnli"), (TEXT, "grade"), ("Goal!", "grade")])
def test_contributions_are_what_a_head_says_without_the_word(
    roberta: RobertaHubInterface, text: Any, head: str
) -> None:
    sentences = (text,) if isinstance(text, str) else text
    shown = roberta.explain(text, head).to_dict()
    answer = roberta.classify([text], head)[0]
    assert shown["label"] == answer.label and shown["scores"] == pytest.approx(
        answer.scores, rel=1e-4
    )
    ids = roberta.encode(*sentences)
    best = roberta.head_labels(head).index(answer.label)

    def ask(some: torch.Tensor) -> float:
        with torch.no_grad():
            values = roberta.predict(head, some, return_logits=True)[0]
        return float((values.softmax(-1) if len(values) > 1 else values)[best])

    place = 1
    for s, sentence in enumerate(sentences):
        spans = roberta.offsets(sentence)
        for word in [w for w in shown["words"] if w["sentence"] == s]:
            own = [
                place + i
                for i, (start, end) in enumerate(spans)
                if start < word["end"] and end > word["start"]
            ]
            left = ids[[i for i in range(len(ids)) if i not in own]]
            assert word["contribution"] == pytest.approx(ask(ids) - ask(left), abs=1e-5)
        place += len(spans) + 2


def test_a_head_is_asked_as_classify_asks_it(roberta: RobertaHubInterface) -> None:
    with pytest.raises(UnknownNameError, match="no classification head 'mood'"):
        roberta.explain("a", "mood")
    with pytest.raises(InputError, match="judges pairs"):
        roberta.explain("a single text", "mnli")
    for wrong in (["a", "b"], b"a", None, ()):
        with pytest.raises(InputTypeError, match="text"):
            roberta.explain(wrong)  # type: ignore[arg-type]


def test_the_mode_and_the_weights_stay(roberta: RobertaHubInterface) -> None:
    roberta.train()
    roberta.explain("a b"), roberta.explain(PAIR, "mnli"), roberta.attention("a b")
    assert all(module.training for module in roberta.modules())
    roberta.eval()


# ---- token_strip, attention ----


def test_pieces_are_those_of_encode(roberta: RobertaHubInterface) -> None:
    text = ("naïve 🙂 ", "can’t")
    pieces = roberta.token_strip(text).to_dict()["pieces"]
    assert [piece["id"] for piece in pieces] == roberta.encode(*text).tolist()
    inner = [piece for piece in pieces if "sentence" in piece]
    for s, sentence in enumerate(text):
        own = [piece for piece in inner if piece["sentence"] == s]
        assert [piece["piece"] for piece in own] == roberta.tokenize(sentence)
        assert [(piece["start"], piece["end"]) for piece in own] == roberta.offsets(sentence)


def test_attention_has_a_map_for_all_that_is_asked(roberta: RobertaHubInterface) -> None:
    def asked(*which: int | None) -> list[tuple[int, int | None]]:
        panels = roberta.attention("Hello world!", *which).to_dict()["panels"]
        for panel in panels:
            weights = torch.tensor(panel["weights"])
            assert weights.shape == (5, 5)
            assert_close(weights.sum(1), torch.ones(5))
        return [(panel["layer"], panel["attention_head"]) for panel in panels]

    assert asked() == [(1, None), (2, None)]
    assert asked(None, 3) == [(1, 3), (2, 3)]
    assert asked(-1) == [(2, 0), (2, 1), (2, 2), (2, 3)]
    assert asked(1, 2) == [(1, 2)]
    for wrong in ((0,), (3,), (-3,), (1, 4), (1, -1)):
        with pytest.raises(InputError):
            roberta.attention("Hello", *wrong)
    with pytest.raises(InputError, match="too long"):
        roberta.attention("word " * 100)


# ---- lists, and what they are made of ----


def results(roberta: RobertaHubInterface) -> dict[str, Any]:
    return {
        "one mask": roberta.fill_mask("Paris is the <mask> of France."),
        "two masks": roberta.fill_mask("<mask> is the <mask>.", topk=2),
        "texts with masks": roberta.fill_mask(["a <mask>", "<mask> <mask>"], topk=2),
        "labels": roberta.classify([PAIR, ("a", "b")], "mnli"),
        "own labels": roberta.zero_shot(["a", "b"], ["art", "sport"], head="mnli"),
        "spans": roberta.tag("Ada Lovelace wrote it.", "ner"),
        "spans of many": roberta.tag(["Ada wrote.", ""], "ner"),
        "hits": roberta.search("a dog", ["A dog ran.", ("a", "pair")], topk=2),
        "hits of many": roberta.search(iter(["a", "b"]), ["A dog ran.", "b"], topk=1),
        "hits of vectors": roberta.search(roberta.embed(["a"]), roberta.embed(["b", "c"])),
        "no texts": roberta.classify([], "mnli"),
    }


def test_lists_stay_lists(roberta: RobertaHubInterface) -> None:
    for name, found in results(roberta).items():
        plain = list(found)
        assert isinstance(found, list) and isinstance(found, ShownList), name
        assert found == plain and plain == found and repr(found) == repr(plain)
        for made in (pickle.loads(pickle.dumps(found)), copy.copy(found), copy.deepcopy(found)):
            assert type(made) is list and made == plain
        assert type(found[:1]) is list and type(found[:] + found) is list
        printed = "\n".join(map(str, plain))
        if name in ("hits of many", "hits of vectors"):
            printed = "\n\n".join("\n".join(map(str, own)) for own in plain)
        elif not plain or any(isinstance(row, list | tuple) for row in plain):
            printed = repr(plain)
        assert str(found) == printed, name
        if name.endswith("mask") or name.endswith("masks"):
            assert json.dumps(found) == json.dumps(plain)


@pytest.mark.system
def test_every_result_is_drawn(roberta: RobertaHubInterface) -> None:
    for name, found in results(roberta).items():
        html = found._repr_html_()
        assert html and html.startswith("<div"), name
        assert found.png()[:4] == b"\x89PNG"
    filled = roberta.fill_mask("Paris is the <mask> of France.")
    html = filled._repr_html_()  # type: ignore[attr-defined]
    for _, probability, word in filled:
        assert word.strip() in html and f"{probability:.3f}" in html


def test_a_list_that_was_changed_is_drawn_as_it_is(roberta: RobertaHubInterface) -> None:
    hits: Any = roberta.search("a", ["first text", "second text", "third text"], topk=3)
    gone = hits.pop()
    assert gone.text not in hits._repr_html_() and hits[0].text in hits._repr_html_()
    hits.append("a word")
    assert hits._repr_html_() is None  # and a notebook shows the list as any other


def test_many_answers_are_not_all_drawn(roberta: RobertaHubInterface) -> None:
    found: Any = roberta.classify([(f"text {i}", "b") for i in range(50)], "mnli")
    html = found._repr_html_()
    assert "text 19" in html and "text 20" not in html and "and 30 more texts" in html


def test_an_answer_is_drawn_in_its_context_and_is_as_before(roberta: RobertaHubInterface) -> None:
    context = "Ada Lovelace wrote the first program in 1843."
    found = roberta.answer("Who wrote it?", context, "squad", no_answer=False)
    bare = Answer(found.text, found.start, found.end, found.score)
    assert found == bare and hash(found) == hash(bare) and repr(found) == repr(bare)
    assert found.to_dict() == bare.to_dict() and pickle.dumps(found) == pickle.dumps(bare)
    for piece in ("Who wrote it?", context[: found.start], found.text):
        assert piece in found._repr_html_()
    again = pickle.loads(pickle.dumps(found))
    assert again == found and "Who wrote it?" not in again._repr_html_()
    with pytest.raises(InputTypeError, match=r"it has \.text, \.start, \.end, \.score, and"):
        found["text"]


def test_the_card_is_drawn_and_printed_as_before(roberta: RobertaHubInterface) -> None:
    html, text = roberta._repr_html_(), repr(roberta)
    assert text.startswith("RobertaHubInterface\n  weights       random weights\n")
    for line in text.splitlines()[1:]:
        assert line[2:15].strip() in html and line[16:].split(" (")[0] in html


def test_one_label_more_is_drawn_and_not_told(roberta: RobertaHubInterface) -> None:
    labels = ["art", "sport", "law", "food", "travel"]
    for count, more in ((3, ""), (4, ""), (5, "and 2 more labels")):
        found: Any = roberta.zero_shot(["a", "b"], labels[:count], head="mnli")
        html = found._repr_html_()
        assert html.count("<tr") == 2 * (3 if more else count)
        assert html.count(" more ") == (2 if more else 0) and more in html


def test_a_word_that_fits_with_and_without_a_space_is_told_apart() -> None:
    found: Any = [("a.", 0.5, "."), ("a .", 0.3, " ."), ("a b", 0.2, " b")]
    html = filled_words("a<mask>", [found])._repr_html_()
    assert html and html.count("after a space") == 1
    assert html.index("0.300") < html.index("after a space") < html.index("0.200")


def test_bars_of_a_contribution_have_the_scale_of_the_labels(roberta: RobertaHubInterface) -> None:
    display = roberta.explain(PAIR, "mnli")
    values = display.to_dict()
    largest = sorted((abs(word["contribution"]) for word in values["words"]), reverse=True)[:5]
    wanted = [*values["scores"].values(), *largest]
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", display._repr_html_())]
    assert widths == pytest.approx([100 * share for share in wanted], rel=1e-2)
    for sentence in ("in sentence 1", "in sentence 2"):
        assert sentence in str(roberta.explain(("a", "b"), "mnli"))
        assert sentence not in str(roberta.explain("a b", "grade"))


def test_a_map_says_what_its_strongest_shade_is(roberta: RobertaHubInterface) -> None:
    for which in ((1, 0), (1, None), (None, None)):
        display = roberta.attention("Hello world!", *which)
        panels = display.to_dict()["panels"]
        largest = [max(max(row) for row in panel["weights"]) for panel in panels]
        for weight in (min(largest), max(largest)):
            assert f"{weight:.2f}" in display._repr_html_().split("largest weight, here ")[1]


# ---- forms ----


def displays(roberta: RobertaHubInterface, text: str) -> dict[str, Display]:
    words = text.split()
    found: Any = roberta.search(text, [text, " ".join(words[:5])])
    masked = " ".join([*words[:3], "<mask>", *words[3:]])
    return {
        "surprise": roberta.explain(text),
        "contribution": roberta.explain(text, "grade"),
        "pieces": roberta.token_strip(text),
        "one map": roberta.attention(text, 1, 0),
        "all layers": roberta.attention(text),
        "words": roberta.fill_mask(masked),  # type: ignore[dict-item]
        "labels": roberta.classify([(text, text[:9])], "mnli"),  # type: ignore[dict-item]
        "spans": roberta.tag(text, "ner"),  # type: ignore[dict-item]
        "answer": roberta.answer("Who?", text, "squad", no_answer=False),  # type: ignore[dict-item]
        "hits": found,
        "card": roberta,  # type: ignore[dict-item]
    }


FORTY = (
    "The committee that was chosen in the spring of 1998 has met eleven times since then, twice in "
    "Geneva and nine times by telephone, and it has not decided what to do."
)


@pytest.mark.parametrize("text", [FORTY, "漢字 🙂 naïve שלום " * 2, "in-com-pre-hen-si-ble " * 3])
def test_forty_tokens_take_at_most_twenty_kilobytes(text: str) -> None:
    deep = small_roberta(
        heads={"grade": 1, "mnli": 3},
        num_layers=24,
        embed_dim=16,
        max_positions=80,
        labels={"mnli": NLI},
    )
    deep.register_token_head("ner", labels=["O", "B-PER"])
    deep.register_span_head("squad")
    count = len(deep.encode(text))
    assert 28 <= count <= 44
    for name, display in displays(deep, text).items():
        size = len(display._repr_html_().encode())
        assert size <= 500 * max(count, 40), f"{name}: {size} bytes of {count} tokens"


def test_text_fits_eighty_columns(roberta: RobertaHubInterface) -> None:
    for display in displays(roberta, FORTY).values():
        if isinstance(display, Display):
            assert repr(display) == str(display)
            assert max(map(width_of, str(display).splitlines())) <= 80


def test_values_are_plain_and_ones_own(roberta: RobertaHubInterface) -> None:
    shown = roberta.explain(PAIR, "mnli")
    values = json.loads(json.dumps(shown.to_dict()))
    assert values == shown.to_dict()
    shown.to_dict()["words"].clear()
    assert shown.to_dict() == values


# ---- pictures ----


@pytest.mark.system
def test_pictures_are_whole(roberta: RobertaHubInterface, tmp_path: Any) -> None:
    image = pytest.importorskip("matplotlib.image")
    for name, display in displays(roberta, FORTY + " It cost $5 and $x^2$.").items():
        if name == "card":
            continue
        path = tmp_path / f"{name}.png"
        picture = display.png(path)
        assert path.read_bytes() == picture and picture[:8] == b"\x89PNG\r\n\x1a\n"
        assert repr(picture) == str(picture) and "pixels" in repr(picture)
        data, size = picture._repr_png_()
        assert data == picture and size["width"] == picture.size[0] // 2
        pixels = image.imread(path)[..., :3]  # (height, width, 3)
        assert pixels.shape[:2] == picture.size[::-1]
        edge = 8  # nothing is drawn as far out as this, so nothing is clipped
        for side in (pixels[:edge], pixels[-edge:], pixels[:, :edge], pixels[:, -edge:]):
            assert bool((side == 1).all()), name
        assert float(pixels.mean()) < 1
        drawn = (pixels < 1).any(axis=(0, 2)).nonzero()[0]
        least = LEAST_SHEET_WIDTH / 72 * 192
        assert pixels.shape[1] - drawn[-1] < 50 or pixels.shape[1] < least + 1, name


def test_a_picture_that_cannot_be_made_or_written(
    roberta: RobertaHubInterface, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = roberta.token_strip("a")
    with pytest.raises(InputError, match="cannot be written"):
        shown.png(tmp_path)
    with pytest.raises(InputTypeError, match="path is 3"):
        shown.png(3)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(MissingExtraError, match="plots"):
        shown.png()
    assert shown._repr_html_() and str(shown)  # which need no matplotlib
