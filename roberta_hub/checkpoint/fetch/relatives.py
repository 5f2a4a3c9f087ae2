"""Lists RoBERTa's relatives: a row of plain values for each published model.

records.py runs this file by its path and makes records of the rows. hubconf.py runs records.py so,
before the package can be imported; this file therefore imports the standard library alone.

Sources: fairseq's hub (`fairseq/models/roberta/model_{xlmr,camembert,gottbert}.py`) and the model
cards of the repositories that the rows name. Fields that could not be looked up are in `unsure`.
"""

from typing import Any

Row = dict[str, Any]
"""Fields of `records.Record`, and in place of `origins`:

`archive` on fairseq's server, or below `base`; `repository` at Hugging Face; `weights`, the name of
the only form they have there; `vocabulary_of`, the repository whose vocabulary it shares;
`sentences`, whether it says how a text becomes one vector.
"""

PINS: dict[str, tuple[int, str]] = {}
"""URL -> size and sha256, as tools/pin.py prints them; a publisher names neither."""

_BASE = {"num_layers": 12, "embed_dim": 768, "ffn_dim": 3072, "num_heads": 12}
_LARGE = {"num_layers": 24, "embed_dim": 1024, "ffn_dim": 4096, "num_heads": 16}
_SIZES = {"base": _BASE, "large": _LARGE}
_BERT = {"padding_idx": 0, "num_segments": 2, "separator_idx": 102, "layer_norm_eps": 1e-12}
_BERT |= {"vocab_size": 30522, "pooler_dropout": 0.1}
_SENTENCEPIECE = ("sentencepiece.bpe.model",)
_WORDPIECE = ("vocab.txt",)
_ALBERT_PIECES = ("spiece.model",)
_BPE = ("vocab.json", "merges.txt")


def _about(title: str, parameters: str, shape: Row, languages: str, download: str) -> str:
    """Write the first line of `torch.hub.help`."""
    size = f"{shape['num_layers']} layers of {shape['embed_dim']}"
    read = "" if languages == "English" else f", {languages}"
    return f"{title}: {parameters} parameters, {size}{read}; {download} download."


def _xlmr(size: str, parameters: str, download: str, shape: Row, **more: Any) -> Row:
    owner = "FacebookAI" if size in _SIZES else "facebook"
    elsewhere = f"xlm-roberta-{size}"
    return {
        "name": f"xlmr.{size}",
        "elsewhere": (f"{owner}/{elsewhere}", *((elsewhere,) if size in _SIZES else ())),
        "shape": shape,
        "family": "xlm-roberta",
        "vocabulary": _SENTENCEPIECE,
        "parameters": parameters,
        "languages": "100 languages",
        "download": download,
        "summary": _about(f"XLM-R {size}", parameters, shape, "100 languages", download),
        "example": (
            '>>> roberta.encode("Bonjour le monde")',
            "tensor([    0, 84602,    95, 11146,     2])",
        ),
        **more,
    }


def _xlmr_pre_norm(size: str, parameters: str, download: str, shape: Row) -> Row:
    """Make the row of XL or XXL; in half precision, and too large for a single file elsewhere."""
    shape = {**shape, "vocab_size": 250880, "normalize_before": True, "layernorm_embedding": False}
    return _xlmr(
        size,
        parameters,
        download,
        shape,
        archive=f"xlmr/xlmr.{size}.tar.gz",
        family="xlm-roberta-xl",
        unsure=("vocab_size", "layernorm_embedding", "download"),
        details=('Keep its half precision with dtype="float16"; the default widens to float32.',),
    )


def _camembert(name: str, corpus: str, size: str = "base", **more: Any) -> Row:
    shape = {**_SIZES[size], "vocab_size": 32005}
    parameters, download = (
        ("111 M", "about 0.2 GB") if size == "base" else ("337 M", "about 0.7 GB")
    )
    return {
        "name": name,
        "aliases": (name.replace("-", "_"),),
        "archive": f"{name}.tar.gz",
        "repository": f"almanach/{name}",
        "elsewhere": (f"almanach/{name}", f"camembert/{name}"),
        "shape": shape,
        "family": "camembert",
        "vocabulary": _SENTENCEPIECE,
        "parameters": parameters,
        "languages": "French",
        "download": download,
        "unsure": ("repository", "download"),
        "summary": _about(f"CamemBERT {size}", parameters, shape, "French", download),
        "details": (f"Trained on {corpus}.",),
        "example": ('>>> roberta.fill_mask("Le camembert est <mask> :)", topk=3)',),
        **more,
    }


