"""fairseq's READMEs from train to evaluate: its command trains here, its loop evaluates in both.

The files that a command leaves are loaded by real fairseq 0.12.2 and by `roberta-hub run`, and the
READMEs' scripts show the same numbers.
"""

from __future__ import annotations

import json
import os
import random
import shlex
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import small_roberta

from roberta_hub import RobertaModel, load_model
from roberta_hub.shell.main import main
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.train.run import command

from . import peers
from .test_unchanged_scripts import assert_near, by_fairseq, by_ours

pytestmark = [pytest.mark.parity, peers.needs_fairseq]
FINE_TUNING = """
--restore-file start/model.pt --max-positions 48 --batch-size 8 --max-tokens 4400
--reset-optimizer --reset-dataloader --reset-meters --required-batch-size-multiple 1
--arch roberta_large --dropout 0.1 --attention-dropout 0.1 --weight-decay 0.1 --optimizer adam
--adam-betas "(0.9, 0.98)" --adam-eps 1e-06 --clip-norm 0.0 --lr-scheduler polynomial_decay
--lr 2e-03 --total-num-update 20 --warmup-updates 2 --max-epoch 2 --find-unused-parameters
"""
"""What the READMEs' commands of fine-tuning share, with a higher rate."""
LABELLED = "--task sentence_prediction --criterion sentence_prediction --init-token 0 "
LABELLED += "--separator-token 2 "
ACCURACY = "--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric "
COMMANDS = {
    "RTE-bin": "CUDA_VISIBLE_DEVICES=0 fairseq-train RTE-bin/ --num-classes 2 --save-dir rte "
    + LABELLED
    + ACCURACY
    + FINE_TUNING,
    "SST-bin": "python train.py SST-bin --num-classes 3 --save-dir sst --classification-head-name "
    "mood --shorten-method truncate " + LABELLED + ACCURACY + FINE_TUNING,
    "STS-bin": "python -m fairseq_cli.train STS-bin --num-classes 1 --regression-target --save-dir "
    "sts --best-checkpoint-metric loss " + LABELLED + FINE_TUNING,
    "CQA": "fairseq-train --user-dir examples/roberta/commonsense_qa CQA --save-dir cqa --task "
    "commonsense_qa --init-token 0 --bpe gpt2 --num-classes 3 --criterion sentence_ranking "
    + ACCURACY
    + FINE_TUNING,
    "data-bin": """fairseq-train data-bin --save-dir 2024_01_05 --task masked_lm
    --criterion masked_lm --arch roberta_base --encoder-layers 2 --encoder-embed-dim 32
    --encoder-ffn-embed-dim 64 --encoder-attention-heads 4 --sample-break-mode complete
    --tokens-per-sample 48
    --max-positions 48 --optimizer adam --adam-betas '(0.9,0.98)' --lr-scheduler polynomial_decay
    --lr 0.0005 --warmup-updates 2 --total-num-update 20 --batch-size 4 --max-update 6""",
}
BEGIN = """
import json, sys
import torch
folder, encoder, merges, output = sys.argv[1:5]
files = {"gpt2_encoder_json": encoder, "gpt2_vocab_bpe": merges}
from fairseq.models.roberta import RobertaModel
"""
SCRIPTS = {
    # examples/roberta/README.glue.md
    "RTE-bin": """
roberta = RobertaModel.from_pretrained(
    'rte/', checkpoint_file='checkpoint_best.pt', data_name_or_path='RTE-bin', **files)
label_fn = lambda label: roberta.task.label_dictionary.string(
    [label + roberta.task.label_dictionary.nspecial])
ncorrect, nsamples, shown = 0, 0, []
roberta.eval()
with open('RTE.tsv') as fin:
    fin.readline()
    for index, line in enumerate(fin):
        sent1, sent2, target = line.strip().split('\\t')
        tokens = roberta.encode(sent1, sent2)
        prediction = roberta.predict('sentence_classification_head', tokens).argmax().item()
        prediction_label = label_fn(prediction)
        ncorrect += int(prediction_label == target)
        nsamples += 1
        shown.append(roberta.predict('sentence_classification_head', tokens).tolist())
accuracy = float(ncorrect) / float(nsamples)
result = [shown, accuracy, roberta.task.label_dictionary.symbols[:6], roberta.task.max_positions(),
          roberta.extract_features(tokens).tolist()]
""",
    # examples/roberta/README.custom_classification.md
    "SST-bin": """
roberta = RobertaModel.from_pretrained('sst', 'checkpoint_best.pt', 'SST-bin', **files)
roberta.eval()
label_fn = lambda label: roberta.task.label_dictionary.string(
    [label + roberta.task.label_dictionary.nspecial])
tokens = roberta.encode('Best movie this year')
result = [roberta.predict('mood', tokens).tolist(), label_fn(0), label_fn(1), label_fn(2)]
""",
    # examples/roberta/README.glue.md, for STS-B
    "STS-bin": """
roberta = RobertaModel.from_pretrained('sts/', 'checkpoint_best.pt', 'STS-bin', **files)
roberta.eval()
gold, pred = [], []
for line in open('STS.tsv').read().splitlines()[1:9]:
    sent1, sent2, target = line.split('\\t')
    tokens = roberta.encode(sent1, sent2)
    features = roberta.extract_features(tokens)
    predictions = 5.0 * roberta.model.classification_heads['sentence_classification_head'](features)
    gold.append(target)
    pred.append(predictions.item())
result = [gold, pred]
""",
    # examples/roberta/commonsense_qa/README.md
    "CQA": """
roberta = RobertaModel.from_pretrained('cqa', 'checkpoint_best.pt', 'CQA', **files)
roberta.eval()
result = []
with open('CQA/valid.jsonl') as h:
    for line in h:
        example = json.loads(line)
        scores = []
        for choice in example['question']['choices']:
            input = roberta.encode(
                'Q: ' + example['question']['stem'], 'A: ' + choice['text'], no_separator=True)
            score = roberta.predict('sentence_classification_head', input, return_logits=True)
            scores.append(score)
        result.append([torch.cat(scores).tolist(), torch.cat(scores).argmax().item()])
""",
    # examples/roberta/README.pretraining.md
    "data-bin": """
roberta = RobertaModel.from_pretrained('2024_01_05', 'checkpoint_best.pt', 'data-bin', **files)
assert isinstance(roberta.model, torch.nn.Module)
roberta.eval()
last = RobertaModel.from_pretrained('2024_01_05', 'checkpoint_last.pt', 'data-bin', **files).eval()
tokens = roberta.encode('A line of text.')
result = [roberta.extract_features(tokens).tolist(), last.extract_features(tokens).tolist(),
          roberta.model(tokens.unsqueeze(0))[0][0, :, :50].tolist(), roberta.task.mask_idx]
""",
}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Data of each kind in a folder, which is the current one, and a model to begin with."""
    folder = tmp_path_factory.mktemp("readme")
    with chdir(folder):
        write_data()
        small_roberta(dropout=0.0).save("start", "fairseq")
        yield folder


def write_data() -> None:
    rng = random.Random(0)
    pairs = [(f"Film {i} is {'long ' * (i % 4)}.", f"It was {i % 7}.") for i in range(40)]
    tables = {
        "RTE": [rng.choice(["not_entailment", "not_entailment", "entailment"]) for _ in pairs],
        "STS": [f"{rng.random():.3f}" for _ in pairs],
        "SST": [rng.choice(["bad", "good", "good", "fair"]) for _ in pairs],
    }
    for name, labels in tables.items():
        rows = [
            (a, label) if name == "SST" else (a, b, label)
            for (a, b), label in zip(pairs, labels, strict=True)
        ]
        names = ("sentence", "label") if name == "SST" else ("sentence", "sentence2", "label")
        text = "\n".join("\t".join(row) for row in (names, *rows))
        Path(f"{name}.tsv").write_text(text + "\n")
        more = ["--regression"] if name == "STS" else []
        words = [f"{name}.tsv", "--valid", f"{name}.tsv", "--label", "label", *more]
        assert main(["preprocess", *words, "--output", f"{name}-bin"]) == 0
    Path("text.txt").write_text("".join(f"Line {i} of a text.\n" for i in range(60)))
    words = ["text.txt", "--valid", "text.txt", "--output", "data-bin"]
    assert main(["preprocess", *words]) == 0
    Path("CQA").mkdir()
    Dictionary.roberta().save("CQA/dict.txt", with_mask=False)
    for split in ("train", "valid"):
        with open(f"CQA/{split}.jsonl", "w") as file:
            for i in range(12):
                choices = [{"label": key, "text": f"{key} {i}"} for key in "ABC"]
                question = {"stem": f"Which is {i}?", "choices": choices}
                file.write(json.dumps({"answerKey": "ABC"[i % 3], "question": question}) + "\n")


@pytest.fixture(scope="module")
def trained(work: Path) -> dict[str, list[str]]:
    """Run each command, and list the files that it leaves."""
    found = {}
    for name, words in COMMANDS.items():
        assert command(["loop.progress=false", "--fairseq", *shlex.split(words)]) == 0, name
        place = shlex.split(words)[shlex.split(words).index("--save-dir") + 1]
        found[name] = sorted(os.listdir(work / place))
    return found


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return peers.original_bpe() or peers.write_bpe(
        peers.shipped_tokens(), tmp_path_factory.mktemp("bpe")
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_readmes_loop_runs_as_it_is(
    name: str,
    work: Path,
    trained: dict[str, list[str]],
    tables: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    assert {"checkpoint_best.pt", "checkpoint_last.pt"} <= set(trained[name])
    script = tmp_path / "script.py"
    script.write_text(f"{BEGIN}\n{SCRIPTS[name]}\njson.dump(result, open(output, 'w'))\n")
    theirs = by_fairseq(script, work, *tables)
    assert_near(by_ours(script, work, *tables), theirs)


def test_the_file_is_the_model_that_the_run_has_left(
    work: Path, trained: dict[str, list[str]]
) -> None:
    for kind in ("best", "last"):
        ours = load_model(f"rte/{kind}").eval()
        theirs = RobertaModel.from_pretrained("rte", f"checkpoint_{kind}.pt", "RTE-bin").eval()
        texts = [("Film 3 is long .", "It was 3."), ("Film 4 is .", "It was 2.")]
        assert theirs.classify(texts) == ours.classify(texts)
        assert (
            theirs.labels
            == ours.labels
            == {"sentence_classification_head": ("not_entailment", "entailment")}
        )
        for roberta in (ours, theirs):
            assert roberta.task.label_dictionary.symbols[4:6] == ["not_entailment", "entailment"]
    alone = load_model("rte/checkpoint_best.pt")  # dictionaries lie beside it
    assert alone.task.label_dictionary.symbols[4:6] == ["not_entailment", "entailment"]


def test_fairseq_goes_on_from_checkpoint_last(work: Path, trained: dict[str, list[str]]) -> None:
    """With its optimizer, as from its own file, and so does the same command here."""
    content = torch.load("rte/checkpoint_last.pt", weights_only=True)
    assert content["optimizer_history"][-1]["num_updates"] == 10
    model = content["cfg"]["model"]
    sizes: dict[str, Any] = {size: model[size] for size in peers.TINY}
    losses = peers.continue_training(
        work / "rte/checkpoint_last.pt",
        work / "RTE-bin",
        "sentence_prediction",
        updates=14,
        reset=False,
        stock=True,
        **sizes,
    )
    assert len(losses) == 4
    words = COMMANDS["RTE-bin"].replace("--max-epoch 2", "--max-epoch 3")
    assert command(["loop.progress=false", "--fairseq", *shlex.split(words)]) == 0
    content = torch.load("rte/checkpoint_last.pt", weights_only=True)
    assert content["optimizer_history"][-1]["num_updates"] == 15  # of its own state


def test_pretraining_from_random_weights_goes_on_by_the_same_command(
    work: Path, trained: dict[str, list[str]]
) -> None:
    """Not from checkpoint_last.pt: the state knows more, and the settings stay the same."""
    words = COMMANDS["data-bin"].replace("--max-update 6", "--max-update 8")
    assert command(["loop.progress=false", "--fairseq", *shlex.split(words)]) == 0
    content = torch.load("2024_01_05/checkpoint_last.pt", weights_only=True)
    assert content["optimizer_history"][-1]["num_updates"] == 8
