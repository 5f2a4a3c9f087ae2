"""What public scripts of papers do with fairseq's hub, in our words: fairseq's numbers, our names.

All situations run in one process of each side, on checkpoints that real fairseq wrote. Each sets
`result`. The scripts themselves ran once as they are: benchmarks/results/public_scripts.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from . import peers
from .test_relatives_fairseq import write_vocabulary
from .test_unchanged_scripts import assert_near, by_fairseq, by_ours

pytestmark = [pytest.mark.parity, peers.needs_fairseq]
UNITS = [f"{a}-{b}" for a in range(9) for b in range(9)]

SITUATIONS = {
    "speech: units of a dictionary of its own, the last layers of each": """
roberta = RobertaModel.from_pretrained(folder + "/units", "kmeans.pt", "./", **files).eval()
units = roberta.task.source_dictionary
kept = {}
for name, line in (("a.wav", "1-2 3-4 99-1 5-5"), ("b.wav", "7-8 0-0")):
    ids = torch.LongTensor([0, *(units.index(unit) for unit in line.split()), 2]).unsqueeze(0)
    layers = roberta.extract_features(ids, return_all_hiddens=True)[-2:]
    kept[name] = torch.cat(layers, dim=-1).mean(dim=1).tolist()
line = "<s> 1-2 8-8 </s>"
again = units.encode_line(line, append_eos=False, add_if_not_exist=False).long()
padded = torch.nn.utils.rnn.pad_sequence([again, again[:2]], batch_first=True, padding_value=1)
result = [kept, again.tolist(), roberta.cfg.model.max_positions,
          roberta.extract_features(padded)[1, :2].tolist()]
""",
    "an engine of one's own in place of the BPE, registered by its name": """
from argparse import Namespace
from fairseq.data import encoders
from fairseq.data.encoders import register_bpe
@register_bpe("dashed")
class Dashed:
    def __init__(self, cfg):
        self.joint = cfg.joint
    def encode(self, text):
        return text.replace(self.joint, "-")
    def decode(self, symbols):
        return symbols.replace("-", self.joint)
roberta = RobertaModel.from_pretrained(folder + "/units", "kmeans.pt", **files).eval()
roberta.bpe = encoders.build_bpe(Namespace(bpe="dashed", joint="+"))
pair = roberta.encode("1+2 3+4", "8+8 none")
result = [pair.tolist(), roberta.decode(roberta.encode("1+2 3+4")), roberta.decode(pair[:-2]),
          roberta.extract_features(pair)[0, 0].tolist(), type(roberta.bpe).__name__]
""",
    "a class of one's own, with its own way to cut texts": """
from fairseq import hub_utils
from fairseq.models.roberta import RobertaHubInterface
class Mine(RobertaHubInterface):
    def __init__(self, args, task, model, table):
        super().__init__(args, task, model)
        self.bpe = table
    def encode(self, text):
        line = " ".join(["<s>", *(self.bpe.get(word, word) for word in text.split()), "</s>"])
        return self.task.source_dictionary.encode_line(line, append_eos=False,
                                                       add_if_not_exist=False).long()
class Loader(RobertaModel):
    @classmethod
    def load(cls, place, table):
        x = hub_utils.from_pretrained(place, "kmeans.pt", place, load_checkpoint_heads=True,
                                      **files)
        return Mine(x["args"], x["task"], x["models"][0], table)
mine = Loader.load(folder + "/units", {"one": "1-1", "two": "2-2"}).eval()
ids = mine.encode("one two 3-3")
result = [ids.tolist(), mine.extract_features(ids).tolist(), sorted(mine.bpe)]
""",
    "a model of saved arguments, its task by its class": """
from argparse import Namespace
from fairseq import tasks
from fairseq.data import Dictionary
from fairseq.models.roberta import RobertaHubInterface
args = Namespace(arch="roberta_base", encoder_layers=2, encoder_embed_dim=32, max_positions=40,
                 encoder_ffn_embed_dim=48, encoder_attention_heads=4, task="masked_lm",
                 tokens_per_sample=40, data=folder, bpe=Namespace(bpe="gpt2", **files))
for name, value in (("dropout", 0.1), ("attention_dropout", 0.1), ("activation_dropout", 0.0),
                    ("pooler_dropout", 0.0), ("activation_fn", "gelu"), ("seed", 1),
                    ("pooler_activation_fn", "tanh"), ("mask_whole_words", False)):
    setattr(args, name, value)
