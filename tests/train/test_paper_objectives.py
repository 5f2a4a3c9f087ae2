"""Next sentence, sentence order and the boundary of spans, beside what pre-training learns."""

import csv
import math
import random

import pytest
import torch
import torch.nn.functional as F
from families import write_family
from small_models import small_roberta

import roberta_hub
from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.train.config import compose
from roberta_hub.train.run import make_task, result, run
from roberta_hub.train.tasks.build import build_task
from roberta_hub.train.tasks.features import hidden
from roberta_hub.train.tasks.masked_lm import masked_loss

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
PLACES = ("garden", "town", "train", "school", "bridge", "house")


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """Documents that name one place in each sentence, and a small RoBERTa."""
    folder = tmp_path_factory.mktemp("papers")
    draw = random.Random(0)
    for name, count in (("train", 60), ("valid", 12)):
        documents = []
        for _ in range(count):
            place, other = draw.choice(PLACES), draw.choice(("dog", "teacher", "film"))
            documents.append(
                f"The {place} is old.\nWe were in the {place} for the {other}.\n"
                f"Was the {other} in the {place}?\nThe {place} would not know.\n"
            )
        (folder / f"{name}.txt").write_text("\n".join(documents))
    write_family("gottbert", folder / "roberta", **NO_DROPOUT)
    return folder


def settings(folder, output, *more, model=None):
    return [
        "pretrain=base",
        f"model={model or folder / 'roberta'}",
        "pretrained=true",
        f"data.train={folder}/train.txt",
        f"data.valid={folder}/valid.txt",
        f"output={output}",
        "batch.max_tokens=256",
        "batch.update_freq=1",
        "optimizer.lr=1e-3",
        "optimizer.warmup_updates=1",
        "optimizer.total_updates=null",
        "loop.max_updates=4",
        "loop.evaluate_every=0",
        "loop.precision=no",
        "loop.progress=false",
        *more,
    ]


def options(**values):
    given = {"block_size": 40, **values}
    listed = {k: f"[{', '.join(v)}]" if isinstance(v, list) else v for k, v in given.items()}
    return "task.options={" + ", ".join(f"{k}: {v}" for k, v in listed.items()) + "}"


NEXT = options(sentences="segment_pair", objectives=["next_sentence"])
ORDER = options(sentences="sentence_pair", objectives=["sentence_order"])
BOUNDARY = options(unit="span", objectives=["span_boundary"])


