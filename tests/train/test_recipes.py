"""Every recipe composes to what it was when each of them listed all of its settings."""

import dataclasses
import json
import logging
from pathlib import Path

import pytest
from learning import ANIMALS, jsonl

from roberta_hub.train.config import CONF, GROUPS, compose, recipes
from roberta_hub.train.rates import BASE_WIDTH, MAX_RATE, rate_for, scale_rate
from roberta_hub.train.run import at_width, run

RECIPES = json.loads(Path(__file__).parents[1].joinpath("data/recipes.json").read_text())
"""Written by the last commit whose GLUE recipes shared nothing: `dataclasses.asdict` of each."""
GLUE = ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst_2", "sts_b")


def test_all_of_them_are_there():
    assert sorted(RECIPES) == sorted(f"{group}={n}" for group in GROUPS for n in recipes(group))


@pytest.mark.system
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_composes_to_the_same_configuration(recipe):
    found = dataclasses.asdict(compose([recipe]))
    assert found["loop"].pop("fairseq_files") is False
    assert found["optimizer"].pop("width") == (768 if recipe.startswith("finetune=") else None)
    assert found == RECIPES[recipe]


def test_a_setting_beside_a_recipe_changes_that_setting_alone():
    changed = dataclasses.asdict(compose(["finetune=mnli", "optimizer.total_updates=null"]))
    assert changed["optimizer"].pop("total_updates") is None
    assert changed["optimizer"].pop("width") == 768
    assert changed["loop"].pop("fairseq_files") is False
    expected = RECIPES["finetune=mnli"]
    optimizer = {k: v for k, v in expected["optimizer"].items() if k != "total_updates"}
    assert changed == {**expected, "optimizer": optimizer}


@pytest.mark.parametrize("name", GLUE)
def test_a_glue_recipe_says_only_what_differs(name):
    """No line of it repeats a line of the settings that all eight share."""
    shared = set((CONF / "glue.yaml").read_text().splitlines())
    own = (CONF / f"finetune/{name}.yaml").read_text().splitlines()
    repeated = [line for line in own if line in shared and line.startswith(" ")]
    assert repeated == []


# ---- the rate of a narrower model ----


def test_the_rate_grows_where_the_model_is_narrower_and_never_falls():
    for rate in (1e-5, 3e-5):
        found = [
            scale_rate(rate, width) for width in (64, 128, 256, 384, 512, 767, 768, 1024, 4096)
        ]
        assert found == sorted(found, reverse=True)
        assert found[-3:] == [rate] * 3 and max(found) <= MAX_RATE
        assert scale_rate(rate, BASE_WIDTH // 2) == pytest.approx(8 * rate)
    assert scale_rate(0.005, 64) == 0.005  # what is above the highest peak stays
    assert rate_for(384) == scale_rate(2e-5, 384)


@pytest.mark.parametrize("setting", ["optimizer.lr=2e-5", "++optimizer.lr=3e-5"])
def test_a_rate_that_the_caller_sets_is_never_scaled(setting):
    config = compose(["finetune=ner", setting])
    assert config.optimizer.width is None
    assert at_width(config, 64) is config
    asked = compose(["finetune=ner", setting, "optimizer.width=768"])
    assert at_width(asked, 64).optimizer.lr == MAX_RATE


@pytest.mark.system
def test_a_run_says_the_rate_that_it_takes(base, tmp_path, caplog):
    """In its first lines, and in train.json: from that file the same rate is taken again."""
    words = list(ANIMALS)
    rows = [{"words": ["a", w], "tags": ["O", "B-X" if w in words[:2] else "O"]} for w in words]
    train = jsonl(tmp_path / "x.jsonl", rows * 4)
    settings = ["finetune=ner", f"model={base}", f"data.train={train}", "loop.max_epochs=null"]
    settings += ["loop.max_updates=2", "loop.progress=false", "data.format=jsonl"]
    with caplog.at_level(logging.INFO, "roberta_hub"):
        run(compose([*settings, f"output={tmp_path}/one"]))
        mine = len(caplog.messages)
        run(compose([*settings, f"output={tmp_path}/two", "optimizer.lr=3e-5"]))
    width = json.loads((base / "config.json").read_text())["model"]["embed_dim"]
    rate = scale_rate(3e-5, width)
    said = f"learning rate {rate:.2g}: the recipe's 3e-05 is for models of width 768"
    first = next(message for message in caplog.messages[:mine] if "learning rate" in message)
    assert first.startswith(f"{said}, and this one has {width}; optimizer.lr=... sets another")
    assert caplog.messages.index(first) < 2
    assert not any("the recipe's" in message for message in caplog.messages[mine:])
    written = json.loads((tmp_path / "one/train.json").read_text())["optimizer"]
    assert (written["lr"], written["width"]) == (scale_rate(3e-5, width), None)
    assert json.loads((tmp_path / "two/train.json").read_text())["optimizer"]["lr"] == 3e-5