task = tasks.get_task("masked_lm")(args, Dictionary.load(folder + "/dict.txt"))
roberta = RobertaHubInterface(args, task, RobertaModel.build_model(args, task=task)).eval()
generator = torch.Generator().manual_seed(5)
unused = ("in_proj", "out_proj", "fc1", "fc2")
with torch.no_grad():
    for name, parameter in sorted(roberta.model.named_parameters()):
        if not any(f"{part}_weight" in name or f"{part}_bias" in name for part in unused):
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 10)
result = [roberta.extract_features(roberta.encode("Built, not loaded.")).tolist(),
          task.mask_idx, len(task.source_dictionary), roberta.model.max_positions()]
""",
    "neurons read and changed by hooks on layers": """
roberta = loaded()
body = roberta.model.encoder.sentence_encoder
seen = {}
def keep(name):
    return lambda module, inputs, output: seen.update({name: output.tolist()})
handles = [module.register_forward_hook(keep(name)) for name, module in (
    ("layer", body.layers[0]), ("norm", body.layers[1].final_layer_norm),
    ("inner", body.layers[0].fc1), ("tokens", body.embed_tokens))]
handles.append(body.register_forward_hook(
    lambda module, inputs, output: seen.update(out=output["encoder_out"][0].shape)))
batch = torch.stack([roberta.encode("He said so"), roberta.encode("She ran far")])
plain = roberta.predict("mnli", batch).tolist()
for handle in handles:
    handle.remove()
def change(module, inputs, output):
    output = output.clone()
    output[0, :, 3] = 2.0
    return output
changed = []
for layer in range(2):
    handle = body.layers[layer].final_layer_norm.register_forward_hook(change)
    changed.append(roberta.predict("mnli", batch).tolist())
    handle.remove()
again = roberta.predict("mnli", batch).tolist()
result = [seen | {"out": list(seen["out"])}, plain, changed, again]
""",
    "hooks where sentences are padded": """
from fairseq.data.data_utils import collate_tokens
roberta = loaded()
seen = []
layer = roberta.model.encoder.sentence_encoder.layers[1]
layer.register_forward_hook(lambda module, inputs, output: seen.append((inputs[0], output)))
batch = collate_tokens([roberta.encode(t) for t in ("One sentence is long.", "Short")], pad_idx=1)
roberta.extract_features(batch)
result = [seen[0][0].tolist(), seen[0][1].tolist(), list(seen[0][1].shape)]
""",
    "word order: positions shuffled, then put back": """
roberta = loaded()
table = roberta.model.encoder.sentence_encoder.embed_positions
ids, before = roberta.encode("The cat saw the dog"), table.weight.data.clone()
order = torch.arange(len(before) - 1, 0, -1)
table.weight.data = torch.cat([before[:1], before[order]])
shuffled = roberta.predict("mnli", ids).tolist()
table.weight.data = before
result = [shuffled, roberta.predict("mnli", ids).tolist()]
""",
    "dialogues: the first token of the last layers, turn by turn": """
from fairseq.data.data_utils import collate_tokens
roberta = loaded()
dialogues = [["Oh, hi!", "naïve café?", "Fine."], ["One turn"]]
result = []
for turns in dialogues:
    turns = [turn.encode("ascii", errors="ignore").decode("utf-8") for turn in turns]
    batch = collate_tokens([roberta.encode(turn) for turn in turns], pad_idx=1)
    layers = roberta.extract_features(batch, return_all_hiddens=True)
    result.append([layer[:, 0, :].detach().numpy().tolist() for layer in layers[-2:]])
""",
    "acceptability: lines of the BPE, cut to the limit, labels by the dictionary": """
from fairseq.data.data_utils import collate_tokens
roberta = loaded()
lines = [roberta.bpe.encode(text) for text in ("It works .", "works it", "a <unk> " * 40)]
batch = collate_tokens([roberta.task.source_dictionary.encode_line(
    "<s> " + line + " </s>", append_eos=False) for line in lines], pad_idx=1)[:, :64]
scores = roberta.predict("mnli", batch.long())
result = [[score.exp().max(axis=0)[0].item() for score in scores], list(batch.shape),
          str(batch.dtype), [roberta.bpe.decode(line) for line in lines]]
""",
    "hypotheses of a recognizer, scored one mask at a time, by workers": """
from torch.utils.data import DataLoader, Dataset
class Hypotheses(Dataset):
    texts = ["the cat sat", "a cat", "can't"]
    def __len__(self):
        return len(self.texts)
    def __getitem__(self, index):
        return {"text": self.texts[index], "length": len(roberta.encode(self.texts[index]))}
