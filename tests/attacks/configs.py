"""JSON that describes a model: ours, Hugging Face's, their tokenizers and shard indexes.

Rows 23 to 37.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .bench import Attack
from .material import directory, huggingface_files, ours_files

BUILD = "build_from_json"
NAN, INFINITY = float("nan"), float("inf")


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def theirs(name: str, reason: str, naive: str = "", harm: str = "", **fields: Any) -> Attack:
    config = {**json.loads(huggingface_files()["config.json"]), **fields}
    make = directory(huggingface_files(), config__json=json.dumps(config).encode())
    return Attack(f"Hugging Face: {name}", 27, make, reason, naive, harm)


def ours(name: str, reason: str, naive: str = "", harm: str = "", **fields: Any) -> Attack:
    config = json.loads(ours_files()["config.json"])
    config["model"] |= fields
    make = directory(ours_files(), config__json=json.dumps(config).encode())
    return Attack(f"ours: {name}", 27, make, reason, naive, harm)


def about(name: str, reason: str, **fields: Any) -> Attack:
    """Fields of our config.json beside the model's."""
    config = {**json.loads(ours_files()["config.json"]), **fields}
    make = directory(ours_files(), config__json=json.dumps(config).encode())
    return Attack(f"ours: {name}", 23, make, reason)


def text(name: str, content: str | bytes, reason: str, naive: str = "", harm: str = "") -> Attack:
    data = content.encode() if isinstance(content, str) else content
    make = directory(ours_files(), config__json=data)
    return Attack(f"config.json: {name}", 23, make, reason, naive, harm)


TYPE, LIES = "must be of type", "must lie in"
MODELS = [
    theirs("a vocabulary of 10**400", LIES, BUILD, "crashes", vocab_size=10**400),
    theirs(
        "sizes of terabytes",
        "vocab_size in config.json is 1000000000",
        BUILD,
        "fills memory",
        vocab_size=10**9,
        hidden_size=10**9,
        num_attention_heads=1,
    ),
    theirs(
        "a billion positions",
        "max_position_embeddings in config.json is 1000000000",
        BUILD,
        "fills memory",
        max_position_embeddings=10**9,
    ),
    theirs("a billion layers", LIES, BUILD, "hangs", num_hidden_layers=10**9),
    theirs("a thousand layers", "num_hidden_layers in config.json is 1000", num_hidden_layers=1000),
    ours("a thousand layers", "are missing", num_layers=1000),
    ours("a billion positions", "has shape", BUILD, "fills memory", max_positions=10**9),
    theirs("a width of 1e308", TYPE, BUILD, "crashes", hidden_size=1e308),
    theirs("a width of nothing", LIES, hidden_size=0),
    theirs("a width below nothing", LIES, BUILD, "crashes", hidden_size=-4),
    theirs("no heads", LIES, num_attention_heads=0),
    theirs("more heads than width", "multiple", num_attention_heads=8),
    theirs("a width that is text", TYPE, BUILD, "crashes", hidden_size="4"),
    theirs("a width that is true", TYPE, hidden_size=True),
    theirs("padding that is a list", "TypeError", pad_token_id=[]),
    theirs("padding behind the vocabulary", "outside", pad_token_id=8, max_position_embeddings=20),
    theirs("padding below nothing", "outside", pad_token_id=-1),
    theirs("an epsilon that is no number", LIES, layer_norm_eps=NAN),
    theirs("an epsilon without end", LIES, layer_norm_eps=INFINITY),
    theirs("a dropout that is no number", "probability", hidden_dropout_prob=NAN),
    theirs("a dropout of 1e308", "probability", attention_probs_dropout_prob=1e308),
    theirs("an activation that is a list", "not supported", hidden_act=["gelu"]),
    theirs("an activation that is code", "not supported", hidden_act="__import__('os')"),
    theirs("another model's type", "model_type is", model_type={"a": 1}),
    theirs("a decoder", "decoders", is_decoder=True),
    ours("a vocabulary of 10**400", LIES, BUILD, "crashes", vocab_size=10**400),
    ours(
        "sizes of terabytes",
        "has shape|are missing",
        BUILD,
        "fills memory",
        embed_dim=10**9,
        ffn_dim=10**9,
        max_positions=10**9,
        num_heads=1,
    ),
    ours("a billion layers", LIES, BUILD, "hangs", num_layers=10**9),
    ours(
        "a billion shared layers of none",
        "num_unique_layers",
        num_layers=0,
        num_unique_layers=10**9,
    ),
    ours("shared layers below nothing", "num_unique_layers", num_unique_layers=-1),
    ours("a factor of 10**18", "embedding_dim", embedding_dim=10**18),
    ours("a field that is none", "unexpected keyword", __class__="x"),
    ours(
        "an activation that is a name of Python's",
        "no activation function",
        activation_fn="__class__",
    ),
    ours("an activation that is none", TYPE, activation_fn=None),
    ours("a switch that is a number", TYPE, lm_head=1),
    ours("layers kept that are a number", "not iterable", layers_to_keep=5),
    about("labels that are a list", "not a configuration", labels=[1, 2]),
    about("labels that are numbers", "not a configuration", labels={"mnli": 5}),
    about("a model that is a list", "not a configuration", model=[1]),
    about("a version of text", "format version", version="1"),
    about("a version of 10**400", "format version", version=10**400),
    about("another format", "model_type is None", format=["roberta_hub"]),
]