def _bert(
    name: str,
    elsewhere: str,
    vocab_size: int,
    parameters: str,
    download: str,
    *,
    title: str = "BERT",
    languages: str = "English",
    greeting: tuple[int, ...] = (),
    **more: Any,
) -> Row:
    size, kind = name.split(".", 2)[1:]
    shape = {**_SIZES[size], **_BERT, "vocab_size": vocab_size}
    ids = ", ".join(f"{i:4}" for i in (101, *greeting, 102))
    hello = ('>>> roberta.encode("Hello world!")', f"tensor([{ids}])")
    fill = ('>>> roberta.fill_mask("[MASK] is the capital of France.", topk=3)',)
    return {
        "name": name,
        "repository": f"google-bert/{elsewhere}",
        "elsewhere": (f"google-bert/{elsewhere}", elsewhere),
        "shape": shape,
        "family": "bert",
        "vocabulary": _WORDPIECE,
        "pooler": True,
        "labels": {"nsp": ("is_next", "not_next")},
        "inputs": {"nsp": "pair"},
        "licence": "Apache-2.0",
        "parameters": parameters,
        "languages": languages,
        "download": download,
        "summary": _about(
            f"{title} {size} {kind.replace('.', ' ')}", parameters, shape, languages, download
        ),
        "details": ('Its head "nsp" tells whether the second sentence follows the first.',),
        "example": hello if greeting else fill,
        **more,
    }


def _spanbert(size: str, parameters: str, download: str) -> Row:
    """Make SpanBERT's row; no vocabulary is published with it but bert-base-cased's."""
    row = _bert(
        f"spanbert.{size}.cased",
        f"spanbert-{size}-cased",
        28996,
        parameters,
        download,
        title="SpanBERT",
        greeting=(8667, 1362, 106),
    )
    return row | {
        "repository": f"SpanBERT/spanbert-{size}-cased",
        "elsewhere": (f"SpanBERT/spanbert-{size}-cased",),
        "weights": "pytorch_model.bin",
        "vocabulary_of": "google-bert/bert-base-cased",
        "licence": "CC-BY-NC 4.0",
        "notice": "its licence is CC-BY-NC 4.0, which forbids commercial use, and covers the "
        "weights (github.com/facebookresearch/SpanBERT)",
        "labels": {},
        "inputs": {},
        "shape": {**row["shape"], "lm_head": False},
        "unsure": ("lm_head", "pooler", "download"),
        "details": (
            "Licence: CC-BY-NC 4.0, no commercial use; it covers the weights. Case matters to it.",
            "Train it to answer with `roberta-hub train finetune=squad model=FOLDER`.",
        ),
    }


def _albert(size: str, version: str, parameters: str, download: str, shape: Row) -> Row:
    silent = version == "v2" or size == "xxlarge"
    shape = {
        **shape,
        **{"vocab_size": 30000, "padding_idx": 0, "num_segments": 2, "separator_idx": 3},
        **{"embedding_dim": 128, "project_sum": True, "num_unique_layers": 1},
        **{"layer_norm_eps": 1e-12, "pooler_dropout": 0.1},
        "activation_fn": "gelu" if version == "v1" else "gelu_accurate",
        "dropout": 0.0 if silent else 0.1,
        "attention_dropout": 0.0 if silent else 0.1,
    }
    elsewhere = f"albert-{size}-{version}"
    return {
        "name": f"albert.{size}.{version}",
        "repository": f"albert/{elsewhere}",
        "elsewhere": (f"albert/{elsewhere}", elsewhere),
        "shape": shape,
        "family": "albert",
        "vocabulary": _ALBERT_PIECES,
        "pooler": True,
        "labels": {"sop": ("in_order", "swapped")},
        "inputs": {"sop": "pair"},
        "unsure": ("activation_fn", "download"),
        "licence": "Apache-2.0",
        "parameters": parameters,
        "languages": "English",
        "download": download,
        "summary": _about(f"ALBERT {size} {version}", parameters, shape, "English", download),
        "details": (
            "All its layers share one layer's weights.",
            'Its head "sop" tells whether two sentences stand in order.',
        ),
        "example": (
            '>>> roberta.encode("Paris is a beautiful city")',
            "tensor([   2, 1162,   25,   21, 1632,  136,    3])",
        ),
    }


