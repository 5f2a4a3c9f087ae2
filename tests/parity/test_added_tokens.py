"""A user's own tokens are one id where transformers makes them one, in every family and file.

The folders are transformers' own, of `save_pretrained`, or the older files that it still reads.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import families
import pytest
import torch

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.errors import InputError, InputTypeError, VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.formats.tokenizer_files import tokenizer_files
from roberta_hub.inference.tag import words_and_pieces
from roberta_hub.text import Tokenizer
from roberta_hub.text.added_token import AddedToken, is_word_at
from roberta_hub.text.alignment import align
from roberta_hub.text.huggingface import read_tokenizer

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_transformers]

KINDS = {
    "roberta": "roberta",
    "gottbert": "roberta",
    "bert": "bert",
    "bert-cased": "bert",
    "electra": "electra",
    "distilbert": "distilbert",
    "xlm-roberta": "xlm-roberta",
    "camembert": "camembert",
    "albert": "albert",
}
"""Of `families.KINDS`, and the `model_type` of each."""
WORDS = ["newword", "Foo", "the", "covid-19", "é", "New York", "公园", "x y ", "2024", "ing", "dog"]
MARKERS = ["[E1]", "[WORLD]", "<e>"]
TEXTS = [
    "",
    " ",
    "Hello [E1] world",
    "Hello[E1]world[WORLD] .",
    "[E1][WORLD]  [E1]",
    "a newword, newwords and anewword",
    "foo FOO Foofoo the dog",
    "covid-19 Covid-19 COVID - 19 in 2024 é É e\u0301t",
    "to New York  new york NEWYORK",
    "今天我们去公园吧 x y  z",
    "<e>ﬁlm<e>\n\tＡ [e1]",
]
ALPHABET = [*"abcdefoxyzéß ABE\t\n[]1.,!-公园ﬁ", *WORDS, *MARKERS, "  "]


def folder_of(kind: str, folder: Path) -> Path:
    """A tokenizer of a family, in the files of its own kind."""
    folder.mkdir(parents=True)
    getattr(families, f"write_{families.KINDS[kind].tokenizer}")(folder)
    if kind == "roberta":  # its tables are in the package
        for name, data in tokenizer_files(Tokenizer.shipped(), 512).items():
            (folder / name).write_bytes(data)
        (folder / "tokenizer.json").unlink()
    if kind == "electra":
        change(folder / "tokenizer_config.json", tokenizer_class="ElectraTokenizer")
    write(folder / "config.json", {"model_type": KINDS[kind]})
    return folder


def write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def change(path: Path, **values: object) -> None:
    about = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    write(path, {**about, **values})


def theirs_in(folder: Path) -> Any:
    import transformers

    return transformers.AutoTokenizer.from_pretrained(folder)


def ours_in(folder: Path) -> Tokenizer:
    found = read_tokenizer(Folder(folder))
    assert found is not None
    return Tokenizer(*found)


def texts(seed: int, count: int = 60) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices(ALPHABET, k=rng.randint(1, 12))) for _ in range(count)]


def compare(folder: Path, lines: list[str]) -> tuple[Any, Tokenizer]:
    """Ids, batches and spans of each line; then the text of the ids."""
    theirs, ours = theirs_in(folder), ours_in(folder)
    assert len(theirs) == len(ours)
    control = {ours.layout.bos, ours.layout.eos}
    for line, ids in zip(lines, ours.encode_batch(lines), strict=True):
        wanted = theirs(line)["input_ids"]
        assert ours.encode(line).tolist() == ids.tolist() == wanted, (line, ours.tokenize(line))
        assert theirs(line, "b")["input_ids"] == ours.encode(line, "b").tolist()
        spans = ours.offsets(line)
        assert len(spans) == len(wanted) - 2
        assert all(0 <= start <= end <= len(line) for start, end in spans)
        kept = [i for i in wanted if i not in control]
        if "é" not in line.lower() and "公" not in line and ours.layout.unk not in kept:
            # Of 'é' a byte-level decoder of theirs makes half a character.
            assert str(ours.decode(kept)).strip() == theirs.decode(kept).strip()
    return theirs, ours


def added(theirs: Any, folder: Path, rng: random.Random) -> Path:
    """Add words and markers of every kind to a tokenizer, and save it."""
    from tokenizers import AddedToken as Theirs

    def flags() -> dict[str, bool]:
        names = ("lstrip", "rstrip", "single_word")
        return {name: rng.random() < 0.25 for name in names} | {"normalized": rng.random() < 0.6}

    theirs.add_tokens([Theirs(word, **flags()) for word in rng.sample(WORDS, 6)])
    markers = [Theirs(word, **flags()) if rng.random() < 0.5 else word for word in MARKERS]
    theirs.add_special_tokens({"additional_special_tokens": markers})
    theirs.save_pretrained(folder)
    return folder


def tokenizer_json(folder: Path, saved: Path, theirs: Any) -> None:
    for path in saved.iterdir():
        shutil.copy(path, folder)


def alone(folder: Path, saved: Path, theirs: Any) -> None:
    for path in folder.iterdir():
        if path.name != "config.json":
            path.unlink()
    tokenizer_json(folder, saved, theirs)


def in_settings(folder: Path, saved: Path, theirs: Any) -> None:
    about = json.loads((saved / "tokenizer_config.json").read_text(encoding="utf-8"))
    found = theirs.added_tokens_decoder.items()
    about["added_tokens_decoder"] = {str(number): dict(own.__getstate__()) for number, own in found}
    write(folder / "tokenizer_config.json", about)


def in_words(folder: Path, saved: Path, theirs: Any) -> None:
    found = theirs.added_tokens_decoder.items()
    write(folder / "added_tokens.json", {own.content: number for number, own in found})


def everywhere(folder: Path, saved: Path, theirs: Any) -> None:
    for layout in (tokenizer_json, in_settings, in_words):
        layout(folder, saved, theirs)


def words_and_specials(folder: Path, saved: Path, theirs: Any) -> None:
    in_words(folder, saved, theirs)
    change(folder / "tokenizer_config.json", additional_special_tokens=MARKERS)


def without_ids(folder: Path, saved: Path, theirs: Any) -> None:
    change(folder / "tokenizer_config.json", extra_special_tokens=MARKERS)


LAYOUTS: list[Callable[[Path, Path, Any], None]] = [
    tokenizer_json,
    alone,
    in_settings,
    in_words,
    everywhere,
    words_and_specials,
    without_ids,
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_that_lists_them(kind: str, tmp_path: Path) -> None:
    for seed, layout in enumerate(LAYOUTS):
        folder = folder_of(kind, tmp_path / layout.__name__)
        theirs = theirs_in(folder)
        saved = added(theirs, tmp_path / f"{layout.__name__} saved", random.Random(seed))
        layout(folder, saved, theirs)
        if kind == "albert" and layout is without_ids:
            continue  # of a .model alone they cut ".", "(": see docs/reference/differences.md
        compare(folder, [*TEXTS, *texts(seed, 20)])


@pytest.mark.parametrize("kind", KINDS)
def test_what_we_write_is_read_by_both(kind: str, tmp_path: Path) -> None:
    folder = folder_of(kind, tmp_path / "a")
    theirs = theirs_in(folder)
    alone(folder, added(theirs, tmp_path / "saved", random.Random(kind)), theirs)
    first = ours_in(folder)
    (tmp_path / "b").mkdir()
    for name, data in tokenizer_files(first, 512).items():
        (tmp_path / "b" / name).write_bytes(data)
    write(tmp_path / "b" / "config.json", {"model_type": KINDS[kind]})
    lines = [*TEXTS, *texts(7)]
    _, again = compare(tmp_path / "b", lines)
    assert again.engine.fingerprint == first.engine.fingerprint
    for line in lines:
        assert again.encode(line).tolist() == first.encode(line).tolist()


def test_no_text_writes_a_control_token(tmp_path: Path) -> None:
    words = ("<s>", "</s>", "<pad>", "<unk>", "<mask>", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
    for kind in KINDS:
        folder = folder_of(kind, tmp_path / kind)
        theirs = theirs_in(folder)
        alone(folder, added(theirs, tmp_path / f"{kind} saved", random.Random(1)), theirs)
        ours = ours_in(folder)
        layout = ours.layout
        control = {layout.bos, layout.eos, layout.pad, layout.mask}
        for word in words:
            assert control.isdisjoint(ours.encode(f"a {word}[E1]{word}")[1:-1].tolist())
        assert ours.encode_masked("the <mask> [E1]").tolist().count(layout.mask) == 1


def test_single_words_end_where_tokenizers_ends_them() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]")
    rust = tokenizers.Tokenizer(model)
    rust.add_tokens([tokenizers.AddedToken("foo", single_word=True)])
    for code in [*range(0x3000), *range(0xFF00, 0xFFF0), 0x1F600, 0x1F130, 0x20000, 0x10FFFF]:
        letter = chr(code)
        if letter.isprintable() or code < 0x2100:  # unassigned ones differ with Unicode's version
            found = 1 in rust.encode(f"foo{letter}").ids
            assert is_word_at(letter, 0) != found or not letter.isprintable(), hex(code)


# ---- add_tokens ----


@pytest.mark.parametrize("kind", [*KINDS, "xlm-roberta-xl", "e5"])
def test_add_tokens_grows_vocabulary_and_tables_together(kind: str, tmp_path: Path) -> None:
    model = load_model(families.write_family(kind, tmp_path / "a")).eval()
    count, rows = len(model.tokenizer), model.model.config.vocab_size
    before = model.features("the dog")
    new = model.add_tokens(["[E1]", "[/E1]"], special=True) + model.add_tokens(["newword", "2024"])
    assert new == len(model.tokenizer) - count == 4
    assert model.model.config.vocab_size == max(rows, count + 4)
    assert model.add_tokens("[E1]", special=True) == 0
    assert torch.equal(before, model.features("the dog"))
    lines = ["Hello [E1]world[/E1] a newword", "in 2024newword [E1] [/E1]x", "the dog"]
    ids = [model.encode(line) for line in lines]
    assert [len(set(own.tolist()) & set(range(count, count + 4))) for own in ids] == [3, 4, 0]
    for format in ("roberta_hub", "huggingface", "fairseq"):
        if format == "fairseq" and KINDS.get(kind, kind) not in (
            "roberta",
            "xlm-roberta",
            "camembert",
        ):
            continue
        model.save(tmp_path / format, format=format)  # type: ignore[arg-type]
        again = load_model(tmp_path / format).eval()
        for line, own in zip(lines, ids, strict=True):
            assert again.encode(line).tolist() == own.tolist()
            assert again.decode(own) == model.decode(own)
            torch.testing.assert_close(again.features(line), model.features(line))
        assert again.add_tokens("newword") == 0 and again.add_tokens("another one") == 1
    theirs = theirs_in(tmp_path / "huggingface")
    assert [theirs(line)["input_ids"] for line in lines] == [own.tolist() for own in ids]
    peer = families.theirs(tmp_path / "huggingface")
    with torch.no_grad():
        states = peer(ids[0][None], output_hidden_states=True).hidden_states[-1][0]
    torch.testing.assert_close(states, model.features(lines[0]), atol=1e-5, rtol=1e-5)


@pytest.fixture
def tiny(tmp_path: Path) -> RobertaHubInterface:
    return load_model(families.write_family("gottbert", tmp_path / "tiny"))


def test_new_rows_are_means_with_noise_of_their_own(tiny: RobertaHubInterface) -> None:
    table = tiny.model.transformer.embed_tokens.weight.detach().clone()
    bias = tiny.model.encoder.lm_head.bias.detach().clone()
    start, pad = len(table), tiny.tokenizer.layout.pad
    tiny.add_tokens(["[A]", "[B]"])
    grown, grown_bias = tiny.model.transformer.embed_tokens.weight, tiny.model.encoder.lm_head.bias
    others = torch.arange(start) != pad
    assert torch.equal(grown[:start], table) and torch.equal(grown_bias[:start], bias)
    noise = grown[start:] - table[others].mean(0)
    assert 0.01 < noise.std() < 0.03 and not torch.equal(noise[0], noise[1])
    torch.testing.assert_close(grown_bias[start:], bias[others].mean().expand(2))
    assert tiny.model.encoder.lm_head.weight is grown  # still tied
    assert tiny.fill_mask("the <mask>", topk=3)


def test_a_marker_is_learnt(tiny: RobertaHubInterface) -> None:
    tiny.add_tokens(["[GOOD]", "[BAD]"], special=True)
    tiny.register_classification_head("mood", labels=["good", "bad"])
    optimizer = torch.optim.Adam(tiny.parameters(), lr=3e-3)
    lines = [
        (f"the {word} {mark} dog", n) for n, mark in enumerate(("[GOOD]", "[BAD]")) for word in "ab"
    ]
    tiny.train()
    for _ in range(30):
        loss = torch.stack(
            [
                torch.nn.functional.nll_loss(
                    tiny.predict("mood", tiny.encode(line)), torch.tensor([n])
                )
                for line, n in lines
            ]
        ).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    tiny.eval()
    assert [tiny.classify(line, "mood").label for line, _ in lines] == [
        "good",
        "good",
        "bad",
        "bad",
    ]


def test_what_cannot_be_added(tiny: RobertaHubInterface) -> None:
    size = len(tiny.tokenizer)
    for words, error in (
        ("<s>", InputError),
        (["a", "<mask>"], InputError),
        ([""], InputError),
        ([3], InputTypeError),
        (5, InputTypeError),
    ):
        with pytest.raises(error):
            tiny.add_tokens(words)  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="lstrip is 1"):
        tiny.add_tokens("x", lstrip=1)  # type: ignore[arg-type]
    assert tiny.add_tokens([]) == 0 and len(tiny.tokenizer) == size
    tiny.eval().optimize()
    with pytest.raises(InputError, match="add tokens first"):
        tiny.add_tokens("[E1]")


@pytest.mark.parametrize("kind", ["gottbert", "xlm-roberta", "bert"])
def test_words_that_no_line_holds(kind: str, tmp_path: Path) -> None:
    model = load_model(families.write_family(kind, tmp_path / "a"))
    words = ["two\nlines", "\n", "2024", "▁x", "end "]
    assert model.add_tokens(words, normalized=False) == 5
    text = "the\ntwo\nlines 2024▁xend end  the"
    count = len(model.tokenizer)
    assert len(set(model.encode(text).tolist()) & set(range(count - 5, count))) == 5
    for format in ("roberta_hub", "huggingface", *(["fairseq"] if kind != "bert" else [])):
        model.save(tmp_path / format, format=format)  # type: ignore[arg-type]
        assert load_model(tmp_path / format).encode(text).tolist() == model.encode(text).tolist()
    assert theirs_in(tmp_path / "huggingface")(text)["input_ids"] == model.encode(text).tolist()


@peers.needs_fairseq
def test_fairseq_loads_the_grown_model(tiny: RobertaHubInterface, tmp_path: Path) -> None:
    model = load_model(families.write_family("roberta", tmp_path / "a")).eval()
    model.add_tokens("[E1]")
    model.save(tmp_path / "fairseq", format="fairseq")
    theirs = peers.hub_interface(tmp_path / "fairseq")
    dictionary = theirs.task.source_dictionary
    ids = model.encode("the [E1]dog")
    assert dictionary.index("[E1]") == len(dictionary) - 1 == ids.max()
    assert theirs.task.mask_idx == model.task.mask_idx == 50264
    with torch.no_grad():
        wanted = model.model(ids[None])[0]
        torch.testing.assert_close(theirs.model(ids[None])[0], wanted, atol=1e-5, rtol=1e-5)


def test_an_answer_ends_without_the_blanks_of_a_marker(tmp_path: Path) -> None:
    """White space after a marker belongs to it, and not to an answer."""
    model = load_model(families.write_family("bert", tmp_path, head="span")).eval()
    model.add_tokens("[E1]", rstrip=True, lstrip=True)
    context = "was late  [E1]  the dog"
    answers = model.answer("who", context, topk=40, no_answer=False)
    assert len(answers) > 8 and any(own.text.endswith("[E1]") for own in answers)
    for own in answers:
        assert own.text == context[own.start : own.end] == own.text.strip()
    assert len({(own.start, own.end) for own in answers}) == len(answers)


# ---- folders that say little ----


def test_albert_of_tokenizer_json_alone(tmp_path: Path) -> None:
    """Its user-defined symbols are added tokens there: "(", "-" and so on."""
    folder = folder_of("albert", tmp_path / "a")
    theirs = theirs_in(folder)
    theirs.save_pretrained(tmp_path / "saved")
    alone(folder, tmp_path / "saved", theirs)
    _, ours = compare(folder, [*TEXTS, "the(dog)-a. £5 - (b)"])
    assert ours.tokenize("the(dog)") == ["▁the", "(", "▁do", "g", ")"]


@pytest.mark.parametrize("said", [None, 0, 3])
def test_berts_vocabulary_says_which_id_is_padding(said: int | None, tmp_path: Path) -> None:
    folder = families.write_family("bert", tmp_path / "a")
    names = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    names[:6] = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[unused0]", "[MASK]"]
    (folder / "vocab.txt").write_text("\n".join(names), encoding="utf-8")
    config = json.loads((folder / "config.json").read_text())
    config.pop("sep_token_id", None)
    config["pad_token_id"] = said
    if said is None:
        del config["pad_token_id"]
    write(folder / "config.json", config)
    ours, peer = load_model(folder).eval(), families.theirs(folder)
    assert ours.tokenizer.layout.pad == ours.model.config.padding_idx == 3
    assert ours.model.config.separator_idx == 2
    pair = theirs_in(folder)("the dog", "a house", return_tensors="pt")
    assert ours.encode("the dog", "a house").tolist() == pair["input_ids"][0].tolist()
    with torch.no_grad():
        wanted = peer(**pair).logits
        torch.testing.assert_close(ours.model(pair["input_ids"])[0], wanted, atol=1e-5, rtol=1e-5)
    for format in ("roberta_hub", "huggingface"):
        ours.save(tmp_path / format, format=format)  # type: ignore[arg-type]
        again = load_model(tmp_path / format).eval()
        torch.testing.assert_close(again.features("the dog"), ours.features("the dog"))


def test_a_robertas_padding_must_agree(tmp_path: Path) -> None:
    folder = families.write_family("gottbert", tmp_path / "a")
    config = json.loads((folder / "config.json").read_text())
    write(folder / "config.json", {**config, "pad_token_id": 0, "max_position_embeddings": 65})
    with pytest.raises((VocabularyError, ValueError)):
        load_model(folder)


def test_display_and_alignment_have_whole_tokens(tiny: RobertaHubInterface) -> None:
    tiny.add_tokens(["[E1]", "[/E1]"], special=True)
    text = "Hello [E1]Mary[/E1]."
    extents = [(6, 10), (10, 14), (14, 19)]
    marker, name, end = align(tiny.tokenizer, text, extents)
    pieces = tiny.tokenizer.pieces(tiny.encode(text))
    assert [pieces[i] for i in marker] == ["[E1]"] and [pieces[i] for i in end] == ["[/E1]"]
    assert "".join(pieces[i] for i in name) == "Mary"
    assert tiny.decode(tiny.encode(text)) == text
    assert "[E1]" in str(tiny.token_strip(text))
    words, own = words_and_pieces(tiny.tokenizer, text, "words", "word")
    assert [text[start:end] for start, end in words] == ["Hello", "[E1]", "Mary", "[/E1]", "."]
    assert own[1] == marker and own[2] == name
    assert AddedToken("[E1]").entry["content"] == "[E1]"


def test_the_blank_before_a_mask_belongs_to_it(tmp_path: Path) -> None:
    """Whatever `lstrip` of the mask says: the answer is that of a folder where it is true."""
    import transformers

    folder = families.write_family("gottbert", tmp_path)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    text, found = "The train was <mask> today.", {}
    for lstrip in (True, False):
        for name in ("tokenizer.json", "tokenizer_config.json"):
            path = folder / name
            content = json.loads(path.read_text())
            if name == "tokenizer.json":
                for token in content["added_tokens"]:
                    token["lstrip"] = lstrip and token["content"] == "<mask>"
            else:
                content["mask_token"] = {
                    "__type": "AddedToken",
                    "content": "<mask>",
                    "lstrip": lstrip,
                    "normalized": False,
                    "special": True,
                }
            path.write_text(json.dumps(content))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad():
            logits = model(ids).logits[ids == tokenizer.mask_token_id][0]
        theirs = float(logits.softmax(-1).max())
        found[lstrip] = theirs, load_model(folder).eval().fill_mask(text, topk=1)[0][1]
    assert found[True][1] == found[False][1] == pytest.approx(found[True][0], rel=1e-5)
    assert found[False][0] != pytest.approx(found[True][0], rel=1e-3)  # so the key counts there