roberta = loaded()
torch.save(roberta.model, output + ".model")
roberta.model = torch.load(output + ".model", weights_only=False).eval()
result = []
for found in DataLoader(Hypotheses(), num_workers=2):
    ids, total = roberta.encode(found["text"][0]), 0.0
    for place in range(1, len(ids) - 1):
        kept, ids[place] = ids[place].item(), roberta.task.mask_idx
        logits = roberta.model(ids.unsqueeze(0))[0][0, place]
        total += F.log_softmax(logits, dim=0)[kept].item()
        ids[place] = kept
    result.append([found["length"].item(), total])
""",
    "facts: a word for each id, a batch padded by hand": """
roberta = loaded()
dictionary, words = roberta.task.source_dictionary, []
for number in [*range(300), *range(len(dictionary) - 6, len(dictionary) + 2)]:
    symbol = dictionary.string([number])
    try:
        words.append(roberta.bpe.decode(symbol))
    except Exception:
        words.append(symbol.strip())
rows = []
for text in ("Paris is in <mask>.", "<mask> eats"):
    spans = [roberta.bpe.encode(span.rstrip()) for span in text.split("<mask>")]
    line = ("<s> " + " <mask> ".join(spans)).strip()
    rows.append(dictionary.encode_line(line, append_eos=True))
places = [(row == roberta.task.mask_idx).nonzero().numpy()[0][0].item() for row in rows]
longest = max(map(len, rows))
batch = torch.stack([torch.cat((row, torch.full([longest - len(row)], dictionary.pad(),
                                                dtype=torch.int))) for row in rows])
scores, _ = roberta.model(batch.long(), features_only=False, return_all_hiddens=False)
best = [scores[i, place].topk(5) for i, place in enumerate(places)]
result = [[found.values.tolist() for found in best], [found.indices.tolist() for found in best],
          places, words]
""",
    "word vectors by an alignment of one's own, means of all layers": """
from fairseq.data.data_utils import collate_tokens
roberta = loaded()
sentences = ["The girl does n't sleep .".split(), "Antidisestablishmentarianism wins".split()]
ids, alignments = [], []
for words in sentences:
    pieces, own = [0], []
    for place, word in enumerate(words):
        line = roberta.bpe.encode(" " + word if place else word)
        found = roberta.task.source_dictionary.encode_line(line, append_eos=False,
                                                           add_if_not_exist=False).tolist()
        own.append(list(range(len(pieces), len(pieces) + len(found))))
        pieces += found
    ids.append(torch.LongTensor([*pieces, 2]))
    alignments.append(own)
layers = roberta.extract_features(collate_tokens(ids, pad_idx=1), return_all_hiddens=True)
mean = sum(layers[1:]) / (len(layers) - 1)
result = [alignments, [[row[own].sum(dim=0).tolist() for own in alignment]
                       for row, alignment in zip(mean, alignments)]]
""",
    "a tagger on top: features of the model alone, gradients, rates by layer": """
class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.roberta = loaded()
        self.model = self.roberta.model
        self.head = torch.nn.Linear(32, 3)
        torch.nn.init.constant_(self.head.bias, 0.1)
        with torch.no_grad():
            self.head.weight.copy_(torch.arange(96).view(3, 32) / 50 - 1)
    def forward(self, ids):
        return self.head(self.model(ids, features_only=True)[0])
tagger = Tagger().eval()
layers = tagger.model.encoder.sentence_encoder.layers
groups = [{"params": layers[i].parameters(), "lr": 0.01 * 0.5 ** (1 - i)} for i in range(2)]
optimizer = torch.optim.SGD([*groups, {"params": tagger.head.parameters()}], lr=0.05)
ids, gold, losses = tagger.roberta.encode("Ann lives in Rome").unsqueeze(0), [], []
gold = torch.arange(ids.numel()) % 3
for step in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(tagger(ids).view(-1, 3), gold)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
norm = torch.nn.utils.clip_grad_norm_(layers.parameters(), 0.1)
result = [losses, norm.item(), sorted(n for n, p in tagger.named_parameters() if p.grad is not None
          and "layers.1.fc1" in n)]
""",
    "embeddings taken out: a table copied, frozen, and asked for neighbours": """