def _electra(size: str, part: str, parameters: str, download: str, shape: Row) -> Row:
    generator = part == "generator"
    width = shape.get("embedding_dim")
    shape = {
        **{**_BERT, "pooler_activation_fn": "gelu", "lm_head": generator},
        **({"project_sum": True} if width else {}),
        **shape,
    }
    purpose = {
        "generator": "It fills masks; its discriminator tells which words were replaced.",
        "discriminator": "It tells which words were replaced, and has no LM head; the generator "
        "has.",
    }
    ask = {
        "generator": ('>>> roberta.fill_mask("[MASK] is the capital of France.", topk=3)',),
        "discriminator": ('>>> roberta.replaced("The quick brown fox fake over the lazy dog.")',),
    }
    elsewhere = f"google/electra-{size}-{part}"
    return {
        "name": f"electra.{size}.{part}",
        "repository": elsewhere,
        "elsewhere": (elsewhere,),
        "shape": shape,
        "family": "electra",
        "vocabulary": _WORDPIECE,
        "replaced_head": not generator,
        "licence": "Apache-2.0",
        "parameters": parameters,
        "languages": "English",
        "download": download,
        "unsure": ("download",),
        "summary": _about(f"ELECTRA {size} {part}", parameters, shape, "English", download),
        "details": (purpose[part],),
        "example": ask[part],
    }


_ELECTRA_SMALL = {"num_layers": 12, "embed_dim": 256, "ffn_dim": 1024, "num_heads": 4}
_XLARGE = {"num_layers": 24, "embed_dim": 2048, "ffn_dim": 8192, "num_heads": 16}
_XXLARGE = {"num_layers": 12, "embed_dim": 4096, "ffn_dim": 16384, "num_heads": 64}
_XL = {"num_layers": 36, "embed_dim": 2560, "ffn_dim": 10240, "num_heads": 32}
_XXL = {"num_layers": 48, "embed_dim": 4096, "ffn_dim": 16384, "num_heads": 32}
_XLMR_ROWS = {"vocab_size": 250002}
_MINILM = {"num_layers": 6, "embed_dim": 384, "ffn_dim": 1536, "num_heads": 12}
_DISTILBERT = {**_BASE, "num_layers": 6}
_DISTILBERT_OWN = {
    "vocab_size": 30522,
    "padding_idx": 0,
    "layer_norm_eps": 1e-12,
    "pooler_activation_fn": "relu",
    "pooler_dropout": 0.2,
}
_ALBERTS: tuple[tuple[Any, ...], ...] = (
    ("base", "12 M", "about 0.05 GB", _BASE),
    ("large", "18 M", "about 0.07 GB", _LARGE),
    ("xlarge", "59 M", "about 0.2 GB", _XLARGE),
    ("xxlarge", "223 M", "about 0.9 GB", _XXLARGE),
)

