"""Tiny random models of RoBERTa's relatives, as transformers saves them, with tiny tokenizers.

    write_family("bert", directory)                      a BertForMaskedLM and its vocab.txt
    write_family("electra", directory, head="pretraining")      a discriminator
    write_family("albert", directory, num_hidden_layers=2, num_hidden_groups=1)

The vocabularies are of our own making: byte pairs counted here, words listed here, SentencePiece
models trained here on the sentences below. The same call writes the same bytes.
"""

from __future__ import annotations

import functools
import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

Head = Literal["lm", "bare", "pretraining", "sentence", "tokens", "span", "choice"]

SENTENCES = (
    "The train from Hamburg was late, so we had 2 cups of coffee.",
    "Nobody knew why the dog barked at the old letter box.",
    "She reads the news in English, German and French every morning.",
    "A good book is worth more than a bad film, said the teacher.",
    "It was raining when they walked home over the bridge.",
    "In 1987, the town had 4,512 houses and one small school.",
    "He didn't know whether the answer was right or wrong.",
    "The children were playing football in the garden behind the house.",
    "Where can I buy a ticket to Berlin for tomorrow?",
    "The trophy would not fit in the suitcase because it was too big.",
    "Mary's dog (a brown one) has been running, sleeping and eating.",
    "This film is wonderful; I would watch it again!",
    "Der Zug aus Hamburg war zu spät, also tranken wir zwei Tassen Kaffee.",
    "Gott sei Dank ist das Wetter heute schön und warm.",
    "Die Kinder spielen im Garten hinter dem großen Haus.",
    "Niemand wusste, warum der Hund den alten Briefkasten anbellte.",
    "J'aime le fromage et le pain, surtout le dimanche matin.",
    "Le train de Paris était en retard, et nous avons bu un café.",
    "L'été dernier, les élèves ont visité un château près de la forêt.",
    "Il ne savait pas où était la réponse.",
    "El perro viejo duerme en la casa pequeña de mi abuela.",
    "Mañana vamos a comprar dos billetes para Madrid.",
    "Поезд из Москвы опоздал, и мы выпили кофе.",
    "Собака спит в старом доме.",
    "今天天气很好，我们去公园。",
    "火车晚点了，所以我们喝咖啡。",
    "あの犬は古い家で寝ています。",
    "नमस्ते दुनिया, आज मौसम अच्छा है।",
    "مرحبا بالعالم، القطار متأخر اليوم.",
    "สวัสดีชาวโลก วันนี้อากาศดี",
)
"""What the vocabularies are made from; texts of our own."""

WORDS = (
    "a about again all and answer are at bad barked because been behind berlin big book box bridge "
    "brown buy can children coffee cups day did dog eating english every film fit football for "
    "french from garden german good great had hamburg has have he hello home house houses i in is "
    "it know late letter mary more morning new news no not of old on one or over paris play reads "
    "right said school she sleep sleeping small so suitcase teacher than the they this ticket to "
    "too tomorrow town train trophy walk was watch we were when where whether why wonder world "
    "worth would wrong york you "
)
"""Whole words of the WordPiece vocabulary, with blanks between."""

ENDINGS = ("ed", "er", "est", "ful", "ing", "ly", "ment", "ness", "s", "t")
"""Its `##` pieces beside single characters."""

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 66,
}
"""Of every model, unless the caller says otherwise: 64 tokens fit where padding is 1, else 66."""


DISTILBERT = {
    "hidden_size": "dim",
    "intermediate_size": "hidden_dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
}
"""What DistilBERT's config calls them."""


@dataclass(frozen=True)
class Kind:
    """A class of models: transformers' name, its tokenizer and what its config says besides."""

    prefix: str
    """How transformers' classes begin."""
    tokenizer: str
    """A function below that writes the files and returns rows and special ids."""
    config: dict[str, Any]
    head: Head = "lm"
    """What `write_family` gives it, unless the caller says otherwise."""


