"""Every recipe composes to what it was when each of them listed all of its settings."""

import dataclasses
import json
from pathlib import Path

import pytest

from roberta_hub.train.config import CONF, GROUPS, compose, recipes

RECIPES = json.loads(Path(__file__).parents[1].joinpath("data/recipes.json").read_text())
"""Written by the last commit whose GLUE recipes shared nothing: `dataclasses.asdict` of each."""
GLUE = ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst_2", "sts_b")


def test_all_of_them_are_there():
    assert sorted(RECIPES) == sorted(f"{group}={n}" for group in GROUPS for n in recipes(group))


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_composes_to_the_same_configuration(recipe):
    assert dataclasses.asdict(compose([recipe])) == RECIPES[recipe]


def test_a_setting_beside_a_recipe_changes_that_setting_alone():
    changed = dataclasses.asdict(compose(["finetune=mnli", "optimizer.total_updates=null"]))
    assert changed["optimizer"].pop("total_updates") is None
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