ROWS: tuple[Row, ...] = (
    # ---- fairseq's own, under the names of its hub ----
    _xlmr(
        "base",
        "278 M",
        "about 0.5 GB",
        {**_BASE, **_XLMR_ROWS},
        archive="xlmr.base.tar.gz",
        repository="FacebookAI/xlm-roberta-base",
        unsure=("download",),
    ),
    _xlmr(
        "large",
        "560 M",
        "about 1.0 GB",
        {**_LARGE, **_XLMR_ROWS},
        archive="xlmr.large.tar.gz",
        repository="FacebookAI/xlm-roberta-large",
        unsure=("download",),
    ),
    _xlmr_pre_norm("xl", "3.5 B", "about 7 GB", _XL),
    _xlmr_pre_norm("xxl", "10.7 B", "about 21 GB", _XXL),
    _camembert(
        "camembert",
        "138 GB of French web text (OSCAR)",
        aliases=("camembert_v0", "camembert.v0", "camembert-base", "camembert_base"),
        archive="camembert-base.tar.gz",
        repository="almanach/camembert-base",
        elsewhere=("almanach/camembert-base", "camembert/camembert-base"),
        unsure=("download",),
    ),
    _camembert("camembert-large", "135 GB of French web text (CCNet)", "large"),
    _camembert("camembert-base-ccnet", "135 GB of French web text (CCNet)"),
    _camembert("camembert-base-ccnet-4gb", "4 GB of French web text (CCNet)"),
    _camembert("camembert-base-wikipedia-4gb", "4 GB of the French Wikipedia"),
    _camembert("camembert-base-oscar-4gb", "4 GB of French web text (OSCAR)"),
    {
        "name": "gottbert-base",
        "aliases": ("gottbert_base",),
        "archive": "gottbert-base.tar.gz",
        "base": "https://dl.gottbert.de/fairseq/models",
        "repository": "uklfr/gottbert-base",
        "elsewhere": ("uklfr/gottbert-base",),
        "shape": {**_BASE, "vocab_size": 52009},
        "vocabulary": _BPE,
        "unsure": ("vocab_size", "licence", "download"),
        "licence": "MIT by its model card (huggingface.co/uklfr/gottbert-base); "
        "AGPLv3 by the abstract of its paper",
        "parameters": "126 M",
        "languages": "German",
        "download": "about 0.2 GB",
        "summary": _about("GottBERT base", "126 M", _BASE, "German", "about 0.2 GB"),
        "details": ("Licence: MIT by its model card, AGPLv3 by its paper's abstract.",),
        "example": ('>>> roberta.fill_mask("Gott ist <mask> ! :)", topk=3)',),
    },
    # ---- compared with RoBERTa, from Hugging Face; the dotted names are ours ----
    _bert(
        "bert.base.uncased",
        "bert-base-uncased",
        30522,
        "110 M",
        "0.4 GB",
        greeting=(7592, 2088, 999),
    ),
    _bert(
        "bert.base.cased",
        "bert-base-cased",
        28996,
        "109 M",
        "0.4 GB",
        greeting=(8667, 1362, 106),
    ),
    _bert(
        "bert.large.uncased",
        "bert-large-uncased",
        30522,
        "336 M",
        "1.3 GB",
        greeting=(7592, 2088, 999),
    ),
    _bert(
        "bert.large.cased",
        "bert-large-cased",
        28996,
        "335 M",
        "1.3 GB",
        greeting=(8667, 1362, 106),
    ),
    _bert(
        "bert.large.uncased.wwm",
        "bert-large-uncased-whole-word-masking",
        30522,
        "336 M",
        "1.3 GB",
        greeting=(7592, 2088, 999),
        details=("Trained with whole words masked.",),
    ),
    _bert(
        "bert.large.cased.wwm",
        "bert-large-cased-whole-word-masking",
        28996,
        "335 M",
        "1.3 GB",
        greeting=(8667, 1362, 106),
        details=("Trained with whole words masked.",),
    ),
    _bert(
        "bert.base.multilingual.cased",
        "bert-base-multilingual-cased",
        119547,
        "179 M",
        "0.7 GB",
        languages="104 languages",
    ),
    _bert(
        "bert.base.multilingual.uncased",
        "bert-base-multilingual-uncased",
        105879,
        "168 M",
        "0.7 GB",
        languages="102 languages",
    ),
    _bert(
        "bert.base.chinese",
        "bert-base-chinese",
        21128,
        "103 M",
        "0.4 GB",
        languages="Chinese",
    ),
    {
        "name": "distilbert.base.uncased",
        "repository": "distilbert/distilbert-base-uncased",
        "elsewhere": ("distilbert/distilbert-base-uncased", "distilbert-base-uncased"),
        "shape": {**_DISTILBERT, **_DISTILBERT_OWN},
        "family": "distilbert",
        "vocabulary": _WORDPIECE,
        "licence": "Apache-2.0",
        "parameters": "67 M",
        "languages": "English",
        "download": "about 0.3 GB",
        "unsure": ("download",),
        "summary": _about(
            "DistilBERT base uncased", "67 M", _DISTILBERT, "English", "about 0.3 GB"
        ),
        "details": ("Six layers, distilled from bert.base.uncased; it tells no segments apart.",),
        "example": (
            '>>> roberta.encode("Hello world!")',
            "tensor([ 101, 7592, 2088,  999,  102])",
        ),
    },
    *(_albert(size, version, *row) for version in ("v1", "v2") for size, *row in _ALBERTS),
    _electra(
        "small",
        "discriminator",
        "14 M",
        "about 0.05 GB",
        {**_ELECTRA_SMALL, "embedding_dim": 128},
    ),
    _electra(
        "small", "generator", "14 M", "about 0.05 GB", {**_ELECTRA_SMALL, "embedding_dim": 128}
    ),
    _electra("base", "discriminator", "109 M", "about 0.4 GB", _BASE),
    _electra("base", "generator", "34 M", "about 0.1 GB", {**_ELECTRA_SMALL, "embedding_dim": 768}),
    _electra("large", "discriminator", "335 M", "about 1.3 GB", _LARGE),
    _electra(
        "large",
        "generator",
        "51 M",
        "about 0.2 GB",
        {**_ELECTRA_SMALL, "num_layers": 24, "embedding_dim": 1024},
    ),
    _spanbert("base", "108 M", "about 0.2 GB"),
    _spanbert("large", "334 M", "about 0.7 GB"),
    {
        "name": "all.minilm.l6.v2",
        "repository": "sentence-transformers/all-MiniLM-L6-v2",
        "sentences": True,
        "elsewhere": ("sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"),
        "shape": {**_MINILM, **_BERT, "lm_head": False},
        "family": "bert",
        "vocabulary": _WORDPIECE,
        "pooler": True,
        "licence": "Apache-2.0",
        "parameters": "22.7 M",
        "languages": "English",
        "download": "0.1 GB",
        "summary": _about("Sentence encoder", "22.7 M", _MINILM, "English", "0.1 GB"),
        "details": ("all-MiniLM-L6-v2, a BERT whose vectors compare sentences: `embed`.",),
        "example": ('>>> roberta.embed(["Hello world!"]).shape', "torch.Size([1, 384])"),
    },
)