TEXTS = [
    text("deep lists", nested(200_000), "not readable JSON", BUILD, "crashes"),
    text("deep objects", '{"a":' * 200_000, "not readable JSON", BUILD, "crashes"),
    text(
        "a number of a million digits",
        '{"format":' + "9" * 1_000_000 + "}",
        "not readable JSON",
        BUILD,
        "crashes",
    ),
    text("11 MB", " " * 11_000_000 + "{}", "larger than 10,000,000 bytes"),
    text("a list", "[]", "expected a JSON object", BUILD, "crashes"),
    text("empty", "", "not readable JSON", BUILD, "crashes"),
    text("not UTF-8", b'{"a": "\xff"}', "not readable JSON", BUILD, "crashes"),
    text("UTF-16", '{"format": "roberta_hub"}'.encode("utf-16"), "not readable JSON"),
    text("a byte order mark", b"\xef\xbb\xbf{}", "model_type is None", BUILD, "crashes"),
    text(
        "a name twice, the second hostile",
        '{"format": "roberta_hub", "format": "x"}',
        "model_type is None",
    ),
    text("half a surrogate pair", '{"model_type": "\\ud800"}', "model_type is"),
    text("nothing but lists", "[" + "[]," * 2_000_000 + "[]]", "expected a JSON object"),
    *(
        text(
            f"lists in a version, {depth} deep",
            f'{{"format": "roberta_hub", "version": {nested(depth)}}}',
            "format version|not readable",
        )
        for depth in (500, 900, 960, 970, 980, 990, 1000)
    ),
    *(
        text(
            f"lists in an activation, {depth} deep",
            f'{{"model_type": "roberta", "hidden_act": {nested(depth)}}}',
            "not supported|not readable",
        )
        for depth in (900, 960, 970, 980, 990)
    ),
]


def tokenizer(
    name: str, row: int, reason: str, naive: str = "", harm: str = "", **files: str
) -> Attack:
    """A sound Hugging Face model beside these tokenizer files."""
    data = {key: value.encode(errors="surrogatepass") for key, value in files.items()}
    return Attack(
        f"tokenizer: {name}", row, directory(huggingface_files(), **data), reason, naive, harm
    )


NO_BPE, IDS, V = "holds no byte-level BPE", "the ids are not", "#version: 0.2\n"
NO_ADDED = "lists no added tokens"
SPECIALS = '"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3'
DOUBLING = V + "".join(f"{'a' * 2**i} {'a' * 2**i}\n" for i in range(21))
CLIMBING = V + "".join(f"{'a' * i} a\n" for i in range(1, 2500))

