"""Situations of public scripts, each run as it is by real fairseq and by `roberta-hub run`.

A script takes a folder that fairseq wrote, GPT-2's two files and where to put its numbers.
"""

from __future__ import annotations

import json
import pickle
import runpy
import sys
from pathlib import Path
from typing import Any

import forks
import pytest
import torch

from roberta_hub import load_model
from roberta_hub.fairseq_names.word_alignment import (
    align_bpe_to_words,
    align_features_to_words,
)
from roberta_hub.formats.upgrade import is_stale

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_fairseq]
TOLERANCE = 2e-5

BEGIN = """
import json, sys
import torch
import torch.nn.functional as F
folder, encoder, merges, output = sys.argv[1:5]
files = {"gpt2_encoder_json": encoder, "gpt2_vocab_bpe": merges}
def show(**numbers):
    plain = {k: v.tolist() if torch.is_tensor(v) else v for k, v in numbers.items()}
    json.dump(plain, open(output, "w"))
"""
LOAD = """
from fairseq.models.roberta import RobertaModel
roberta = RobertaModel.from_pretrained(folder, checkpoint_file="model.pt", **files)
roberta.eval()
"""
SCRIPTS = {
    "padded batches: means over whole rows, every layer, logits": LOAD
    + """
from fairseq.data.data_utils import collate_tokens
texts = ["Short.", "A longer line of text.", "The sun rises in the east, and sets in the west.", ""]
ids = [roberta.encode(text) for text in texts]
numbers = {}
for side in (False, True):
    batch = collate_tokens(ids, pad_idx=1, left_pad=side)
    with torch.no_grad():
        features = roberta.extract_features(batch)
        layers = roberta.extract_features(batch, return_all_hiddens=True)
        logits, extra = roberta.model(batch, return_all_hiddens=True)
        out = roberta.model.encoder.sentence_encoder(batch, return_all_hiddens=True)
    assert batch.eq(1).any() and not layers[0][batch.eq(1)].any()
    assert features[batch.eq(1)].abs().sum() > 1
    numbers[f"features {side}"] = features
    numbers[f"mean {side}"] = features.mean(1)
    numbers[f"layers {side}"] = torch.stack(layers)
    numbers[f"max {side}"] = torch.cat(layers[-2:], dim=-1).max(1)[0]
    numbers[f"logits {side}"] = logits[:, :, :20]
    numbers[f"states {side}"] = torch.stack(extra["inner_states"])
    numbers[f"encoder {side}"] = out["encoder_out"][0]
    numbers[f"its states {side}"] = torch.stack(out["encoder_states"])
    numbers[f"lm head {side}"] = roberta.model.encoder.lm_head(features)[:, :, :20]
batch = collate_tokens(ids, pad_idx=1)
loss = roberta.extract_features(batch).mean(1).pow(2).sum()
loss.backward()
numbers["gradient"] = roberta.model.encoder.sentence_encoder.layers[0].fc1.weight.grad[:3]
seen = []
last = roberta.model.encoder.sentence_encoder.layers[-1]
hook = last.register_forward_hook(lambda module, given, out: seen.append(out[0]))
numbers["under a hook"] = roberta.extract_features(batch).mean(1)
hook.remove()
numbers["its output"] = seen[0]
numbers["head"] = roberta.predict("mnli", batch)
show(**numbers)
""",
    "MNLI: batches, log-probabilities, accuracy": LOAD
    + """
from fairseq.data.data_utils import collate_tokens
pairs = [("Roberta is a heavily optimized version of BERT.", "Roberta is not very optimized."),
         ("Roberta is a heavily optimized version of BERT.", "Roberta is based on BERT."),
         ("potatoes are awesome.", "I like to run."), ("Mars is far.", "It is very close.")]
gold = [0, 2, 1, 0]
right, found = 0, []
with torch.no_grad():
    for start in range(0, len(pairs), 3):
        batch = collate_tokens([roberta.encode(a, b) for a, b in pairs[start:start + 3]], pad_idx=1)
        scores = roberta.predict("mnli", batch)
        found += scores.tolist()
        right += sum(int(p == g) for p, g in zip(scores.argmax(dim=1).tolist(), gold[start:]))
show(scores=found, accuracy=right / len(pairs))
""",
    "features: every layer, the last four together": LOAD
    + """
import numpy as np
tokens = roberta.encode("Where is the <mask>? can’t say, naïve.")
layers = roberta.extract_features(tokens, return_all_hiddens=True)
last = roberta.extract_features(tokens)
assert torch.all(layers[-1] == last)
mean = torch.stack(layers[-2:]).mean(0).squeeze(0)
show(layers=torch.stack(layers), mean=np.mean(mean.detach().numpy(), axis=0).tolist(),
     text=roberta.decode(tokens), ids=tokens)
""",
    "features of a treebank's words": LOAD
    + """
from fairseq.models.roberta import alignment_utils
words = ["I", "said", ",", '"', "hello", "RoBERTa", ".", '"']
ids = roberta.encode('I said, "hello RoBERTa."')
alignment = alignment_utils.align_bpe_to_words(roberta, ids, words)
features = roberta.extract_features(ids).squeeze(0)
vectors = alignment_utils.align_features_to_words(roberta, features, alignment)
show(alignment=alignment, vectors=vectors)
""",
    "WSC: candidates in place of the pronoun, by the masked model": LOAD
    + """
def score(before, candidate, after):
    inside = roberta.bpe.encode(candidate)
    n = len(inside.split())
    prefix, rest = roberta.bpe.encode(before), roberta.bpe.encode(after)
    line = "<s> " + " ".join([prefix, " ".join(["<mask>"] * n), rest]) + " </s>"
    d = roberta.task.source_dictionary
    ids = d.encode_line(line, append_eos=False, add_if_not_exist=False).long()
    target = d.encode_line(inside, append_eos=False, add_if_not_exist=False).long()
    mask = ids.eq(roberta.task.mask_idx)
    with torch.no_grad():
        out = roberta.model(ids.unsqueeze(0), features_only=False)
    lprobs = roberta.model.get_normalized_probs(out, log_probs=True)[0][mask]
    return lprobs.gather(1, target.unsqueeze(1)).mean().item()
names = [" The trophy", " the brown suitcase"]
scores = [score("It does not fit because", n, " is too big.") for n in names]
show(scores=scores, best=names[scores.index(max(scores))])
""",
    "LAMA: a word in a closed vocabulary": LOAD
    + """
d = roberta.task.source_dictionary
vocabulary = [d.index(roberta.bpe.encode(w)) for w in (" Paris", " London", " Rome", " blue")]
filled = roberta.fill_mask("The capital of France is <mask>.", topk=5)
tokens = d.encode_line("<s> " + roberta.bpe.encode("The capital of France is") + " <mask> </s>",
                       append_eos=False, add_if_not_exist=False).long()
at = (tokens == roberta.task.mask_idx).nonzero(as_tuple=False).squeeze()
with torch.no_grad():
    logits, extra = roberta.model(tokens.unsqueeze(0))
probabilities = logits[0, at].softmax(dim=-1)
show(filled=[list(row) for row in filled], closed=probabilities[vocabulary],
     rank=(logits[0, at] > logits[0, at, vocabulary[0]]).sum().item(), unknown=d.index("no such"))
""",
    "sentence vectors: means and cosines": LOAD
    + """
from fairseq.data.data_utils import collate_tokens
texts = ["A man is eating.", "Somebody eats.", "The stock market fell sharply yesterday."]
pad = roberta.task.source_dictionary.pad()
batch = collate_tokens([roberta.encode(t) for t in texts], pad_idx=pad)
keep = batch.ne(1).unsqueeze(-1)
with torch.no_grad():
    features = roberta.extract_features(batch)
vectors = (features * keep).sum(1) / keep.sum(1)
vectors = F.normalize(vectors, dim=-1)
show(cosines=vectors @ vectors.t(), first=roberta.extract_features(roberta.encode(texts[0]))[:, 0])
""",
    "BERTScore: tokens matched by their features": LOAD
    + """
def vectors(text):
    with torch.no_grad():
        return F.normalize(roberta.extract_features(roberta.encode(text))[0, 1:-1], dim=-1)
a, b = vectors("the cat sat on the mat"), vectors("a cat was on a mat")
table = a @ b.t()
precision, recall = table.max(1).values.mean(), table.max(0).values.mean()
show(f1=(2 * precision * recall / (precision + recall)).item(), table=table)
""",
    "a checkpoint looked into": """
from fairseq import checkpoint_utils
state = checkpoint_utils.load_checkpoint_to_cpu(folder + "/model.pt")
weights = state["model"]
cfg = state["cfg"]
names = sorted(n for n in weights if "classification_heads" in n)
show(heads=names, layers=cfg.model.encoder_layers, positions=cfg["model"].max_positions,
     arch=cfg.model.arch, keys=sorted(weights), task=cfg["task"]["_name"],
     sum=sum(float(w.float().sum()) for w in weights.values()))
""",
    "an interface of one's own, of hub_utils' parts": """
from fairseq import hub_utils, utils
from fairseq.models.roberta import RobertaHubInterface, RobertaModel
class Mine(RobertaHubInterface):
    def vector(self, text):
        with utils.model_eval(self.model), torch.no_grad():
            return self.extract_features(self.encode(text))[0, 0]
x = hub_utils.from_pretrained(folder, "model.pt", ".", archive_map=RobertaModel.hub_models(),
                              bpe="gpt2", load_checkpoint_heads=True, **files)
mine = Mine(x["args"], x["task"], x["models"][0])
mine.register_classification_head("new", num_classes=4)
show(vector=mine.vector("Hello world!"), training=mine.model.training, models=len(x["models"]),
     positions=mine.cfg.model.max_positions, width=mine.cfg["model"].encoder_embed_dim,
     classes=mine.model.classification_heads["new"].out_proj.out_features,
     heads=sorted(mine.model.classification_heads), limit=mine.model.max_positions())
""",
    "an ensemble, by checkpoint_utils": """
from argparse import Namespace
from fairseq import checkpoint_utils, utils
from fairseq.data import Dictionary, encoders
paths = [folder + "/model.pt", folder + "/other.pt"]
models, cfg, task = checkpoint_utils.load_model_ensemble_and_task(
    paths, arg_overrides={"data": folder, "dropout": 0.3, "load_checkpoint_heads": True})
bpe = encoders.build_bpe(Namespace(bpe="gpt2", **files))
d = Dictionary.load(folder + "/dict.txt")
line = "<s> " + bpe.encode("It was <not> good") + " </s>"
ids = task.source_dictionary.encode_line(line, append_eos=False, add_if_not_exist=False).long()
assert d.encode_line(line, append_eos=False, add_if_not_exist=False).tolist() == ids.tolist()
out = []
for model in models:
    model.eval()
    with torch.no_grad():
        logits = model(ids.unsqueeze(0), classification_head_name="mnli")[0]
    out.append(utils.log_softmax(logits, dim=-1))
show(average=torch.stack(out).exp().mean(0), string=d.string(ids), text=bpe.decode(d.string(ids)),
     dropout=cfg.model.dropout, size=len(task.source_dictionary) - len(d),
     sample=utils.move_to_cpu({"ids": [ids]})["ids"][0], item=utils.item(ids[1]))
""",
    "fine-tuning: gradients of a head and of the layers below": LOAD
    + """
from fairseq.data.data_utils import collate_tokens
for module in roberta.modules():
    if type(module).__name__ == "FairseqDropout":
        module.p = 0.0
roberta.train()
optimizer = torch.optim.SGD(roberta.model.parameters(), lr=0.1)
batch = collate_tokens([roberta.encode(t) for t in ("good", "bad film", "so so")], pad_idx=1)
losses = []
for step in range(3):
    optimizer.zero_grad()
    loss = F.nll_loss(roberta.predict("mnli", batch), torch.tensor([0, 1, 2]))
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
show(losses=losses)
""",
    "freezing by names": LOAD
    + """
for name, parameter in roberta.model.named_parameters():
    parameter.requires_grad = "classification_heads" in name
trained = [n for n, p in roberta.model.named_parameters() if p.requires_grad]
roberta.predict("mnli", roberta.encode("a", "b")).sum().backward()
show(trained=trained,
     moved=roberta.model.classification_heads["mnli"].dense.weight.grad.abs().sum().item() > 0,
     still=roberta.model.encoder.sentence_encoder.embed_tokens.weight.grad is None)
""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two checkpoints that fairseq wrote, with dict.txt."""
    place = tmp_path_factory.mktemp("model")
    data = peers.dictionary(tmp_path_factory.mktemp("data"))
    for name, seed in (("model.pt", 0), ("other.pt", 1)):
        peer = peers.fairseq_model(data, heads={"mnli": 3}, seed=seed)
        peers.save_era(peer, place, "plain", name=name)
    return place


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """GPT-2's encoder.json and vocab.bpe."""
    place = tmp_path_factory.mktemp("bpe")
    return peers.original_bpe() or peers.write_bpe(peers.shipped_tokens(), place)


def by_fairseq(script: Path, *arguments: object) -> Any:
    """What a script shows when real fairseq runs it, in this process."""
    peers.real_fairseq()
    output = script.with_suffix(".theirs.json")
    argv, sys.argv = sys.argv, [str(script), *map(str, arguments), str(output)]
    try:
        with peers.fairseq_loads_its_own_files():
            runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv = argv
    return json.loads(output.read_text())


def by_ours(script: Path, *arguments: object) -> Any:
    """What the same script shows under `roberta-hub run`."""
    output = script.with_suffix(".ours.json")
    done = forks.run("-m", "roberta_hub.run", script, *arguments, output, timeout=300)
    assert done.returncode == 0, done.stderr
    note = "roberta_hub: `import fairseq` means roberta_hub in this process, not "
    assert note in done.stderr  # real fairseq is installed
    return json.loads(output.read_text())


def assert_near(ours: Any, theirs: Any, where: str = "") -> None:
    """Equal texts and whole numbers, and other numbers within the tolerance."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key in theirs:
            assert_near(ours[key], theirs[key], f"{where}.{key}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for one, other in zip(ours, theirs, strict=True):
            assert_near(one, other, where)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, abs=TOLERANCE, rel=1e-6), where
    else:
        assert ours == theirs, where


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_as_it_is(
    name: str, folder: Path, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(BEGIN + SCRIPTS[name], encoding="utf-8")
    assert_near(by_ours(script, folder, *tables), by_fairseq(script, folder, *tables))


GLUE = """
from fairseq.models.roberta import RobertaModel
roberta = RobertaModel.from_pretrained(
    folder + "/checkpoints",
    checkpoint_file="checkpoint_best.pt",
    data_name_or_path=folder + "/RTE-bin",
    **files,
)
label_fn = lambda label: roberta.task.label_dictionary.string(
    [label + roberta.task.label_dictionary.nspecial]
)
roberta.eval()
ncorrect, nsamples, labels, rows = 0, 0, [], []
with open(folder + "/dev.tsv", encoding="utf-8") as fin:
    fin.readline()
    for line in fin:
        first, second, target = line.strip().split("\\t")[1:]
        tokens = roberta.encode(first, second)
        scores = roberta.predict("sentence_classification_head", tokens)
        labels.append(label_fn(scores.argmax().item()))
        rows.append(scores.squeeze(0).tolist())
        ncorrect += int(labels[-1] == target)
        nsamples += 1
show(labels=labels, accuracy=ncorrect / nsamples, rows=rows)
"""


def test_glues_loop_over_a_file(tables: tuple[Path, Path], tmp_path: Path) -> None:
    """fairseq's README for GLUE: a fine-tuned model, its data folder, its label dictionary."""
    data = peers.dictionary(tmp_path / "RTE-bin", labels=("not_entailment", "entailment"))
    peer = peers.fairseq_model(data, task="sentence_prediction", num_classes=2)
    if "sentence_classification_head" not in peer.model.classification_heads:
        peer.model.register_classification_head("sentence_classification_head", num_classes=2)
    peers.save_era(peer, tmp_path / "checkpoints", name="checkpoint_best.pt")
    (tmp_path / "dev.tsv").write_text(
        "index\tone\ttwo\tlabel\n"
        "0\tDana Reeve has died.\tChristopher Reeve died.\tnot_entailment\n"
        "1\tThe dog sleeps.\tAn animal sleeps.\tentailment\n"
        "2\tIt’s late — can’t wait.\tIt is 9.\tnot_entailment\n",
        encoding="utf-8",
    )
    script = tmp_path / "script.py"
    script.write_text(BEGIN + GLUE, encoding="utf-8")
    assert_near(by_ours(script, tmp_path, *tables), by_fairseq(script, tmp_path, *tables))


def test_the_parameters_that_0_12_has_beside_those_that_it_uses(tmp_path: Path) -> None:
    """Its unused second copies are the whole difference, and its state dict loads into ours."""
    sizes = {"encoder_layers": 3, "encoder_embed_dim": 64, "encoder_ffn_embed_dim": 128}
    data = peers.dictionary(tmp_path)
    peer = peers.fairseq_model(data, heads={"topic": 2}, max_positions=512, **sizes)
    peers.save_era(peer, tmp_path)
    ours, theirs = load_model(tmp_path), peers.hub_interface(tmp_path)
    copies = {name: p for name, p in theirs.model.named_parameters() if is_stale(name)}
    count = sum(p.numel() for p in theirs.parameters())
    assert count - sum(p.numel() for p in copies.values()) == sum(
        p.numel() for p in ours.parameters()
    )
    assert (count, sum(p.numel() for p in ours.parameters())) == (3_508_891, 3_409_243)
    with torch.no_grad():
        for parameter in ours.model.parameters():
            parameter.zero_()
    ours.load_state_dict(theirs.state_dict())
    assert len(copies) == 3 * 8
    for name, tensor in ours.state_dict().items():
        assert torch.equal(tensor, theirs.state_dict()[name]), name


@pytest.mark.parametrize("name", ["dropout_module", "activation_dropout_module", "self_attn"])
def test_dropout_of_one_module_spreads_as_far_as_in_fairseq(folder: Path, name: str) -> None:
    """Monte Carlo dropout of one layer in a model that is in eval mode otherwise."""
    spreads = []
    for roberta in (load_model(folder).eval(), peers.hub_interface(folder)):
        module = roberta.model.encoder.sentence_encoder.layers[1].get_submodule(name)
        getattr(module, "dropout_module", module).p = 0.2
        module.train()
        ids = roberta.encode("One of the two layers drops its values.")
        torch.manual_seed(0)
        with torch.no_grad():
            draws = torch.stack([roberta.extract_features(ids) for _ in range(400)])
        spreads.append(draws.std(0).mean().item())
    assert spreads[0] == pytest.approx(spreads[1], rel=0.05)


TEXTS = {
    'I said, "hello RoBERTa."': ["I", "said", ",", '"', "hello", "RoBERTa", ".", '"'],
    "Don't over-think it": ["Do", "n't", "over", "-", "think", "it"],
    " leading and trailing ": ["leading", "and", "trail", "ing"],
    "antidisestablishmentarianism!": ["antidisestablishmentarianism!"],
    "a bcd e": ["abc", "d", "e"],
}


@pytest.mark.parametrize("text", TEXTS)
def test_words_are_aligned_as_in_fairseq(folder: Path, text: str) -> None:
    ours, theirs = load_model(folder).eval(), peers.hub_interface(folder)
    from fairseq.models.roberta import alignment_utils

    ids = ours.encode(text)
    found = align_bpe_to_words(ours, ids, TEXTS[text])
    assert found == alignment_utils.align_bpe_to_words(theirs, ids, TEXTS[text])
    with torch.no_grad():
        features = ours.extract_features(ids).squeeze(0)
        wanted = alignment_utils.align_features_to_words(theirs, features, found)
        assert torch.allclose(align_features_to_words(ours, features, found), wanted, atol=1e-5)


def test_a_pickle_of_fairseqs_dictionary_is_read_where_its_names_are_ours(tmp_path: Path) -> None:
    peers.real_fairseq()
    from fairseq.data import Dictionary

    theirs = Dictionary()
    for symbol in ("13", "262", "<mask>"):
        theirs.add_symbol(symbol)
    (tmp_path / "dictionary.pickle").write_bytes(pickle.dumps(theirs))
    (tmp_path / "script.py").write_text(
        "import pickle\nd = pickle.load(open('dictionary.pickle', 'rb'))\n"
        "print(type(d).__module__, d.symbols[4:], d.index('262'), d.eos(), d.nspecial)"
    )
    done = forks.run("-m", "roberta_hub.run", "script.py", cwd=tmp_path)
    assert done.stdout == "roberta_hub.text.dictionary ['13', '262', '<mask>'] 5 2 4\n", done.stderr


PADDED = """
numbers = {}
for ids in ([[0, 9, 8, 2, 1, 1], [0, 7, 2, 1, 1, 1]], [[1, 1, 0, 9, 2], [0, 7, 1, 8, 2]],
            [[0, 9, 8, 2], [0, 5, 2, 1], [1, 1, 1, 1]]):
    batch = torch.tensor(ids)
    numbers[f"{ids}"] = torch.stack(roberta.extract_features(batch, return_all_hiddens=True))
    numbers[f"{ids} last"] = roberta.extract_features(batch).mean(1)
    numbers[f"{ids} logits"] = roberta.model(batch)[0]
show(**numbers)
"""


@pytest.mark.parametrize("arch", ["roberta_base", "roberta_prenorm"])
def test_states_at_padding_of_each_kind_of_layer(
    arch: str, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    """Padding on each side, in the middle, and a row of nothing else."""
    peers.dictionary(tmp_path, 60)
    peers.save_era(peers.fairseq_model(tmp_path, arch), tmp_path / "model", "plain")
    script = tmp_path / "script.py"
    script.write_text(BEGIN + LOAD + PADDED)
    theirs = by_fairseq(script, tmp_path / "model", *tables)
    assert_near(by_ours(script, tmp_path / "model", *tables), theirs)
