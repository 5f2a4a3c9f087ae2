"""The 45 mistakes of new users: each is answered by a sentence of ours that says what to do.

They come from transformers, sentence-transformers and fairseq, whose calls, names and files they
try here. None is silent: an error is of our own family, and a warning points at the caller's line.
"""

from __future__ import annotations

import copy
import json
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pytest
import torch
from small_models import small_roberta

import roberta_hub
from roberta_hub import RobertaHubError, RobertaHubInterface, load_model
from roberta_hub.errors import (
    CheckpointError,
    InputError,
    InputTypeError,
    UnknownAttributeError,
    UnknownNameError,
)

MOOD = ("negative", "positive")
NLI = ("contradiction", "neutral", "entailment")


class Case(NamedTuple):
    call: Callable[[Any], Any]
    kind: type[Exception]
    words: tuple[str, ...]


class At:
    """What rows use: models with all heads, one or none; a folder of files, one of them open."""

    def __init__(self, folder: Path, table: TextIO) -> None:
        self.r = small_roberta(heads={"mnli": 3, "mood": 2}, labels={"mnli": NLI, "mood": MOOD})
        self.r.register_token_head("ner", labels=["O", "B-PER", "I-PER"])
        self.r.register_span_head("squad")
        self.r.eval()
        self.bare = small_roberta()
        self.one = small_roberta(heads={"mood": 2}, labels={"mood": MOOD})
        self.folder = folder
        self.table = table


def case(call: Callable[[Any], Any], kind: type[Exception], *words: str) -> Case:
    return Case(call, kind, words)


def frame() -> Any:
    return pytest.importorskip("pandas").DataFrame({"review": ["Good.", None], "stars": [5, 1]})