TOKENIZERS = [
    tokenizer(
        "an id of 5000 digits",
        35,
        "not readable JSON",
        vocab__json='{"a": ' + "9" * 5000 + "}",
        merges__txt=V,
    ),
    tokenizer("an id that is a list", 35, IDS, vocab__json='{"a": [0]}', merges__txt=V),
    tokenizer("an id that is true", 35, IDS, vocab__json='{"a": true}', merges__txt=V),
    tokenizer(
        "ids with a hole", 35, IDS, vocab__json=f'{{{SPECIALS}, "a": 10000000000}}', merges__txt=V
    ),
    tokenizer("an id below nothing", 35, IDS, vocab__json='{"a": -1}', merges__txt=V),
    tokenizer("deep lists", 35, "not readable JSON", vocab__json=nested(200_000), merges__txt=V),
    tokenizer(
        "no specials",
        35,
        "ids 0 to 3",
        vocab__json='{"a": 0, "b": 1, "c": 2, "d": 3}',
        merges__txt=V,
    ),
    tokenizer(
        "a piece that is half a surrogate pair",
        35,
        "symbols and the embedding|ids 0 to 3",
        vocab__json='{"\\ud800": 0}',
        merges__txt=V,
    ),
    tokenizer(
        "30 MB of vocabulary",
        36,
        "the limit",
        vocab__json='{"a": "' + "b" * (30 << 20) + '"}',
        merges__txt=V,
    ),
    tokenizer(
        "30 MB of merges", 36, "the limit", vocab__json="{}", merges__txt=V + "a b\n" * (8 << 20)
    ),
    tokenizer("a merge of three", 35, "is no merge", vocab__json="{}", merges__txt=V + "a b c\n"),
    tokenizer(
        "a merge of letters that are no bytes",
        35,
        "is no merge",
        vocab__json="{}",
        merges__txt=V + "a \u2603\n",
    ),
    tokenizer(
        "a merge twice", 35, "the same token", vocab__json="{}", merges__txt=V + "a b\na b\n"
    ),
    tokenizer(
        "a merge that cannot be", 35, "cannot follow", vocab__json="{}", merges__txt=V + "ab cd\n"
    ),
    tokenizer(
        "merges that double to a megabyte",
        43,
        "too long",
        "merge_all",
        "hangs",
        vocab__json="{}",
        merges__txt=DOUBLING,
    ),
    tokenizer(
        "merges that climb",
        43,
        "too long|cannot follow",
        "merge_all",
        "hangs",
        vocab__json="{}",
        merges__txt=CLIMBING,
    ),
    tokenizer(
        "a million merges",
        43,
        "too long|cannot follow|same token",
        vocab__json="{}",
        merges__txt=V + "a b\n" * 1_000_000,
    ),
    tokenizer("tokenizer.json that is a list", 35, "expected a JSON object", tokenizer__json="[]"),
    tokenizer("tokenizer.json without a model", 35, NO_BPE, tokenizer__json="{}"),
    tokenizer(
        "tokenizer.json with merges of numbers",
        35,
        NO_BPE,
        tokenizer__json='{"model": {"vocab": {"a": 0}, "merges": [[1, 2]]}}',
    ),
    tokenizer(
        "tokenizer.json with merges of one",
        35,
        NO_BPE,
        tokenizer__json='{"model": {"vocab": {"a": 0}, "merges": ["a"]}}',
    ),
    tokenizer(
        "tokenizer.json with added tokens of no kind",
        35,
        NO_ADDED,
        tokenizer__json='{"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", '
        '"vocab": {}, "merges": []}, "added_tokens": 5}',
    ),
    tokenizer(
        "tokenizer.json with an unhashable token",
        35,
        r"added token \[\]: a token is a text",
        tokenizer__json='{"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", '
        '"vocab": {}, "merges": []}, "added_tokens": [{"content": [], "id": 0}]}',
    ),
    tokenizer(
        "tokenizer.json of a unigram model",
        35,
        "holds no unigram model",
        tokenizer__json='{"model": {"type": "Unigram", "vocab": [["a", 0.5]]}}',
    ),
    tokenizer(
        "tokenizer.json with an id of 5000 digits",
        35,
        "not readable JSON",
        tokenizer__json='{"model": {"vocab": {"a": ' + "9" * 5000 + '}, "merges": []}}',
    ),
]


def index(name: str, shards: Any, reason: str, naive: str = "", harm: str = "") -> Attack:
    """A sharded model with this weight map; a file of secrets lies outside its directory."""

    def make(folder: Path) -> Path:
        (folder / "secret").write_bytes(huggingface_files()["model.safetensors"])
        files = {k: v for k, v in huggingface_files().items() if k != "model.safetensors"}
        files["model.safetensors.index.json"] = json.dumps({"weight_map": shards}).encode()
        return directory(files)(folder)

    return Attack(f"index: {name}", 17, make, reason, naive, harm)


PLAIN = "is not a plain file name"
INDEXES = [
    index("..", {"w": "../secret"}, PLAIN, "read_index", "accepts"),
    index("absolute", {"w": "/etc/passwd"}, PLAIN, "read_index", "accepts"),
    index(".. within", {"w": "a/../../secret"}, PLAIN),
    index("the folder itself", {"w": "."}, f"{PLAIN}|not a readable", "read_index", "crashes"),
    index("the folder above", {"w": ".."}, f"{PLAIN}|not a readable", "read_index", "crashes"),
    index("no name", {"w": ""}, f"{PLAIN}|not a readable", "read_index", "crashes"),
    index("NUL", {"w": "a\0b"}, "not a readable", "read_index", "crashes"),
    index("half a surrogate pair", {"w": "\ud800"}, "not a readable|not found"),
    index("a name of a megabyte", {"w": "a" * (1 << 20)}, PLAIN),
    index("a name that is a number", {"w": 5}, "not found"),
    index(
        "a name that is a deep list",
        {"w": json.loads(nested(900))},
        f"{PLAIN}|not a readable|not found",
    ),
    index("a million shards", {str(i): f"{i}.safetensors" for i in range(200_000)}, "not found"),
    index("no map", [], "has no 'weight_map'", "read_index", "crashes"),
    index(
        "a shard that is not there",
        {"w": "model-00001-of-00002.safetensors"},
        "not found",
        "read_index",
        "crashes",
    ),
]

ATTACKS = MODELS + TEXTS + TOKENIZERS + INDEXES