roberta = loaded()
table = roberta.model.encoder.sentence_encoder.embed_tokens
copy = torch.nn.Embedding(table.num_embeddings, table.embedding_dim, table.padding_idx)
copy.load_state_dict(table.state_dict())
copy.weight.requires_grad = False
ids = roberta.encode(" king queen")
near = F.normalize(copy.weight, dim=-1) @ F.normalize(copy(ids[1:-1]), dim=-1).t()
result = [near.topk(3, dim=0).indices.tolist(), near.topk(3, dim=0).values.tolist(),
          list(copy.weight.shape), roberta.model.encoder.sentence_encoder.padding_idx]
""",
    "GPT-2's BPE by its classes, in several processes": """
from argparse import Namespace
from multiprocessing import Pool
from fairseq.data.encoders.gpt2_bpe import GPT2BPE, GPT2BPEConfig, get_encoder
from fairseq.tokenizer import tokenize_line
def begin():
    global engine
    engine = get_encoder(encoder, merges)
def cut(line):
    return " ".join(map(str, engine.encode(line.strip())))
globals().update(begin=begin, cut=cut)
lines = ["Hello world!", "", "can’t — naïve 日本"]
with Pool(2, initializer=begin) as pool:
    cuts = list(pool.imap(cut, lines, 1))
one = GPT2BPE(GPT2BPEConfig(gpt2_encoder_json=encoder, gpt2_vocab_bpe=merges))
other = GPT2BPE(Namespace(gpt2_encoder_json=encoder, gpt2_vocab_bpe=merges, seed=1))
result = [cuts, one.encode(lines[2]), other.decode(cuts[0]), tokenize_line(" a  b c "),
          one.is_beginning_of_word("464"), one.decode("464 <mask> 13")]
""",
    "Polish: SentencePiece's file by its older name, unit vectors of tokens": """
import numpy as np
from fairseq import hub_utils
from fairseq.models.roberta import RobertaHubInterface
spm = folder + "/pieces/sentencepiece.bpe.model"
x = hub_utils.from_pretrained(model_name_or_path=folder + "/pieces", checkpoint_file="model.pt",
    data_name_or_path=folder + "/pieces", bpe="sentencepiece", sentencepiece_vocab=spm,
    sentencepiece_model=spm, load_checkpoint_heads=True, archive_map=RobertaModel.hub_models(),
    cpu=False)
roberta = RobertaHubInterface(x["args"], x["task"], x["models"][0]).eval()
size = roberta.model.args.encoder_embed_dim
rows = []
for text in ("Le train de Paris", ".", "नमस्ते दुनिया"):
    found = roberta.extract_features(roberta.encode(text)).detach().numpy()[0]
    rows.append((found / np.linalg.norm(found, ord=2, axis=1, keepdims=True)).mean(0).tolist())
result = [rows, size]
""",
}
BEGIN = """
import json, sys
import torch
import torch.nn.functional as F
from fairseq.models.roberta import RobertaModel
folder, encoder, merges, output = sys.argv[1:5]
files = {"gpt2_encoder_json": encoder, "gpt2_vocab_bpe": merges}
def loaded():
    return RobertaModel.from_pretrained(folder, checkpoint_file="model.pt", **files).eval()
answers = {}
for title, code in json.load(open(sys.argv[0] + ".json")).items():
    torch.manual_seed(0)
    try:
        exec(compile(code, title, "exec"), globals())
        answers[title] = result
    except Exception as error:
        answers[title] = f"{type(error).__name__}: {error}"
json.dump(answers, open(output, "w"))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """What all situations give, here and in fairseq."""
    import json

    folder = tmp_path_factory.mktemp("models")
    data = peers.dictionary(folder)
    peers.save_era(peers.fairseq_model(data, heads={"mnli": 3}), folder)
    units = peers.dictionary(folder / "units", UNITS)
    peers.save_era(peers.fairseq_model(units, seed=1), units, "args", name="kmeans.pt")
    write_vocabulary("xlmr", folder / "pieces")
    peers.save_era(peers.fairseq_model(folder / "pieces", seed=2), folder / "pieces", "args")
    place = tmp_path_factory.mktemp("bpe")
    tables = peers.original_bpe() or peers.write_bpe(peers.shipped_tokens(), place)
    script = place / "situations.py"
    script.write_text(BEGIN, encoding="utf-8")
    Path(f"{script}.json").write_text(json.dumps(SITUATIONS), encoding="utf-8")
    return by_ours(script, folder, *tables), by_fairseq(script, folder, *tables)


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation(name: str, found: tuple[dict[str, Any], dict[str, Any]]) -> None:
    ours, theirs = found
    assert not isinstance(theirs[name], str), theirs[name]
    assert not isinstance(ours[name], str), ours[name]
    assert_near(ours[name], theirs[name], name)
