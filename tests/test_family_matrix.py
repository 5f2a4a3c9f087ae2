"""Every verb on every class of models, compared with transformers on the same weights.

The models are tiny and random (`families.py`). A cell that a class refuses asserts the sentence.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from families import KINDS, Head, theirs, write_family
from small_models import assert_close
from torch import Tensor

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.errors import CheckpointError, InputError, RobertaHubError
from roberta_hub.fairseq_bridge import from_fairseq, to_fairseq
from roberta_hub.inference.windows import fit_windows
from roberta_hub.train.config import compose
from roberta_hub.train.run import make_task, result, run

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

CLASSES: dict[str, tuple[str, Head]] = {
    "roberta": ("roberta", "lm"),
    "gottbert": ("gottbert", "lm"),
    "xlm-roberta": ("xlm-roberta", "lm"),
    "xlm-roberta-xl": ("xlm-roberta-xl", "lm"),
    "camembert": ("camembert", "lm"),
    "data2vec": ("data2vec-text", "lm"),
    "roberta-prelayernorm": ("roberta-prelayernorm", "lm"),
    "bert": ("bert", "pretraining"),
    "spanbert": ("bert-cased", "span"),
    "minilm": ("minilm", "bare"),
    "e5": ("e5", "bare"),
    "albert": ("albert", "pretraining"),
    "albert-groups": ("albert-groups", "lm"),
    "electra-discriminator": ("electra", "pretraining"),
    "electra-same": ("electra-same", "pretraining"),
    "electra-generator": ("electra-wide", "lm"),
    "distilbert": ("distilbert", "lm"),
}
"""Each class by a name of ours: the kind of `families.py`, and its head."""
LANGUAGE = {name for name, (_, head) in CLASSES.items() if head == "lm"} | {"bert", "albert"}
"""Classes with a language-model head."""
DISCRIMINATORS = {"electra-discriminator", "electra-same"}
SEGMENTS = {name for name, (kind, _) in CLASSES.items() if "oberta" not in KINDS[kind].prefix} - {
    "camembert",
    "data2vec",
    "e5",  # XLM-R's tokenizer gives no token types
    "distilbert",
}
"""Classes that tell the second sentence from the first by segments."""
FAIRSEQ = {
    "roberta",
    "gottbert",
    "xlm-roberta",
    "xlm-roberta-xl",
    "camembert",
    "data2vec",
    "roberta-prelayernorm",
}
"""Classes that fairseq's RoBERTa can be."""

TEXTS: list[str | tuple[str, ...]] = [
    "The train was late.",
    ("Where can I buy a ticket?", "In Berlin, tomorrow."),
    "",
    "A good book is worth more than a bad film, said the teacher.",
    "The train was late.",
    "J'aime le café, 今天 [MASK] <mask> </s>",
]
PLAIN = ["The train was late.", "Where can I buy a ticket?", "He was right, not wrong!"]
"""ASCII and no digits: every tokenizer of transformers agrees with its original here."""
LONG = " ".join(["The train from Hamburg was late, so we had coffee."] * 12)
"""More than twice the 64 tokens of the models."""
NLI = ("contradiction", "neutral", "entailment")
QUESTION, CONTEXT = "Where was the train?", "The train from Hamburg was late. We had coffee."


@dataclass
class Case:
    """A class of models, loaded by us and by transformers."""

    name: str
    directory: Path
    ours: RobertaHubInterface
    theirs: Any

    @property
    def kind(self) -> str:
        return CLASSES[self.name][0]

    def inputs(self, ids: Tensor) -> dict[str, Tensor]:
        """What transformers takes for one sequence."""
        found = {"input_ids": ids.unsqueeze(0)}
        if self.name in SEGMENTS:
            segments = self.ours.tokenizer.layout.segments(ids)
            found["token_type_ids"] = segments.unsqueeze(0)
        return found

    def run(self, ids: Tensor) -> Any:
        """transformers' encoder on one sequence, with all hidden states."""
        with torch.no_grad():
            return self.theirs.base_model(**self.inputs(ids), output_hidden_states=True)

    def states(self, ids: Tensor) -> Tensor:
        """(T, C)"""
        found: Tensor = self.run(ids).last_hidden_state[0]
        return found

    def log_probs(self, ids: Tensor) -> Tensor:
        """Of transformers' language-model head: (T, V)"""
        with torch.no_grad():
            out = self.theirs(**self.inputs(ids))
        logits: Tensor = out.logits if hasattr(out, "logits") else out.prediction_logits
        return logits[0].log_softmax(-1)