KINDS = {
    "roberta": Kind("Roberta", "shipped", {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "gottbert": Kind("Roberta", "bytes", {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "xlm-roberta": Kind("XLMRoberta", "xlmr", {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "xlm-roberta-xl": Kind("XLMRobertaXL", "xlmr", {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "camembert": Kind("Camembert", "camembert", {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "data2vec-text": Kind("Data2VecText", "bytes", {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "roberta-prelayernorm": Kind(
        "RobertaPreLayerNorm", "bytes", {"type_vocab_size": 1, "layer_norm_eps": 1e-5}
    ),
    "bert": Kind("Bert", "wordpiece", {}),
    "bert-cased": Kind("Bert", "wordpiece_cased", {}),
    "minilm": Kind("Bert", "wordpiece", {}, "bare"),
    "e5": Kind("Bert", "xlmr", {}, "bare"),
    "albert": Kind("Albert", "albert", {"embedding_size": 16, "hidden_act": "gelu_new"}),
    "albert-groups": Kind(
        "Albert", "albert", {"embedding_size": 16, "num_hidden_layers": 6, "num_hidden_groups": 3}
    ),
    "electra": Kind("Electra", "wordpiece", {"embedding_size": 16}),
    "electra-same": Kind("Electra", "wordpiece", {"embedding_size": 32}),
    "electra-wide": Kind("Electra", "wordpiece", {"embedding_size": 48}),
    "distilbert": Kind("DistilBert", "wordpiece_distil", {}),
}
"""Every class of models; "e5" is a BERT body with XLM-R's vocabulary."""

SUFFIXES: dict[Head, str] = {
    "lm": "ForMaskedLM",
    "bare": "Model",
    "pretraining": "ForPreTraining",
    "sentence": "ForSequenceClassification",
    "tokens": "ForTokenClassification",
    "span": "ForQuestionAnswering",
    "choice": "ForMultipleChoice",
}
"""How the name of transformers' class ends; ForPreTraining: BERT's next sentence, ALBERT's order,
ELECTRA's discriminator."""


def class_name(kind: str, head: Head) -> str:
    """Name transformers' class: "BertForMaskedLM"."""
    return KINDS[kind].prefix + SUFFIXES[head]


def write_family(
    kind: str, directory: Path, *, head: Head | None = None, seed: int = 0, **sizes: Any
) -> Path:
    """Write a tiny random model and its tokenizer as a Hugging Face directory.

    Args:
        kind: of `KINDS`.
        directory: made if missing.
        head: of `SUFFIXES`; None: the kind's own.
        seed: of the weights, none of which is zero or one.
        sizes: fields of transformers' config, such as `num_labels=1` or `vocab_size=...`.

    Returns:
        The directory.
    """
    transformers = pytest.importorskip("transformers")
    import torch

    transformers.utils.logging.disable_progress_bar()
    described = KINDS[kind]
    directory.mkdir(parents=True, exist_ok=True)
    special = globals()[f"write_{described.tokenizer}"](directory)
    settings = {**SIZES, **special, **described.config, **sizes}
    if (head or described.head) in ("sentence", "tokens"):
        settings = {"num_labels": 3, **settings}
    if described.prefix == "DistilBert":
        settings = {DISTILBERT.get(name, name): value for name, value in settings.items()}
    config = getattr(transformers, f"{described.prefix}Config")(**settings)
    torch.manual_seed(seed)
    model = getattr(transformers, class_name(kind, head or described.head))(config)
    randomise(model, seed)
    model.save_pretrained(directory)
    return directory


def randomise(model: Any, seed: int, std: float = 0.15) -> None:
    """Draw every parameter anew: norm weights lie around 1, all else around 0."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            module, _, kind = name.lower().rpartition(".")  # a family may have "norm" in its name
            neutral = 1.0 if "norm" in module.rpartition(".")[2] and kind == "weight" else 0.0
            parameter.copy_(neutral + std * torch.randn(parameter.shape, generator=generator))


def theirs(directory: Path, beside: tuple[str, ...] = ()) -> Any:
    """Return transformers' model of a directory, in eval mode; every key must fit.

    Args:
        directory: of Hugging Face's layout.
        beside: how the names of keys begin that may be there without a place.
    """
    transformers = pytest.importorskip("transformers")
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    transformers.utils.logging.disable_progress_bar()
    kind = getattr(transformers, config["architectures"][0])
    model, info = kind.from_pretrained(directory, output_loading_info=True)
    info["unexpected_keys"] = [k for k in info["unexpected_keys"] if not k.startswith(beside)]
    odd = {key: found for key, found in info.items() if found}
    assert not odd, odd
    return model.eval()


# Tokenizers. Each function writes files and returns what the config says of the ids.


def write_shipped(directory: Path) -> dict[str, Any]:
    """RoBERTa's own vocabulary needs no files."""
    return {"vocab_size": 50265}


def write_bytes(directory: Path) -> dict[str, Any]:
    """A byte-level BPE as GottBERT's: vocab.json and merges.txt."""
    alphabet, merges = byte_pairs(120)
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *alphabet, *(a + b for a, b in merges), "<mask>"]
    _json(directory / "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    lines = ["#version: 0.2", *(f"{a} {b}" for a, b in merges)]
    (directory / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _settings(directory, "RobertaTokenizer", add_prefix_space=False)
    return {"vocab_size": len(pieces)}


def write_wordpiece(directory: Path, *, cased: bool = False) -> dict[str, Any]:
    """A WordPiece vocabulary as BERT's: vocab.txt, one token a line."""
    tokens = word_pieces(cased=cased)
    (directory / "vocab.txt").write_text("".join(f"{t}\n" for t in tokens), encoding="utf-8")
    _settings(directory, "BertTokenizer", do_lower_case=not cased)
    return {"vocab_size": len(tokens), "pad_token_id": 0}


def write_wordpiece_cased(directory: Path) -> dict[str, Any]:
    """The same with capitals."""
    return write_wordpiece(directory, cased=True)


def write_wordpiece_distil(directory: Path) -> dict[str, Any]:
    """The same under the class that gives no token types."""
    special = write_wordpiece(directory)
    _settings(directory, "DistilBertTokenizer", do_lower_case=True)
    return special


def write_xlmr(directory: Path) -> dict[str, Any]:
    """A unigram model as XLM-R's: ids are the file's and one, `<mask>` comes last."""
    model, count = sentencepiece_model("xlmr")
    (directory / "sentencepiece.bpe.model").write_bytes(model)
    _settings(directory, "XLMRobertaTokenizer")
    return {"vocab_size": count + 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}


def write_camembert(directory: Path) -> dict[str, Any]:
    """A unigram model as CamemBERT's: `<s>` and `</s>` at 5 and 6, ids are the file's and four."""
    model, count = sentencepiece_model("xlmr")
    (directory / "sentencepiece.bpe.model").write_bytes(model)
    _settings(directory, "CamembertTokenizer")
    return {"vocab_size": count + 5, "pad_token_id": 1, "bos_token_id": 5, "eos_token_id": 6}


def write_albert(directory: Path) -> dict[str, Any]:
    """A unigram model as ALBERT's: ids are the file's, the specials among them."""
    model, count = sentencepiece_model("albert")
    (directory / "spiece.model").write_bytes(model)
    _settings(directory, "AlbertTokenizer", do_lower_case=True, keep_accents=False)
    return {"vocab_size": count, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}


def word_pieces(*, cased: bool = False) -> list[str]:
    """Return a WordPiece vocabulary: specials, characters, words, endings.

    Example:
        >>> word_pieces()[:6]
        ['[PAD]', '[unused0]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
    """
    letters = [chr(i) for i in range(33, 127) if cased or not chr(i).isupper()]
    other = sorted({c for line in SENTENCES for c in line.lower() if ord(c) > 126 and c.isalnum()})
    single = [c for c in letters if c.isalnum()] + other
    words = WORDS.split()
    words = sorted({*words, *map(str.capitalize, words)} if cased else words)
    tokens = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *other]
    tokens += [f"##{c}" for c in [*single, *ENDINGS]] + [w for w in words if len(w) > 1]
    return list(dict.fromkeys(tokens))


@functools.cache
def byte_pairs(count: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Return GPT-2's byte alphabet and the pairs most frequent in `SENTENCES`, as merges."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    odd = [byte for byte in range(256) if byte not in kept]
    shown = {byte: chr(byte) for byte in kept} | {b: chr(256 + n) for n, b in enumerate(odd)}
    words: Counter[tuple[str, ...]] = Counter()
    for line in SENTENCES:
        for n, word in enumerate(line.split(" ")):
            words[tuple(shown[b] for b in (" " * bool(n) + word).encode())] += 1
    merges: list[tuple[str, str]] = []
    for _ in range(count):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, times in words.items():
            for pair in zip(word, word[1:], strict=False):
                pairs[pair] += times
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = Counter({tuple(_merged(word, best)): times for word, times in words.items()})
    return [shown[byte] for byte in [*kept, *odd]], merges


def _merged(word: tuple[str, ...], pair: tuple[str, str]) -> Iterator[str]:
    i = 0
    while i < len(word):
        both = word[i : i + 2] == pair
        yield "".join(pair) if both else word[i]
        i += 1 + both


@functools.cache
def sentencepiece_model(kind: str) -> tuple[bytes, int]:
    """Train a unigram model on `SENTENCES`; return the file and how many pieces it has.

    Args:
        kind: "xlmr": `<unk>`, `<s>`, `</s>` come first; "albert": `<pad>`, `<unk>`, and `[CLS]`,
            `[SEP]`, `[MASK]` as control symbols.
    """
    sentencepiece = pytest.importorskip("sentencepiece")
    settings: dict[str, Any] = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}
    if kind == "albert":
        settings = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
        settings["control_symbols"] = ["[CLS]", "[SEP]", "[MASK]"]
        settings["user_defined_symbols"] = ["(", ")", '"', "-", ".", "–", "£", "€"]
    lines = [line.lower() for line in SENTENCES] if kind == "albert" else SENTENCES
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=file,
        model_type="unigram",
        vocab_size=420,
        hard_vocab_limit=False,
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
        **settings,
    )
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(file.getvalue())
    return file.getvalue(), processor.get_piece_size()


def _settings(directory: Path, kind: str, **settings: Any) -> None:
    _json(directory / "tokenizer_config.json", {"tokenizer_class": kind, **settings})


def _json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