def no_card(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def skipping(at: Any) -> Any:
        if torch.cuda.is_available():
            pytest.skip("this machine has a card")
        return call(at)

    return skipping


def odd_label(at: Any) -> RobertaHubInterface:
    roberta = copy.deepcopy(at.bare)
    roberta.register_classification_head("x", labels=["a\ud800", "b"])
    return roberta


def used_up() -> Iterator[str]:
    texts = (text for text in ["Good.", "Bad."])
    list(texts)
    return texts


def trained(roberta: RobertaHubInterface, call: Callable[[Any], Any]) -> None:
    try:
        call(roberta.train())
    finally:
        roberta.eval()


def load(name: str) -> Callable[[Any], Any]:
    """Load a path below the folder."""
    return lambda at: load_model(at.folder / name)


TEXTS = ["Good.", "Bad."]
MISTAKES: dict[str, list[Case]] = {
    # ---- what is given for texts ----
    "a dict": [
        case(lambda at: at.one.classify({"text": TEXTS}), InputTypeError, "keys 'text'", "[...]"),
        case(lambda at: at.one.classify([{"text": "Good."}]), InputTypeError, "texts[0]", "'text'"),
        case(
            lambda at: at.r.features({"input_ids": torch.zeros(1, 2), "attention_mask": None}),
            InputTypeError,
            "a dict with the keys 'input_ids', 'attention_mask'",
        ),
    ],
    "bytes, a path, an open file": [
        case(lambda at: at.one.classify(b"Good."), InputTypeError, "bytes", "texts.decode()"),
        case(lambda at: at.r.embed(at.folder / "a.csv"), InputTypeError, "a.csv'", ".read_text()"),
        case(lambda at: at.r.embed(at.table), InputTypeError, "read().splitlines()"),
        case(lambda at: at.r.search("a", at.table), InputTypeError, "corpus is a TextIOWrapper"),
    ],
    "a file's name": [
        case(lambda at: at.one.classify("reviews.csv"), UserWarning, "'reviews.csv'", "its lines"),
        case(lambda at: at.r.embed("data/a.parquet"), UserWarning, "a file's name", "a column"),
    ],
    "a whole table": [
        case(lambda at: at.one.classify(frame()), InputTypeError, "'review', 'stars'", "texts["),
        case(lambda at: at.r.search("good", frame()), InputTypeError, "corpus is a DataFrame"),
    ],
    "three texts for a head of pairs": [
        case(
            lambda at: at.r.classify([("A.", "B."), ("a", "b", "c")], "mnli"),
            InputError,
            "texts[1]: a tuple of 3 texts",
            "'mnli' judges pairs",
        ),
    ],
    "texts and labels exchanged": [
        case(
            lambda at: at.r.zero_shot(
                ["sport"], ["Our team has won again.", "It has rained all day."]
            ),
            UserWarning,
            "'Our team has won again.'",
            "the texts first",
        ),
        case(
            lambda at: at.one.classify(TEXTS, ["pos", "neg"]),
            InputTypeError,
            "head is a list",
            "zero_shot(texts, labels)",
        ),
    ],
    "labels that are nearly one": [
        case(lambda at: at.r.zero_shot("Good.", ["food", "Food"]), UserWarning, "'Food'", "case"),
        case(lambda at: at.r.zero_shot("Good.", ["a b", " a  b"]), UserWarning, "case or blanks"),
    ],
    "empty texts": [
        case(
            lambda at: at.r.zero_shot(["Good.", "", " \n"], ["a", "b"]),
            UserWarning,
            "texts[1] and 1 more are empty; its label",
        ),
        case(lambda at: at.one.classify(""), UserWarning, "texts[0] is empty; its label"),
        case(lambda at: at.r.embed([("", ""), ("a", "")]), UserWarning, "texts[0] is empty; its v"),
        case(lambda at: at.r.search(["", "a"], TEXTS), UserWarning, "queries[0] is empty"),
        case(
            lambda at: at.r.search("a", (t for t in [*["b"] * 2100, "", *["b"] * 2100, " "])),
            UserWarning,
            "corpus[2100] and 1 more are empty; its nearness to a query says nothing",
        ),
    ],
    "arguments that are set": [
        case(
            lambda at: setattr(at.r.model.args, "encoder_layers", 7),
            InputError,
            "args.encoder_layers = 7 would change nothing",
            "RobertaConfig",
        ),
    ],
    "a frame, a dict of answers": [
        case(lambda at: at.one.classify(TEXTS).to_dict(), InputTypeError, "to_pandas()"),
        case(lambda at: at.r.tag(TEXTS, "ner").to_pandas(), InputTypeError, "of one text"),
    ],
    "another architecture": [
        case(lambda at: load_model("gpt2"), UnknownNameError, "another architecture", "ELECTRA"),
        case(lambda at: load_model("deberta-v3-base"), UnknownNameError, "another architecture"),
    ],
    "a mask of other tokens, ids that are sparse": [
        case(
            lambda at: at.r.model(torch.tensor([[0, 5, 2]]), masked_tokens=torch.ones(2, 2).bool()),
            InputError,
            "shape (2, 2)",
            "(1, 3)",
        ),
        case(
            lambda at: at.r.extract_features(torch.tensor([[0, 5, 2]]).to_sparse()),
            InputTypeError,
            "tokens.to_dense()",
        ),
    ],
    "half a letter in a label": [
        case(lambda at: odd_label(at).save(at.folder / "odd"), CheckpointError, "'x'", "surrogate"),
    ],
    "a generator that was read before": [
        case(lambda at: at.one.classify(used_up()), UserWarning, "yields nothing", "used up"),
        case(
            lambda at: at.r.search("a", used_up()),
            UserWarning,
            "corpus is a generator",
            "create it again",
        ),
    ],
    "lists in a list": [
        case(lambda at: at.r.embed([["a", "b", "c"]]), InputTypeError, "texts[0]: a list of 3"),
        case(lambda at: at.r.embed([["Good."]]), InputTypeError, "a list of 1; a pair is"),
    ],
    "missing values in a column": [
        case(lambda at: at.r.embed(frame()["review"]), InputTypeError, "texts[1]", "dropna()"),
        case(lambda at: at.r.embed(["Good.", None]), InputTypeError, "texts[1]: missing"),
    ],
    "None and numbers": [
        case(lambda at: at.one.classify(None), InputTypeError, "a NoneType; pass one str"),
        case(lambda at: at.one.classify([1, 2]), InputTypeError, "texts[0]: a int"),
        case(lambda at: at.r.embed(frame()["stars"]), InputTypeError, "texts[0]: a int; a text is"),
    ],
    "ids": [
        case(lambda at: at.r.features(at.r.encode("a")), InputTypeError, "ids go to extract_fea"),
        case(lambda at: at.one.classify(at.r.encode("a")), InputTypeError, "Tensor", "predict"),
    ],
    "a set, a tuple": [
        case(lambda at: at.r.embed({"a", "b"}), InputTypeError, "no order; pass a list"),
        case(lambda at: at.r.embed(("a", "b")), InputTypeError, "[('a', 'b')]", "['a', 'b']"),
    ],
    "one text for a head of pairs": [
        case(lambda at: at.r.classify("Good.", "mnli"), InputError, "(text, other text)", "zero_s"),
        case(lambda at: at.r.classify("Good.", text_pair="x"), InputTypeError, "[(first, second)]"),
    ],
    "a text that is too long": [
        case(lambda at: at.one.classify("a " * 99), InputError, "102 tokens > 48", "truncate=True"),
    ],
    # ---- what is loaded ----
    "a name that is nearly right": [
        case(lambda at: load_model("bert-base"), UnknownNameError, "did you mean", "available_mod"),
        case(lambda at: load_model("roberta-base "), UnknownNameError, "did you mean roberta.base"),
        case(lambda at: load_model("robreta.large"), UnknownNameError, "mean roberta.large"),
        case(lambda at: load_model("deberta-v3"), UnknownNameError, "another architecture"),
    ],
    "a task for a name": [
        case(lambda at: load_model("sentiment-analysis"), UnknownNameError, "verb", "classify"),
        case(lambda at: load_model("text-generation"), UnknownNameError, "RoBERTa only reads"),
        case(lambda at: at.r.classify("a", "text-classification"), UnknownNameError, "has mnli, m"),
    ],
    "a path that is not there": [
        case(load("nowhere"), UnknownNameError, "no model and no path", "must exist"),
        case(lambda at: load_model("~/mine"), UnknownNameError, "os.path.expanduser"),
        case(lambda at: load_model("https://x.org/a.tgz"), UnknownNameError, "URL is not fetched"),
        case(lambda at: load_model(None), InputTypeError, "give a str or a pathlib.Path"),
    ],
    "a file that is no model": [
        case(load("a.csv"), CheckpointError, "a table (CSV text)", "the verbs of a loaded model"),
        case(load("a.zip"), CheckpointError, "a zip file", "unpack it"),
        case(load("a.tar"), CheckpointError, "a tar archive that is not compressed", "unpack it"),
        case(load("zip.tar.gz"), CheckpointError, "but a zip file; unpack it"),
        case(load("page.pt"), CheckpointError, "is a web page"),
        case(load("state.pt"), CheckpointError, "a bare state_dict", "roberta.save(directory)"),
    ],
    "a folder that holds no model": [
        case(load("empty"), CheckpointError, "nothing; give the folder that save"),
        case(load("tokenizer"), CheckpointError, "a tokenizer without a model", "weights"),
        case(load("half"), CheckpointError, "config.json but no weights", "a tokenizer without"),
        case(load("lora"), CheckpointError, "LoRA adapter of 'roberta-base'", "adapter=True"),
    ],
    "weights of another program": [
        case(load("a.gguf"), CheckpointError, "only llama.cpp reads", "model.safetensors"),
        case(load("onnx"), CheckpointError, "'model.onnx', which only an ONNX runtime reads"),
        case(load("tf"), CheckpointError, "'tf_model.h5', which only TensorFlow or Flax reads"),
        case(load("tf/tf_model.h5"), CheckpointError, "a file that only TensorFlow or Flax reads"),
    ],
    "a device that is not there": [
        case(lambda at: load_model(device="gpu"), InputError, "give 'cpu', 'cuda'", "'auto'"),
        case(lambda at: load_model(device="cpu:1"), InputError, "one device; pass 'cpu'"),
        case(no_card(lambda at: load_model(device="cuda")), InputError, "device='auto'"),
        case(no_card(lambda at: at.r.cuda()), InputError, "device='auto'"),
        case(lambda at: at.r.to("gpu"), InputError, "device is 'gpu'", "give 'cpu'"),
    ],
    "a dtype by another name": [
        case(lambda at: load_model(dtype="fp16"), InputError, "choose torch.fl", "write 'float16'"),
        case(lambda at: load_model(dtype="int8"), InputError, "roberta.optimize('int8')"),
        case(lambda at: at.r.optimize("fp16"), InputError, "choose None, 'int8' or 'bfloat16'"),
    ],
    "keywords of from_pretrained": [
        case(lambda at: load_model(torch_dtype="auto"), UnknownNameError, "say dtype="),
        case(lambda at: load_model(device_map="auto"), UnknownNameError, "say device="),
        case(lambda at: load_model(num_labels=2), UnknownNameError, "register_classification_head"),
        case(lambda at: load_model(trust_remote_code=True), UnknownNameError, "is ever run"),
        case(lambda at: load_model(local_files_only=True), UnknownNameError, "ROBERTA_HUB_OFFLINE"),
        case(
            lambda at: load_model(truncate_dim=8), UnknownNameError, "embed(texts, truncate_dim=N)"
        ),
        case(lambda at: load_model(devcie="cpu"), UnknownNameError, "did you mean device?"),
    ],
    # ---- how it is called ----
    "keywords of a tokenizer or a pipeline": [
        case(lambda at: at.one.classify("a", max_length=9), InputTypeError, "truncate=True cuts"),
        case(lambda at: at.one.classify("a", padding=True), InputTypeError, "nothing is padded"),
        case(lambda at: at.r.encode("a", return_tensors="pt"), InputTypeError, "a torch tensor"),
        case(lambda at: at.r.embed(TEXTS, batch_size=8), InputTypeError, "say batch_tokens="),
        case(lambda at: at.r.fill_mask("<mask>", top_k=1), InputTypeError, "say topk="),
    ],
    "the model is called": [
        case(lambda at: at.r("Good."), InputTypeError, "is not called", "verbs take texts"),
        case(lambda at: at.r(at.r.encode("a")), InputTypeError, "extract_features(ids)"),
        case(lambda at: at.r(input_ids=at.r.encode("a")), InputTypeError, "is not called"),
    ],
    "the tokenizer is called": [
        case(lambda at: at.r.tokenizer("Good."), InputTypeError, "roberta.encode(text)"),
        case(lambda at: at.r.tokenizer(TEXTS, padding=True), InputTypeError, "encode_batch(texts)"),
        case(lambda at: at.r.tokenizer.encode_plus("a"), UnknownAttributeError, "encode(text)"),
        case(
            lambda at: at.r.encode(TEXTS), InputTypeError, "encode_batch gives ids of several texts"
        ),
    ],
    "methods of other libraries": [
        case(lambda at: at.r.generate("Once"), UnknownAttributeError, "RoBERTa reads text and wr"),
        case(lambda at: at.r.encode_plus("a"), UnknownAttributeError, "encode(text) gives ids"),
        case(lambda at: at.r.save_pretrained("a"), UnknownAttributeError, "save(directory, 'hugg"),
        case(lambda at: at.r.clasify("a"), UnknownAttributeError, "did you mean classify?"),
        case(lambda at: at.r.push, UnknownAttributeError, "help(...) lists"),
    ],
    "names of other libraries": [
        case(lambda at: roberta_hub.pipeline, AttributeError, "load_model(", "each task is a verb"),
        case(lambda at: roberta_hub.AutoModel, AttributeError, "load_model(name or path) loads"),
        case(lambda at: roberta_hub.SentenceTransformer, AttributeError, ".embed(texts)"),
    ],
    "texts for predict": [
        case(lambda at: at.r.predict(TEXTS), InputTypeError, "predict(head, tokens", "classify(te"),
        case(lambda at: at.r.predict("mood", "Good."), InputTypeError, "such as encode() returns"),
    ],
    "arguments in the wrong order": [
        case(
            lambda at: at.r.zero_shot(["art", "sport"], "A goal."), InputError, "a list of labels"
        ),
        case(lambda at: at.r.classify("mood", TEXTS), InputTypeError, "head is a list", "mnli, mo"),
        case(lambda at: at.r.predict(at.r.encode("a"), "mood"), InputTypeError, "head is a Tensor"),
        case(lambda at: at.r.choose(TEXTS, "Which?"), UnknownNameError, "choose needs a classif"),
        case(lambda at: at.r.search(TEXTS, "good"), InputTypeError, "corpus is one str, 'good'"),
        case(lambda at: at.r.save("huggingface", "out"), InputError, "choose fairseq, roberta_hub"),
    ],
    "eval is forgotten": [
        case(
            lambda at: trained(at.r, lambda r: r.predict("mood", r.encode("Good."))),
            UserWarning,
            "predict runs with dropout on",
            "call .eval() first",
        ),
    ],
    "an answer is read as a dict": [
        case(lambda at: at.one.classify("a")["label"], InputTypeError, ".label", "to_dict()"),
        case(lambda at: at.one.classify("a")[0], InputTypeError, "one str in gives one answer out"),
        case(lambda at: dict(at.r.answer("Who?", "Ada.")), InputTypeError, "an Answer", ".text"),
    ],
    # ---- what is asked ----
    "a head that is not there": [
        case(lambda at: at.r.classify("a", "moood"), UnknownNameError, "did you mean mood?"),
        case(lambda at: at.r.classify([("a", "b")]), InputError, "has 2: mnli (contra"),
        case(lambda at: at.bare.classify("a"), UnknownNameError, "this model has no head", "train"),
        case(lambda at: at.one.zero_shot("a", MOOD), UnknownNameError, "'entailment'", "has mood"),
    ],
    "masks": [
        case(lambda at: at.r.fill_mask("A [MASK]."), InputError, "one <mask>", "place of '[MASK]'"),
        case(lambda at: at.r.fill_mask("A ___."), InputError, "in the place of '___'"),
        case(lambda at: at.r.fill_mask("A dog."), InputError, "has no mask: please add one <mask>"),
        case(lambda at: at.r.fill_mask("<mask>", topk=0), InputError, "choose 1 to 50256"),
        case(lambda at: at.r.fill_mask("<mask>", targets=["epipheny"]), InputError, "3 pieces"),
    ],
    "labels": [
        case(lambda at: at.r.zero_shot("a", "good, bad"), InputError, "pass a list of labels"),
        case(lambda at: at.r.zero_shot("a", ["x", "x"]), InputError, "a list of different labels"),
        case(lambda at: at.r.zero_shot("a", ["x", " "]), InputError, "' ' is no word"),
        case(lambda at: at.r.register_classification_head("t", MOOD), InputError, "labels=[...]"),
    ],
    "a hypothesis without its place": [
        case(lambda at: at.r.zero_shot("a", MOOD, hypothesis="It is"), InputError, "has no {} for"),
        case(lambda at: at.r.zero_shot("a", MOOD, hypothesis="{0}!"), InputError, "'{0}!' has no"),
    ],
    "question and context": [
        case(lambda at: at.r.answer("Ada wrote it.", "Who?"), UserWarning, "the question first"),
        case(lambda at: at.r.answer("Who?", ""), InputError, "context: '' is empty"),
        case(lambda at: at.r.answer("Who wrote it?"), InputTypeError, "answer(question, context"),
        case(
            lambda at: at.r.answer(["Who?"], ["A", "B"]), InputError, "1 questions and 2 contexts"
        ),
    ],
    "where it is saved": [
        case(lambda at: at.one.save(at.folder / "a.csv"), CheckpointError, "is a file", "another"),
        case(lambda at: at.one.save(at.folder / "o", "onnx"), InputError, "choose fairseq, r"),
        case(
            lambda at: at.r.save(at.folder / "o", "huggingface"), CheckpointError, "head=...", "ne"
        ),
    ],
}


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[At]:
    folder = tmp_path_factory.mktemp("given")
    (folder / "empty").mkdir()
    write(folder / "a.csv", "review,stars\nGood.,5\nBad.,1\n")
    write(folder / "page.pt", "<!DOCTYPE html><html>Sign in</html>")
    write(folder / "a.gguf", b"GGUF\3" + bytes(90))
    write(folder / "onnx" / "model.onnx", b"\x08\x07\x12\x07pytorch" + bytes(90))
    write(folder / "tf" / "config.json", json.dumps({"model_type": "roberta"}))
    write(folder / "tf" / "tf_model.h5", b"\x89HDF\r\n\x1a\n" + bytes(90))
    for name in ("tokenizer", "half"):
        write(folder / name / "tokenizer.json", "{}")
    write(folder / "half" / "config.json", json.dumps({"model_type": "roberta"}))
    base = {"peft_type": "LORA", "base_model_name_or_path": "roberta-base"}
    write(folder / "lora" / "adapter_config.json", json.dumps(base))
    write(folder / "lora" / "adapter_model.safetensors", bytes(90))
    for name in ("a.zip", "zip.tar.gz"):
        with zipfile.ZipFile(folder / name, "w") as packed:
            packed.writestr("model/config.json", "{}")
    with tarfile.open(folder / "a.tar", "w") as tar:
        tar.add(folder / "a.csv", "a.csv")
    torch.save(torch.nn.Linear(2, 2).state_dict(), folder / "state.pt")
    with (folder / "a.csv").open() as table:
        yield At(folder, table)


def said(call: Callable[[Any], Any], at: At, kind: type[Exception]) -> str:
    """What is said of a mistake, in the way that was expected."""
    if not issubclass(kind, Warning):
        with pytest.raises(kind) as caught:
            call(at)
        assert type(caught.value) is kind
        assert isinstance(caught.value, RobertaHubError) or kind is AttributeError
        return str(caught.value)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call(at)
    (warning,) = seen
    assert issubclass(warning.category, kind) and warning.filename == __file__
    return str(warning.message)


def test_there_are_45() -> None:
    assert len(MISTAKES) == 45


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered(mistake: str, at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBERTA_HUB_OFFLINE", "1")
    for call, kind, words in MISTAKES[mistake]:
        sentence = said(call, at, kind)
        for part in words:
            assert part in sentence
        assert "\n" not in sentence and 30 < len(sentence) < 700