@pytest.fixture(scope="module", params=CLASSES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return made(request.param, tmp_path_factory.mktemp(request.param) / "model")


def made(name: str, directory: Path) -> Case:
    kind, head = CLASSES[name]
    write_family(kind, directory, head=head)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Case(name, directory, roberta_hub.load_model(directory).eval(), theirs(directory))


@pytest.fixture(scope="module")
def headed(case: Case) -> RobertaHubInterface:
    """The same model with a head of every kind, and no other."""
    return with_heads(case.ours)


def with_heads(roberta: RobertaHubInterface) -> RobertaHubInterface:
    own = copy.deepcopy(roberta)
    own.register_classification_head("nli", labels=NLI)
    own.register_classification_head("topic", labels=["art", "news"])
    own.register_classification_head("option", num_classes=1)
    own.register_token_head("ner", labels=["O", "B-PER", "I-PER"])
    own.register_span_head("squad")
    torch.manual_seed(3)
    with torch.no_grad():
        for heads in ("classification_heads", "token_heads", "span_heads"):
            for parameter in getattr(own.model, heads).parameters():
                parameter.copy_(0.3 * torch.randn(parameter.shape))
    return own.eval()


def ids_of(roberta: RobertaHubInterface, text: str | tuple[str, ...]) -> Tensor:
    return roberta.encode(*((text,) if isinstance(text, str) else text))


# ids and text


@pytest.mark.system
def test_ids(case: Case) -> None:
    roberta, tokenizer = case.ours, case.ours.tokenizer
    layout = tokenizer.layout
    together = roberta.encode_batch(TEXTS)
    for text, ids in zip(TEXTS, together, strict=True):
        assert ids.tolist() == ids_of(roberta, text).tolist()
        assert ids[0] == layout.bos and ids[-1] == layout.eos and layout.pad not in ids
        assert layout.mask not in ids  # no text writes a special token
        assert (ids == layout.eos).sum() == (
            1 + layout.separators if isinstance(text, tuple) else 1
        )
        if isinstance(text, str):
            pieces, spans = roberta.tokenize(text), roberta.offsets(text)
            assert len(pieces) == len(spans) == len(ids) - 2
            assert tokenizer.pieces(ids)[1:-1] == [
                piece if known else tokenizer.dictionary[layout.unk]
                for piece, known in zip(pieces, (ids[1:-1] != layout.unk).tolist(), strict=True)
            ]
            assert all(0 <= start <= end <= len(text) for start, end in spans)
            assert spans == sorted(spans)
    assert layout.separators == (1 if case.name in SEGMENTS | {"distilbert"} else 2)
    decoded = roberta.decode(roberta.encode(*PLAIN[:2]))
    assert [plain(text) for text in decoded] == [plain(text) for text in PLAIN[:2]]
    task = roberta.task
    assert task.mask_idx == tokenizer.mask_idx
    assert task.source_dictionary[task.mask_idx] in ("<mask>", "[MASK]")
    symbols = roberta.bpe.encode(PLAIN[0])
    looked_up = [task.source_dictionary.index(symbol) for symbol in symbols.split()]
    assert looked_up == roberta.encode(PLAIN[0])[1:-1].tolist()
    assert plain(roberta.bpe.decode(symbols)) == plain(PLAIN[0])
    begins = [roberta.bpe.is_beginning_of_word(symbol) for symbol in symbols.split()]
    assert begins == [tokenizer.beginnings[i].item() for i in looked_up]
    assert begins.count(True) >= 3


def plain(text: str) -> str:
    """Without case and blanks, which tokenizers lose."""
    return "".join(text.lower().split())


def test_ids_are_those_of_transformers(case: Case) -> None:
    if case.name == "roberta":  # its vocabulary is in the package
        assert case.ours.encode("Hello world!").tolist() == [0, 31414, 232, 328, 2]
        return
    import transformers

    settings = json.loads((case.directory / "tokenizer_config.json").read_text())
    peer = getattr(transformers, settings["tokenizer_class"]).from_pretrained(case.directory)
    for text in PLAIN:
        assert case.ours.encode(text).tolist() == peer(text)["input_ids"], text
    pair = case.ours.encode(*PLAIN[:2])
    found = peer(*PLAIN[:2], return_token_type_ids=True)
    assert pair.tolist() == found["input_ids"]
    if case.name in SEGMENTS:
        assert case.ours.tokenizer.layout.segments(pair).tolist() == found["token_type_ids"]


# hidden states


@pytest.mark.system
def test_features(case: Case) -> None:
    found = case.ours.features(TEXTS, batch_tokens=40)
    for text, own in zip(TEXTS, found, strict=True):
        ids = ids_of(case.ours, text)
        wanted = case.run(ids)
        assert_close(own, wanted.last_hidden_state[0])
        with torch.no_grad():
            assert_close(case.ours.extract_features(ids)[0], wanted.last_hidden_state[0])
            every = case.ours.extract_features(ids, return_all_hiddens=True)
        assert len(every) == len(wanted.hidden_states)
        for k, (ours, peer) in enumerate(zip(every[:-1], wanted.hidden_states, strict=False)):
            assert_close(ours[0], peer[0])
            assert_close(case.ours.features([text], layer=k)[0], peer[0])


def test_pooled_features(case: Case) -> None:
    states = [case.states(ids_of(case.ours, text)) for text in TEXTS]
    assert_close(case.ours.features(TEXTS, pooling="cls"), torch.stack([s[0] for s in states]))
    assert_close(
        case.ours.features(TEXTS, pooling="mean"), torch.stack([s.mean(0) for s in states])
    )
    assert case.ours.features([], pooling="mean").shape == (0, 32)
    pooler = getattr(case.theirs.base_model, "pooler", None)
    if pooler is None:
        with pytest.raises(InputError, match="pooler"):
            case.ours.features(TEXTS, pooling="pooler")
        return
    wanted = [case.run(ids_of(case.ours, text)).pooler_output[0] for text in TEXTS]
    assert_close(case.ours.features(TEXTS, pooling="pooler"), torch.stack(wanted))


def test_padding_on_the_right(case: Case) -> None:
    """A padded batch of the user's own, as transformers pads it."""
    rows = [ids_of(case.ours, text) for text in TEXTS]
    pad = case.ours.tokenizer.layout.pad
    batch = roberta_hub.collate_tokens(rows, pad_idx=pad)
    with torch.no_grad():
        found = case.ours.extract_features(batch)
    for row, ids in zip(found, rows, strict=True):
        assert_close(row[: len(ids)], case.states(ids))
        assert not row[len(ids) :].any()


def test_embeddings_and_search(case: Case) -> None:
    corpus = [text for text in TEXTS if isinstance(text, str)]
    vectors = case.ours.embed(corpus)
    assert vectors.shape == (len(corpus), 32)
    single = torch.stack([case.ours.embed(text) for text in corpus])
    assert_close(vectors, single)
    likeness = case.ours.similarity(vectors, vectors)
    wanted = torch.nn.functional.normalize(vectors, dim=1)
    assert_close(likeness, wanted @ wanted.t())
    for number, hits in enumerate(case.ours.search(corpus, corpus, topk=2)):
        assert len(hits) == 2 and hits[0].score == pytest.approx(1, abs=1e-4)
        assert corpus[hits[0].index] == corpus[number]


def test_words_have_features(case: Case) -> None:
    pytest.importorskip("spacy")
    text = "Nobody knew why the dog barked."
    states = case.states(case.ours.encode(text))
    with torch.no_grad():
        doc = case.ours.extract_features_aligned_to_words(text)
    assert [token.text for token in doc][1:-1] == [*text[:-1].split(), "."]
    # The words share the pieces out among themselves, but for blanks, so both have the same sum.
    spans = case.ours.offsets(text)
    rows = [1 + i for i, (start, end) in enumerate(spans) if text[start:end].strip()]
    wanted = states[[0, *rows, len(states) - 1]].sum(0)
    assert_close(torch.stack([token.vector for token in doc]).sum(0), wanted)
    own = [1 + i for i, (start, end) in enumerate(spans) if text[start:end].strip() == "dog"]
    if own:
        assert_close(doc[5].vector, states[own[0]])


# the language model, and the discriminator


def masked_of(case: Case, text: str) -> Tensor:
    """Ids by hand: both sides of the one mask apart, the mask between."""
    before, after = text.split("<mask>")
    sides = [case.ours.encode(side.rstrip())[1:-1] for side in (before, after)]
    layout = case.ours.tokenizer.layout
    marks = [torch.tensor([i]) for i in (layout.bos, layout.mask, layout.eos)]
    return torch.cat([marks[0], sides[0], marks[1], sides[1], marks[2]])


def refuses_language(case: Case, call: Any) -> bool:
    """Tell whether the class has no language model, and check that it says so."""
    if case.name in LANGUAGE:
        return False
    sentence = "load the generator" if case.name in DISCRIMINATORS else "load a masked-LM"
    with pytest.raises(InputError, match=f"no language-model head.*{sentence}"):
        call()
    return True


@pytest.mark.parametrize("text", ["The train was <mask>.", "<mask> was late", "The <mask> late."])
def test_fill_mask(case: Case, text: str) -> None:
    if refuses_language(case, lambda: case.ours.fill_mask(text)):
        return
    tokenizer = case.ours.tokenizer
    ids = masked_of(case, text)
    assert tokenizer.encode_masked(text).tolist() == ids.tolist()
    row = case.log_probs(ids)[ids == tokenizer.mask_idx][0].exp()[: len(tokenizer)]
    values, wanted = row.masked_fill(~tokenizer.words, -1).topk(5)
    found = case.ours.fill_mask(text)
    assert [word for _, _, word in found] == [tokenizer.decode_id(i) for i in wanted.tolist()]
    assert [value for _, value, _ in found] == pytest.approx(values.tolist(), rel=1e-3)
    before, after = text.split("<mask>")
    for (filled, _, word), i in zip(found, wanted.tolist(), strict=True):
        piece = tokenizer.pieces([i])[0]
        if KINDS[case.kind].tokenizer.startswith("wordpiece"):
            assert word == (piece[2:] if piece.startswith("##") else f" {piece}")
        if piece.startswith("▁"):
            assert word == " " + piece[1:]
        if before:
            assert filled == before.removesuffix(" ") + word + after
        else:
            assert filled.lstrip() == word.lstrip() + after
    own = tokenizer.dictionary[tokenizer.mask_idx]
    if own != "<mask>":
        assert case.ours.fill_mask(text.replace("<mask>", own)) == found
        both = case.ours.fill_mask(f"{own} was <mask>.", topk=1)
        assert len(both) == 2 and both[0][0][0].endswith("was <mask>.")
        assert both[1][0][0].startswith(own)
    else:
        with pytest.raises(InputError, match="has no mask"):
            case.ours.fill_mask("The train was [MASK].")


def test_targets_and_many_masks(case: Case) -> None:
    text = "The <mask> was <mask>."
    if refuses_language(case, lambda: case.ours.fill_mask(text)):
        return
    tokenizer = case.ours.tokenizer
    alone = [i for i in tokenizer.words.nonzero()[:, 0].tolist() if fits(tokenizer, i)][:3]
    words = [tokenizer.decode_id(i).strip() for i in alone]
    assert len(set(words)) == 3
    for own in case.ours.fill_mask(text, targets=words):
        assert {word.strip() for _, _, word in own} == set(words)
        values = [value for _, value, _ in own]
        assert values == sorted(values, reverse=True)
    texts = ["The <mask> was late", text, "a <mask>"]
    for single, found in zip(texts, case.ours.fill_mask(texts, batch_tokens=8), strict=True):
        again = case.ours.fill_mask(single)
        flat = [row for own in (found, again) for row in ([own] if len(own) == 5 else own)]
        half = len(flat) // 2
        for one, other in zip(flat[:half], flat[half:], strict=True):
            assert [w for _, _, w in one] == [w for _, _, w in other]
    if case.name in SEGMENTS:
        with pytest.raises(InputError, match=r"not in the vocabulary|pieces"):
            case.ours.fill_mask(text, targets=["ⵣ"])


def fits(tokenizer: Any, i: int) -> bool:
    """Tell whether a piece is what the tokenizer makes of its own text behind a space."""
    word = tokenizer.decode_id(i)
    return word[:1] == " " and word.strip().isalpha() and tokenizer.ids_of(word).tolist() == [i]


def test_score(case: Case) -> None:
    texts = ["The train was late.", ("He was right.", "She was wrong."), "a"]
    if refuses_language(case, lambda: case.ours.score(texts)):
        return
    layout = case.ours.tokenizer.layout
    wanted = []
    for text in texts:
        ids, total = ids_of(case.ours, text), 0.0
        for place, token in enumerate(ids.tolist()):
            if token not in (layout.bos, layout.eos):
                hidden = ids.clone()
                hidden[place] = layout.mask
                total += float(case.log_probs(hidden)[place, token])
        wanted.append(total)
    assert case.ours.score(texts) == pytest.approx(wanted, rel=1e-4)


def test_pronouns(case: Case) -> None:
    sentence = "The trophy would not fit in the suitcase because [it] was too big."
    candidates = ["the trophy", "the suitcase", "the old dog"]
    if refuses_language(case, lambda: case.ours.disambiguate_pronoun(sentence, candidates)):
        return
    scores = {}
    for candidate in candidates:
        text = sentence.replace("[it]", candidate)
        ids, spans = case.ours.encode(text), case.ours.offsets(text)
        first = sentence.index("[")
        places = [
            1 + i
            for i, (start, end) in enumerate(spans)
            if text[start:end].strip() and end > first and start < first + len(candidate)
        ]
        hidden = ids.clone()
        hidden[places] = case.ours.tokenizer.mask_idx
        rows = case.log_probs(hidden)[places]
        scores[candidate] = float(rows.gather(1, ids[places].unsqueeze(1)).mean())
    best = max(candidates, key=scores.__getitem__)
    assert case.ours.disambiguate_pronoun(sentence, candidates) == best


def test_replaced(case: Case) -> None:
    texts = [text for text in TEXTS if isinstance(text, str)]
    if case.name not in DISCRIMINATORS:
        with pytest.raises(InputError, match="ELECTRA's discriminators have one"):
            case.ours.replaced(texts)
        return
    found = case.ours.replaced(texts, batch_tokens=20)
    for text, own in zip(texts, found, strict=True):
        ids = case.ours.encode(text)
        with torch.no_grad():
            wanted = case.theirs(**case.inputs(ids)).logits[0].sigmoid()[1:-1]
        assert own == pytest.approx(wanted.tolist(), abs=1e-5)
        assert len(own) == len(case.ours.tokenize(text))
        assert case.ours.replaced(text) == pytest.approx(own, abs=1e-6)
    (pair,) = case.ours.replaced([("He was right.", "She was not.")])
    assert len(pair) == sum(len(case.ours.tokenize(t)) for t in ("He was right.", "She was not."))
    long = case.ours.replaced(LONG, stride=10)
    assert len(long) == len(case.ours.tokenize(LONG))


# heads


@pytest.mark.system
def test_classify(case: Case, headed: RobertaHubInterface) -> None:
    module = headed.model.classification_heads["topic"]
    found = headed.classify(TEXTS, "topic", batch_tokens=30)
    for text, prediction in zip(TEXTS, found, strict=True):
        ids = ids_of(headed, text)
        with torch.no_grad():
            wanted = module(case.states(ids)[:1].unsqueeze(0))[0].softmax(-1)
            assert_close(headed.predict("topic", ids)[0], wanted.log())
        scores = [prediction.scores[label] for label in ("art", "news")]
        assert scores == pytest.approx(wanted.tolist(), abs=1e-5)
    number = headed.classify("The train was late.", "option")
    with torch.no_grad():
        wanted = headed.model.classification_heads["option"](
            case.states(headed.encode("The train was late."))[:1].unsqueeze(0)
        )
    assert number.score == pytest.approx(float(wanted), abs=1e-5)


def test_zero_shot(case: Case, headed: RobertaHubInterface) -> None:
    labels, text = ["art", "coffee"], "The train was late."
    found = headed.zero_shot(text, labels, hypothesis="It is {}.")
    module, values = headed.model.classification_heads["nli"], []
    for label in labels:
        states = case.states(headed.encode(text, f"It is {label}."))
        with torch.no_grad():
            values.append(module(states[:1].unsqueeze(0))[0, 2])
    wanted = torch.stack(values).softmax(0).tolist()
    assert [found.scores[label] for label in labels] == pytest.approx(wanted, abs=1e-5)


def test_next_sentences(case: Case) -> None:
    """BERT's second pre-training head, and ALBERT's, judge pairs as classification heads."""
    heads = {"bert": ("nsp", ("is_next", "not_next")), "albert": ("sop", ("in_order", "swapped"))}
    if case.name not in heads:
        assert not {"nsp", "sop"} & {*case.ours.model.classification_heads}
        return
    head, labels = heads[case.name]
    assert case.ours.head_labels(head) == labels
    pair = ("Where can I buy a ticket?", "In Berlin, tomorrow.")
    ids = case.ours.encode(*pair)
    with torch.no_grad():
        out = case.theirs(**case.inputs(ids))
    logits = out.seq_relationship_logits if head == "nsp" else out.sop_logits
    with torch.no_grad():
        assert_close(case.ours.predict(head, ids), logits.log_softmax(-1))
    (found,) = case.ours.classify([pair], head)
    assert [found.scores[label] for label in labels] == pytest.approx(
        logits[0].softmax(-1).tolist(), abs=1e-5
    )


def test_tag(case: Case, headed: RobertaHubInterface) -> None:
    text = "Mary was in Berlin."
    (spans,) = headed.tag([text])
    states = case.states(headed.encode(text))
    with torch.no_grad():
        labels = headed.model.token_heads["ner"](states).argmax(-1).tolist()
    names = headed.head_labels("ner")
    words = [(0, 4), (5, 8), (9, 11), (12, 18), (18, 19)]
    tags = []
    offsets, marks_spaces = headed.offsets(text), "▁" in headed.tokenizer.engine.symbols
    for start, _ in words:
        piece = next(i for i, (_, end) in enumerate(offsets) if end > start)
        if marks_spaces and offsets[piece - 1] == (start - 1, start) and text[start - 1] == " ":
            piece -= 1  # the space before the word is a piece of its own, and of the word
        tags.append(names[labels[1 + piece]])
    covered = {place for span in spans for place in range(span.start, span.end)}
    assert [word[0] in covered for word in words] == [tag != "O" for tag in tags]
    assert all(text[span.start : span.end] == span.text for span in spans)


def test_choose(case: Case, headed: RobertaHubInterface) -> None:
    options, module, values = ["late", "in the garden", "Berlin"], None, []
    found = headed.choose("Where was the train?", options)
    module = headed.model.classification_heads["option"]
    for option in options:
        states = case.states(headed.encode("Where was the train?", option))
        with torch.no_grad():
            values.append(module(states[:1].unsqueeze(0))[0, 0])
    wanted = torch.stack(values).softmax(0).tolist()
    assert [found.scores[option] for option in options] == pytest.approx(wanted, abs=1e-5)


def test_answer(case: Case, headed: RobertaHubInterface) -> None:
    """transformers' way: the best pair of start and end in the context, against `[CLS]`."""
    ids = headed.encode(QUESTION, CONTEXT)
    with torch.no_grad():
        logits = headed.model.span_heads["squad"](case.states(ids))
    check_answer(headed, logits, "squad")


def test_spanbert_answers_as_transformers(case: Case) -> None:
    if case.name != "spanbert":
        with pytest.raises(RobertaHubError, match="needs a span head"):
            case.ours.answer(QUESTION, CONTEXT)
        return
    ids = case.ours.encode(QUESTION, CONTEXT)
    with torch.no_grad():
        out = case.theirs(**case.inputs(ids))
    check_answer(case.ours, torch.stack([out.start_logits[0], out.end_logits[0]], -1), None)


def check_answer(roberta: RobertaHubInterface, logits: Tensor, head: str | None) -> None:
    """Compare with a search written out, over logits of `<s> question </s> context </s>`."""
    spans = roberta.offsets(CONTEXT)
    column = len(logits) - 1 - len(spans)
    found = roberta.answer(QUESTION, CONTEXT, head, no_answer=False)
    pairs = [
        (float(logits[column + i, 0] + logits[column + j, 1]), i, j)
        for i in range(len(spans))
        for j in range(i, min(i + 30, len(spans)))
    ]
    best, first, last = max(pairs)
    wanted = CONTEXT[spans[first][0] : spans[last][1]].strip()
    assert found.text == wanted == CONTEXT[found.start : found.end]
    free = roberta.answer(QUESTION, CONTEXT, head)
    assert free.text == (wanted if best > float(logits[0].sum()) else "")


# long texts


def test_windows_of_features(case: Case) -> None:
    limit, layout = case.ours.max_positions, case.ours.tokenizer.layout
    whole = case.ours.encode(LONG)
    assert len(whole) > 2 * limit
    with pytest.raises(InputError, match=r"too long.*stride=N"):
        case.ours.features(LONG)
    found = case.ours.features(LONG, stride=10)
    first = torch.cat([whole[: limit - 1], whole[-1:]])
    last = torch.cat([whole[:1], whole[len(whole) - limit + 1 :]])
    assert found.shape == (len(whole), 32)
    half = limit // 2 - 2  # nearer to the text's end than to a cut
    assert_close(found[:half], case.states(first)[:half])
    assert_close(found[-half:], case.states(last)[-half:])
    cut = case.ours.features(LONG, truncate=True)
    assert_close(cut, case.states(first))
    assert int(first[-1]) == layout.eos


@pytest.mark.parametrize("order", ["long first", "long second"])
def test_windows_of_pairs_keep_their_segments(case: Case, order: str) -> None:
    """Each window has the other sentence whole, and the segments that transformers gives it."""
    short = "He was right."
    pair = (LONG, short) if order == "long first" else (short, LONG)
    limit, layout = case.ours.max_positions, case.ours.tokenizer.layout
    ids = case.ours.encode(*pair)
    a, b = (case.ours.encode(text)[1:-1] for text in pair)
    between = torch.full((layout.separators,), layout.eos)
    ends = torch.tensor([layout.eos])
    room = limit - len(ids) + max(len(a), len(b))
    found = case.ours.features([pair], stride=8)[0]
    assert len(found) == len(ids)
    for part in (slice(0, room), slice(-room, None)):
        own = (a[part], b) if order == "long first" else (a, b[part])
        window = torch.cat([ids[:1], own[0], between, own[1], ends])
        assert len(window) == limit
        wanted = case.states(window)
        start = 1 if order == "long first" else 1 + len(a) + len(between)
        inside = room // 2 - 1  # nearer to the sentence's end than to a cut
        if part.start == 0:
            assert_close(found[:1], wanted[:1])
            assert_close(found[start : start + inside], wanted[start : start + inside])
        else:
            length = len(a) if order == "long first" else len(b)
            end, stop = start + length, start + room
            assert_close(found[end - inside : end], wanted[stop - inside : stop])
            assert_close(found[-1:], wanted[-1:])
    cut = case.ours.features([pair], truncate=True)[0]
    assert len(cut) == limit


def test_windows_of_pairs_are_those_of_transformers(case: Case) -> None:
    """Its fast tokenizer's overflowing windows: the same ids and segments, but in the last one.

    Its last window is as short as what is left, ours is as long as the others.
    """
    if not KINDS[case.kind].tokenizer.startswith("wordpiece"):
        pytest.skip("transformers' SentencePiece and byte-level pairs have no segments")
    import transformers

    peer = transformers.BertTokenizer.from_pretrained(case.directory)
    limit, layout = case.ours.max_positions, case.ours.tokenizer.layout
    question = "Where was the train?"
    theirs_ = peer(
        question,
        LONG,
        truncation="only_second",
        max_length=limit,
        stride=8,
        return_overflowing_tokens=True,
    )
    (ours,) = fit_windows([case.ours.encode(question, LONG)], [""], limit, layout, stride=8)
    assert len(ours.ids) == len(theirs_["input_ids"]) > 2
    for window, ids, segments in zip(
        ours.ids[:-1], theirs_["input_ids"], theirs_["token_type_ids"], strict=False
    ):
        assert window.tolist() == ids
        assert layout.segments(window).tolist() == segments
    assert len(ours.ids[-1]) == limit
    assert ours.ids[-1].tolist()[-10:] == theirs_["input_ids"][-1][-10:]


def test_answers_in_windows(case: Case, headed: RobertaHubInterface) -> None:
    found = headed.answer(QUESTION, LONG, "squad", stride=10, no_answer=False)
    assert found.text and LONG[found.start : found.end] == found.text


# faster forms


@pytest.mark.parametrize("dtype", [None, "int8", "bfloat16"])
def test_optimize(case: Case, dtype: Any) -> None:
    own = copy.deepcopy(case.ours)
    plain = case.ours.features(TEXTS, pooling="mean")
    try:
        own.optimize(dtype)
    except InputError as error:
        assert dtype is not None and "than float32" in str(error)
        return
    fast = own.features(TEXTS, pooling="mean")
    if dtype is None:
        assert_close(fast, plain, 2e-5)
        if case.name in LANGUAGE:
            text = "The train was <mask>."
            ours, wanted = own.fill_mask(text), case.ours.fill_mask(text)
            assert [w for _, _, w in ours] == [w for _, _, w in wanted]
            assert [p for _, p, _ in ours] == pytest.approx([p for _, p, _ in wanted], rel=1e-3)
    else:
        assert torch.cosine_similarity(fast, plain).min() > 0.98
    again = own.features(TEXTS, pooling="mean", batch_tokens=20)
    assert_close(again, fast, 2e-5 if dtype is None else 0.1)


# saving


@pytest.fixture(scope="module")
def saved(headed: RobertaHubInterface, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ours") / "model"
    headed.save(folder)
    return folder


def same(ours: RobertaHubInterface, again: RobertaHubInterface, heads: bool = True) -> None:
    """Both give the same numbers and have the same heads."""
    assert again.family == ours.family
    assert [ids.tolist() for ids in again.encode_batch(TEXTS)] == [
        ids.tolist() for ids in ours.encode_batch(TEXTS)
    ]
    assert_close(again.features(TEXTS, pooling="mean"), ours.features(TEXTS, pooling="mean"), 1e-6)
    if heads:
        found, wanted = (m.classify(TEXTS, "topic") for m in (again, ours))
        for one, other in zip(found, wanted, strict=True):
            assert dict(one.scores) == pytest.approx(dict(other.scores), abs=1e-6)


@pytest.mark.system
def test_our_format(case: Case, headed: RobertaHubInterface, saved: Path) -> None:
    again = roberta_hub.load_model(saved).eval()
    same(headed, again)
    assert [s.label for s in again.tag("Mary was in Berlin.")] == [
        s.label for s in headed.tag("Mary was in Berlin.")
    ]
    assert again.answer(QUESTION, CONTEXT, "squad") == headed.answer(QUESTION, CONTEXT, "squad")
    if case.name in LANGUAGE:
        assert again.score("It was late.") == pytest.approx(headed.score("It was late."), rel=1e-5)
    if case.name in DISCRIMINATORS:
        assert again.replaced("It was late.") == pytest.approx(headed.replaced("It was late."))
    scanned(saved / "model.safetensors")


@pytest.mark.system
def test_huggingface_format(case: Case, headed: RobertaHubInterface, tmp_path: Path) -> None:
    """The same class comes out, without a head of ours; every key fits."""
    case.ours.save(tmp_path / "same", "huggingface")
    peer = theirs(tmp_path / "same")
    assert type(peer) is type(case.theirs)
    for text in TEXTS[:3]:
        ids = ids_of(case.ours, text)
        with torch.no_grad():
            assert_close(peer.base_model(**case.inputs(ids)).last_hidden_state[0], case.states(ids))
    again = roberta_hub.load_model(tmp_path / "same").eval()
    same(case.ours, again, heads=False)
    scanned(tmp_path / "same/model.safetensors")


@pytest.mark.system
def test_huggingface_heads(case: Case, headed: RobertaHubInterface, tmp_path: Path) -> None:
    """A sentence head leaves as the family's own classifier, beside the language-model head."""
    headed.save(tmp_path / "topic", "huggingface", head="topic")
    peer = theirs(tmp_path / "topic", ("lm_head.", "predictions.", "cls.", "generator_", "vocab_"))
    assert type(peer).__name__ == f"{KINDS[case.kind].prefix}ForSequenceClassification"
    again = roberta_hub.load_model(tmp_path / "topic").eval()
    for text in TEXTS[:3]:
        ids = ids_of(headed, text)
        with torch.no_grad():
            wanted = headed.predict("topic", ids, return_logits=True)
            assert_close(peer(**case.inputs(ids)).logits, wanted)
        scores = dict(headed.classify([text], "topic")[0].scores)
        assert dict(again.classify([text])[0].scores) == pytest.approx(scores, abs=1e-5)


@pytest.mark.system
def test_fairseq_format(case: Case, headed: RobertaHubInterface, tmp_path: Path) -> None:
    own = case.ours
    if case.name not in FAIRSEQ:
        with pytest.raises(CheckpointError, match="fairseq"):
            own.save(tmp_path / "fairseq", "fairseq")
        return
    plain = copy.deepcopy(own)
    plain.register_classification_head("topic", labels=["art", "news"])
    plain.eval().save(tmp_path / "fairseq", "fairseq")
    again = roberta_hub.load_model(tmp_path / "fairseq").eval()
    assert_close(again.features(TEXTS, pooling="mean"), own.features(TEXTS, pooling="mean"), 1e-6)
    assert again.encode(PLAIN[0]).tolist() == own.encode(PLAIN[0]).tolist()
    assert again.head_labels("topic") == ("art", "news")
    scanned(tmp_path / "fairseq/model.pt")


@pytest.mark.system
def test_to_fairseq_and_back(case: Case, tmp_path: Path) -> None:
    """Real fairseq's model gives the same features; what it cannot hold is refused."""
    if case.name not in FAIRSEQ:
        with pytest.raises(CheckpointError, match="fairseq"):
            to_fairseq(case.ours)
        return
    if importlib.util.find_spec("fairseq") is None:
        pytest.skip("no fairseq")
    moved = to_fairseq(case.ours).eval()
    if case.name != "roberta":  # whose own would be downloaded
        moved.bpe = fairseq_bpe(case, tmp_path)
    again = from_fairseq(moved).eval()
    assert type(again.bpe) is type(case.ours.bpe)
    for text in (TEXTS[0], TEXTS[3]):
        ids = case.ours.encode(text)
        assert moved.encode(text).tolist() == ids.tolist() == again.encode(text).tolist()
        with torch.no_grad():
            wanted = case.ours.extract_features(ids)
            assert_close(moved.extract_features(ids), wanted)
            assert_close(again.extract_features(ids), wanted, 1e-6)
    told_apart = case.name not in ("data2vec", "roberta-prelayernorm")  # in fairseq all is RoBERTa
    assert again.family == (case.ours.family if told_apart else "roberta")
    moved.bpe = object()
    with pytest.raises(InputError, match="fairseq's object cuts texts here"):
        from_fairseq(moved)


def fairseq_bpe(case: Case, folder: Path) -> Any:
    """What cuts texts in real fairseq, with the numbers that the model's dictionary names."""
    from fairseq.data.encoders.hf_byte_bpe import HuggingFaceByteLevelBPE
    from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE

    if (model := case.directory / "sentencepiece.bpe.model").is_file():
        return SentencepieceBPE(
            SimpleNamespace(
                sentencepiece_model=str(model),
                sentencepiece_enable_sampling=False,
                sentencepiece_alpha=None,
            )
        )
    pytest.importorskip("tokenizers")
    for name, data in case.ours.bpe.fairseq_files().items():
        (folder / name).write_bytes(data)
    vocab, merges = (str(folder / name) for name in ("encoder.json", "vocab.bpe"))
    return HuggingFaceByteLevelBPE(
        SimpleNamespace(bpe_vocab=vocab, bpe_merges=merges, bpe_add_prefix_space=False)
    )


def scanned(path: Path) -> None:
    from roberta_hub.shell.scan import scan_files

    assert scan_files([path]) == 0


# training

ROWS = {
    "classification": ("tsv", "sentence\tlabel", ["The film was good\tyes", "He was wrong\tno"]),
    "regression": (
        "tsv",
        "sentence\tsentence2\tlabel",
        ["The dog\tA dog\t0.9", "The train\tA film\t0.1"],
    ),
    "multi_label": ("tsv", "sentence\tlabel", ["The old dog\told,animal", "The train\told"]),
    "tokens": ("conll", "", ["Mary B-PER\nwas O\n", "in O\nBerlin B-LOC\n"]),
    "span": (
        "jsonl",
        "",
        [
            {"question": "Where?", "context": "It was in Berlin.", "answers": ["Berlin"]},
            {"question": "Who?", "context": "It was late.", "answers": []},
        ],
    ),
    "choice": (
        "jsonl",
        "",
        [
            {"context": "The train", "options": ["was late", "was a dog"], "answer": 0},
            {"context": "The dog", "options": ["was a film", "barked"], "answer": 1},
        ],
    ),
    "winogrande": (
        "jsonl",
        "",
        [
            {
                "sentence": "The dog saw the house because _ was big.",
                "option1": "the dog",
                "option2": "the house",
                "answer": "2",
            }
        ]
        * 2,
    ),
    "masked_lm": ("txt", "", ["The train was late.", "He was right, and she was not."]),
    "replaced_tokens": ("txt", "", ["The train was late.", "He was right, and she was not."]),
}
"""A few examples for each task."""
TASKS = [*ROWS, "rehearsal"]
RUNS = [
    pytest.param(
        name,
        task,
        id=f"{name}-{task}",
        marks=[] if (i - 3 * j) % 7 == 0 else [pytest.mark.slow],
    )
    for i, name in enumerate(CLASSES)
    for j, task in enumerate(TASKS)
]
"""Every class learns every task; a part of them in each run of the tests."""


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Directories of models to begin with, made when first asked for."""

    class Made(dict[str, Path]):
        def __missing__(self, name: str) -> Path:
            kind, head = CLASSES[name]
            self[name] = write_family(kind, tmp_path_factory.mktemp("start") / name, head=head)
            return self[name]

    yield Made()


def written(folder: Path, task: str) -> Path:
    """Write the examples of a task."""
    suffix, header, rows = ROWS[task]
    path = folder / f"{task}.{suffix}"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(([header] if header else []) + lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.system
@pytest.mark.parametrize(("name", "task"), RUNS)
def test_training(name: str, task: str, starts: dict[str, Path], tmp_path: Path) -> None:
    """Two updates from the class, saved and loaded again with its family."""
    learns = "classification" if task == "rehearsal" else task
    data = written(tmp_path, learns)
    settings = [
        f"model={starts[name]}",
        f"task.name={learns}",
        f"data.train={data}",
        f"output={tmp_path}/run",
        "optimizer.lr=1e-3",
        "batch.batch_size=2",
        "loop.max_updates=2",
        "loop.progress=false",
        "seed=1",
    ]
    if task == "regression":
        settings.append("data.columns={sentence: sentence, sentence2: sentence2, label: label}")
    if "masked" in task or task == "replaced_tokens":
        settings.append("task.options.block_size=16")
    if task == "rehearsal":
        settings.append(f"task.options.rehearse={written(tmp_path, 'masked_lm')}")
    config = compose(settings)
    needs_lm = task in ("masked_lm", "rehearsal", "winogrande")
    sentence = (
        "no language-model head" if needs_lm and name not in LANGUAGE else
        "not continued" if task == "replaced_tokens" and name in DISCRIMINATORS else None
    )  # fmt: skip
    if sentence is not None:
        with pytest.raises(InputError, match=sentence):
            run(config)
        return
    before = roberta_hub.load_model(starts[name])
    trained = result(run(config)).eval()
    assert trained.family == before.family
    assert trained.tokenizer.layout == before.tokenizer.layout
    assert type(trained.bpe) is type(before.bpe)
    first, after = (dict(m.model.named_parameters()) for m in (before, trained))
    embedding = "encoder.sentence_encoder.embed_tokens.weight"
    assert not torch.equal(first[embedding], after[embedding])
    assert all(parameter.isfinite().all() for parameter in after.values())
    trained.save(tmp_path / "again")
    again = roberta_hub.load_model(tmp_path / "again").eval()
    assert_close(
        again.features(TEXTS, pooling="mean"), trained.features(TEXTS, pooling="mean"), 1e-6
    )
    asked(trained, again, learns)


def asked(trained: RobertaHubInterface, again: RobertaHubInterface, task: str) -> None:
    """The verb of the task answers, and as before once saved and loaded."""
    for roberta in (trained, again):
        head = roberta.default_head
        if task in ("classification", "multi_label"):
            assert set(roberta.classify("The dog").scores) == set(roberta.head_labels(head))
        elif task == "regression":
            assert isinstance(roberta.classify([("The dog", "A dog")])[0].score, float)
        elif task == "tokens":
            roberta.tag("Mary was in Berlin.")
        elif task == "span":
            roberta.answer("Where?", "It was in Berlin.")
        elif task == "choice":
            assert roberta.choose("The train", ["was late", "was a dog"]).label
        elif task == "masked_lm":
            assert roberta.score("The train was late.") < 0
        elif task == "winogrande":
            candidates = ["the dog", "the house"]
            assert roberta.disambiguate_pronoun("He saw it because [it] was big.", candidates)
        elif task == "replaced_tokens":
            assert roberta.default_head == "replaced"


@pytest.mark.parametrize("name", ["bert", "albert", "electra-generator", "xlm-roberta"])
def test_an_informed_start_from_random_weights(
    name: str, starts: dict[str, Path], tmp_path: Path
) -> None:
    """The shapes of every embedding form fit; loading with random weights needs a name."""
    data = written(tmp_path, "masked_lm")
    settings = [
        f"model={starts[name]}",
        "task.name=masked_lm",
        "task.options.block_size=16",
        "task.options.start=matching",
        f"data.train={data}",
        f"output={tmp_path}/run",
        "loop.max_updates=2",
        "loop.progress=false",
    ]
    task = make_task(compose(settings))
    assert all(p.isfinite().all() for p in task.finish().model.parameters())