def test_the_boundary_loss_is_the_papers_formula(material, tmp_path):
    """Joshi et al. 2020, section 3.2, equation by equation, on each token of each span."""
    task = make_task(compose(settings(material, tmp_path, BOUNDARY)))
    module = task.module.train()
    own, head = module.objectives.boundary, module.roberta.encoder.lm_head
    with torch.no_grad():
        for parameter in own.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    batch = task.batch([0, 1, 2], epoch=0)
    loss = module(batch)
    loss.total.backward()
    found = {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}
    module.zero_grad()

    x = hidden(module.roberta, batch)
    chosen = set(batch.targets["rows"].tolist())
    ids = dict(zip(batch.targets["rows"].tolist(), batch.targets["ids"].tolist(), strict=True))
    bounds, terms = batch.packed.bounds.tolist(), []
    for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
        for i in range(start, stop):
            s = e = i
            while s - 1 in chosen and s > start:
                s -= 1
            while e + 1 in chosen and e + 1 < stop:
                e += 1
            if i not in chosen or s == start or e + 1 == stop or i - s >= 20:
                continue
            h0 = torch.cat([x[s - 1], x[e + 1], own.places.weight[i - s]])
            h1 = F.gelu(own.dense.weight @ h0 + own.dense.bias)
            h1 = F.layer_norm(h1, h1.shape, own.dense_norm.weight, own.dense_norm.bias)
            y = F.gelu(own.output.weight @ h1 + own.output.bias)
            y = F.layer_norm(y, y.shape, own.output_norm.weight, own.output_norm.bias)
            terms.append(-(head.weight @ y + own.bias).log_softmax(0)[ids[i]])
    assert len(terms) > 10 and max(batch.targets["boundary_places"]) > 0
    words = masked_loss(module.roberta, x[batch.targets["rows"]], batch.targets["ids"])
    wanted = words / batch.count + torch.stack(terms).mean()
    torch.testing.assert_close(loss.total / batch.count, wanted, atol=1e-5, rtol=1e-5)
    (wanted * batch.count).backward()
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(found[name], parameter.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.system
@pytest.mark.parametrize("how", [NEXT, ORDER, BOUNDARY], ids=["next", "order", "boundary"])
def test_a_run_that_is_stopped_goes_on_bit_for_bit(material, tmp_path, how):
    whole = run(compose(settings(material, tmp_path / "whole", how)))
    first = settings(material, tmp_path / "parts", how, "optimizer.total_updates=4")
    run(compose([*first, "loop.max_updates=2"]))
    second = run(compose([*first, "loop.max_updates=4"]))
    assert whole.update == second.update == 4
    for name, ours in result(whole).model.state_dict().items():
        assert torch.equal(ours, result(second).model.state_dict()[name]), name


def test_each_loss_is_reported_by_itself(material, tmp_path):
    for name, how, names in (
        ("next", NEXT, {"next_sentence_loss", "next_sentence_accuracy"}),
        ("order", ORDER, {"sentence_order_loss", "sentence_order_accuracy"}),
        ("boundary", BOUNDARY, {"span_boundary_loss"}),
    ):
        task = make_task(compose(settings(material, tmp_path / name, how)))
        numbers = task.evaluate()
        assert names | {"loss", "lm_loss", "perplexity"} <= numbers.keys()
        assert numbers["perplexity"] == pytest.approx(math.exp(min(numbers["lm_loss"], 700)))
        more = 1 if how is BOUNDARY else 0
        words = math.log(len(task.maskable.text))
        assert task.chance() == pytest.approx(words + (words if more else math.log(2)))
    config = compose(settings(material, tmp_path / "log", NEXT, "loop.log_every=1"))
    run(config)
    with (tmp_path / "log" / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        parts = float(row["lm_loss"]) + float(row["next_sentence_loss"])
        assert float(row["loss"]) == pytest.approx(parts, rel=1e-3)


def test_an_exact_mean_over_pairs(material, tmp_path):
    task = make_task(compose(settings(material, tmp_path, NEXT)))
    numbers, losses = task.evaluate(), []
    valid = task._valid
    with torch.no_grad():
        for k in range(len(valid)):
            batch, _ = task._masked(valid, [k], task.masking, 0, 0)
            head = task.module.roberta.classification_heads["nsp"]
            logits = head.out_proj(torch.tanh(head.dense(hidden(task.module.roberta, batch)[:1])))
            losses.append(F.cross_entropy(logits, batch.targets["segments"]))
    assert numbers["next_sentence_loss"] == pytest.approx(float(torch.stack(losses).mean()), 1e-5)


@pytest.mark.system
@pytest.mark.parametrize(
    ("family", "how", "head", "labels"),
    [
        ("bert", NEXT, "nsp", ("is_next", "not_next")),
        ("albert", ORDER, "sop", ("in_order", "swapped")),
    ],
)
def test_the_head_is_saved_as_transformers_reads_it(material, tmp_path, family, how, head, labels):
    """It is that of ForPreTraining; the pooler learns with it, and both train on once loaded."""
    transformers = pytest.importorskip("transformers")
    write_family(family, tmp_path / "model", head="pretraining")
    lines = settings(material, tmp_path / "run", how, model=tmp_path / "model")
    trained = result(run(compose(lines))).eval()
    model = trained.model
    assert trained.labels[head] == labels and trained.inputs[head] == "pair"
    dense = model.classification_heads[head].dense.weight
    assert torch.equal(dense, model.pooler.dense.weight)
    before = roberta_hub.load_model(tmp_path / "model").model.pooler.dense.weight
    assert not torch.equal(before, dense)
    trained.save(tmp_path / "out", format="huggingface")
    name = {"bert": "BertForPreTraining", "albert": "AlbertForPreTraining"}[family]
    theirs, about = getattr(transformers, name).from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert not about["missing_keys"] and not about["unexpected_keys"]
    ids = trained.encode("The house is old.", "We were in the house.")
    types = trained.tokenizer.layout.segments(ids)
    with torch.no_grad():
        out = theirs.eval()(ids[None], token_type_ids=types[None])
        logits = out.seq_relationship_logits if head == "nsp" else out.sop_logits
        ours = trained.predict(head, ids)
    torch.testing.assert_close(ours, logits.log_softmax(-1), atol=1e-5, rtol=1e-5)
    again = make_task(compose(settings(material, tmp_path / "b", how, model=tmp_path / "out")))
    assert torch.equal(again.module.roberta.classification_heads[head].dense.weight, dense)


def test_a_boundary_begins_from_the_texts_statistics(material, tmp_path):
    """Its bias is the LM head's, which knows how frequent tokens are."""
    how = BOUNDARY.replace("{", "{start: informed, ")
    config = compose(settings(material, tmp_path, how, "pretrained=false", model="roberta.base"))
    task = build_task(config, roberta_hub.load_model(material / "roberta").train())
    bias = task.module.roberta.encoder.lm_head.bias
    assert bias.std() > 0.1 and torch.equal(task.module.objectives.boundary.bias, bias)


@pytest.mark.system
@pytest.mark.parametrize(
    ("how", "known"), [(NEXT, {"nsp"}), (BOUNDARY, set())], ids=["next", "boundary"]
)
def test_a_roberta_begins_from_random_weights(material, tmp_path, how, known):
    """It leaves with the head of pairs, and without that of spans."""
    sizes = {"embed_dim": 8, "ffn_dim": 8, "num_layers": 1, "num_heads": 2, "max_positions": 48}
    shape = ", ".join(f"{name}: {size}" for name, size in sizes.items())
    more = ["pretrained=false", f"architecture={{{shape}}}", "loop.max_updates=1"]
    trained = result(run(compose(settings(material, tmp_path, how, *more, model="roberta.base"))))
    assert {*trained.model.classification_heads} == known == {*trained.labels}
    assert not [name for name in trained.model.state_dict() if "objectives" in name]


@pytest.mark.system
@pytest.mark.parametrize("how", [NEXT, ORDER, BOUNDARY], ids=["next", "order", "boundary"])
def test_each_objective_is_learnt(material, tmp_path, how):
    """Sentences of one document name one place, and their words show their order."""
    more = ["batch.max_tokens=512", "optimizer.lr=4e-3", "optimizer.clip_norm=1.0"]
    more += ["optimizer.warmup_updates=10", "loop.max_updates=250"]
    write_family("bert", tmp_path / "model", head="pretraining", **NO_DROPOUT)
    lines = settings(material, tmp_path / "run", how, *more, model=tmp_path / "model")
    first = make_task(compose(lines)).evaluate()
    found = run(compose([*lines, "loop.evaluate_every=250"])).metrics
    assert found["lm_loss"] < 0.5 * first["lm_loss"]
    if how is BOUNDARY:
        assert found["span_boundary_loss"] < 0.5 * first["span_boundary_loss"]
    else:
        (name,) = [name for name in found if name.endswith("_accuracy")]
        assert found[name] > 0.75


@pytest.mark.system
@pytest.mark.parametrize("how", [NEXT, ORDER, BOUNDARY], ids=["next", "order", "boundary"])
def test_half_precision(material, tmp_path, how):
    losses = {}
    for precision in ("no", "bf16"):
        lines = settings(material, tmp_path / precision, how, f"loop.precision={precision}")
        run(compose([*lines, "loop.log_every=1", "loop.max_updates=2"]))
        with (tmp_path / precision / "log.csv").open() as file:
            losses[precision] = [float(row["loss"]) for row in csv.DictReader(file)]
    assert losses["bf16"] == pytest.approx(losses["no"], rel=0.02)


@pytest.mark.system
def test_replaced_tokens_learn_next_sentences_too(material, tmp_path):
    lines = settings(material, tmp_path, NEXT, "task.name=replaced_tokens")
    task = make_task(compose(lines))
    loss = task.module(task.batch([0, 1, 2], epoch=0))
    loss.total.backward()
    assert not [name for name, p in task.module.named_parameters() if p.grad is None]
    assert {"lm_loss", "next_sentence_loss"} <= loss.logs.keys()
    trained = result(run(compose(lines)))
    assert {"nsp"} == {*trained.model.classification_heads} and trained.default_head == "replaced"


def test_pairs_may_come_without_a_question(material, tmp_path):
    task = make_task(compose(settings(material, tmp_path, options(sentences="segment_pair"))))
    asked = make_task(compose(settings(material, tmp_path / "b", NEXT)))
    one, other = (t.batch([0, 1, 2], epoch=1) for t in (task, asked))
    assert torch.equal(one.packed.ids, other.packed.ids)
    assert not task.module.roberta.classification_heads


def test_a_model_that_tells_segments_by_separators_gets_none_inside(material, tmp_path):
    """A RoBERTa with BERT's segments, which the first `</s>` divides."""
    small_roberta(num_layers=1, num_segments=2, separator_idx=2).save(tmp_path / "model")
    task = make_task(compose(settings(material, tmp_path, NEXT, model=tmp_path / "model")))
    tokenizer, model = task.interface.tokenizer, task.module.roberta
    assert tokenizer.layout.separators == 2 and model.config.num_segments == 2
    for ids in task._shards[0].inputs(range(8), 1, 0)[0]:
        assert ids.eq(tokenizer.eos).sum() == 3 and len(tokenizer.layout.split(ids.tolist())) == 2


def test_a_batch_without_spans_has_gradients_of_zero(material, tmp_path):
    task = make_task(compose(settings(material, tmp_path, BOUNDARY)))
    batch = task.batch([0, 1], epoch=0)
    none = {"sides": torch.empty(2, 0).long(), "places": torch.empty(0).long()}
    for name, empty in {**none, "ids": torch.empty(0).long()}.items():
        batch.targets[f"boundary_{name}"] = empty
    loss = task.module(batch)
    loss.total.backward()
    assert float(loss.logs["span_boundary_loss"]) == 0.0
    grads = [p.grad for p in task.module.objectives.parameters()]
    assert all(grad is not None and not grad.any() for grad in grads)


def test_the_best_checkpoint_may_be_chosen_by_an_objective(material, tmp_path):
    for metric, larger in (("next_sentence_accuracy", True), ("next_sentence_loss", False)):
        lines = settings(material, tmp_path / metric, NEXT, f"task.metric={metric}")
        assert make_task(compose(lines)).larger_is_better == larger


def test_documents_of_one_sentence_have_no_order(material, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The house is old.\n\nWhere is it?\nIt is here.\n\nThe end.\n")
    lines = [*settings(material, tmp_path / "run", ORDER), f"data.train={text}"]
    with pytest.warns(UserWarning, match="left out 2 documents of one sentence"):
        task = make_task(compose(lines))
    assert [bool(size) for size in task.lengths(0)] == [False, True, False]


def test_static_masks_have_static_pairs(material, tmp_path):
    how = NEXT.replace("{", "{copies: 2, ")
    task = make_task(compose(settings(material, tmp_path, how)))
    first, second, third = (task.batch([0, 1, 2, 3], epoch=e).packed.ids for e in range(3))
    assert torch.equal(first, third) and not torch.equal(first, second)
    assert list(task.lengths(0)) == list(task.lengths(2))


REFUSED = {
    "full": (NEXT.replace("segment_pair", "full"), "sentences=full makes inputs of one; set"),
    "both": (
        options(sentences="segment_pair", objectives=["next_sentence", "sentence_order"]),
        "name one of the two",
    ),
    "unit": (options(objectives=["span_boundary"]), r"unit=token masks none; set .*unit=span"),
    "twice": (options(objectives=["span_boundary"] * 2), "names span_boundary twice"),
    "teacher": (
        options(unit="span", objectives=["span_boundary"], teacher="x"),
        r"leave out task\.options\.objectives",
    ),
}


@pytest.mark.parametrize(("how", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_options_that_do_not_go_together(material, tmp_path, how, said):
    config = compose(settings(material, tmp_path, how))
    for go in (run, make_task):
        with pytest.raises(InputError, match=said):
            go(config)


@pytest.mark.system
def test_names_models_and_heads_that_do_not_fit(material, tmp_path):
    def task(*more, model=None):
        return make_task(compose(settings(material, tmp_path, *more, model=model)))

    with pytest.raises(UnknownNameError, match=r"'next_sentense'; did you mean next_sentence"):
        task(NEXT.replace("next_sentence", "next_sentense"))
    with pytest.raises(UnknownNameError, match=r"task\.options\.sentences is 'pairs'"):
        task(options(sentences="pairs"))
    with pytest.raises(InputError, match=r"replaced_tokens shows the model none; set task\.name"):
        task(BOUNDARY, "task.name=replaced_tokens")
    small_roberta(pooler_activation_fn="gelu").save(tmp_path / "no-pooler")
    with pytest.raises(InputError, match="learnt through BERT's pooler, and this model has none"):
        task(NEXT, model=tmp_path / "no-pooler")
    small_roberta(heads={"nsp": 3}).save(tmp_path / "other")
    with pytest.raises(InputError, match="learns in a head 'nsp' of two labels"):
        task(NEXT, model=tmp_path / "other")
