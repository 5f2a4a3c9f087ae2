"""Every recipe composes; a wrong name or value is a helpful sentence, not hydra's traceback."""

import dataclasses
import os
import re
from pathlib import Path

import pytest

from roberta_hub.errors import InputError, RobertaHubError, UnknownNameError
from roberta_hub.train.config import GROUPS, Config, check, compose, fields, recipes

RECIPES = [f"{group}={name}" for group in GROUPS for name in recipes(group)]


@pytest.mark.system
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_composes(recipe):
    config = compose([recipe, "data.train=a.tsv"])
    assert config.task.name != "???" and config.data.train == "a.tsv"


@pytest.mark.system
def test_published_numbers():
    """reference/fairseq.md section 3."""
    table = {
        "mnli": (1e-5, 32, 123873, 7432),
        "qnli": (1e-5, 32, 33112, 1986),
        "qqp": (1e-5, 32, 113272, 28318),
        "rte": (2e-5, 16, 2036, 122),
        "sst_2": (1e-5, 32, 20935, 1256),
        "mrpc": (1e-5, 16, 2296, 137),
        "cola": (1e-5, 16, 5336, 320),
        "sts_b": (2e-5, 16, 3598, 214),
    }
    for name, numbers in table.items():
        c = compose([f"finetune={name}"])
        found = (c.optimizer.lr, c.batch.batch_size, c.optimizer.total_updates)
        assert (*found, c.optimizer.warmup_updates) == numbers
        assert (c.optimizer.weight_decay, c.optimizer.eps, c.loop.max_epochs) == (0.1, 1e-6, 10)
    base = compose(["pretrain=base"])
    assert base.batch.max_tokens * base.batch.update_freq == 2048 * 512
    assert base.optimizer.lr == 5e-4 and not base.pretrained


def test_overrides():
    settings = ["finetune=mnli", "optimizer.warmup_updates=null", "optimizer.lr=3e-5"]
    settings += ["data.columns={sentence: text, label: stars}", "task.options.max_length=128"]
    settings += ["architecture.dropout=0.2", "data.train='a b=c.tsv'", "loop.max_minutes=9"]
    c = compose(settings)
    assert c.optimizer.warmup_updates is None and c.optimizer.lr == 3e-5
    assert c.data.columns == {"sentence": "text", "label": "stars"}
    assert c.task.options == {"truncate": True, "max_length": 128}
    assert c.architecture == {"dropout": 0.2} and c.data.train == "a b=c.tsv"
    assert c.loop.max_minutes == 9.0


@pytest.mark.parametrize(
    ("setting", "kind", "words"),
    [
        ("finetune=mnil", UnknownNameError, "no configuration finetune=mnil; did you mean mnli"),
        ("finetune=../x", UnknownNameError, "no configuration"),
        ("optimizer.lrr=1", UnknownNameError, "did you mean optimizer.lr"),
        ("lr=1", UnknownNameError, "did you mean optimizer.lr"),
        ("zebra=1", UnknownNameError, "train --help lists them"),
        ("hydra.run.dir=x", UnknownNameError, "no field 'hydra.run.dir'"),
        ("optimizer.lr=abc", InputError, "optimizer.lr=abc.*'abc'"),
        ("optimizer.lr=-1", InputError, "optimizer.lr is -1.0, must be at least 0"),
        ("optimizer.lr=nan", InputError, "optimizer.lr is nan"),
        ("optimizer.decay=fairsq", UnknownNameError, "did you mean fairseq"),
        ("loop.precision=bf61", UnknownNameError, "did you mean bf16"),
        ("architecture.embeddim=3", UnknownNameError, "did you mean embed_dim|embedding_dim"),
        ("optimizer.betas=[0.9]", InputError, "two numbers"),
        ("loop.max_updates=0", InputError, "must be at least 1"),
        ("data.train=a=b", InputError, "quote"),
        ("optimizer.lr=[1", InputError, "optimizer.lr="),
        ("mnli", InputError, "no setting; write name=value"),
        ("optimizer.warmup_updates=200000", InputError, "leaves nothing of the 123873 updates"),
        ("~optimizer.lr", InputError, "no setting"),
        ("optimizer.lr=${oops}", InputError, "oops"),
    ],
)
def test_wrong_settings(setting, kind, words):
    with pytest.raises(kind, match=words) as caught:
        compose(["finetune=mnli", setting])
    assert isinstance(caught.value, RobertaHubError) and "\n" not in str(caught.value)


def test_no_end_and_no_budget():
    config = Config()
    with pytest.raises(InputError, match="has no end"):
        check(config)
    config.loop.max_epochs = 1
    config.batch.max_tokens = None
    with pytest.raises(InputError, match="neither batch"):
        check(config)


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    """No change of folder, no outputs/, no logging, and another's hydra as it was."""
    import logging

    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.version import VersionBase, getbase

    before = getbase()
    monkeypatch.chdir(tmp_path)
    handlers = list(logging.getLogger().handlers)
    with initialize_config_dir(str(tmp_path), version_base="1.2"):
        theirs = GlobalHydra.instance().hydra
        compose(["finetune=rte"])
        assert GlobalHydra.instance().hydra is theirs
        assert str(getbase()) == "1.2"
    VersionBase.instance().version_base = before  # fairseq needs 1.1
    assert os.listdir(tmp_path) == [] and Path.cwd() == tmp_path
    assert logging.getLogger().handlers == handlers


def test_an_imported_fairseq_is_not_in_the_way():
    """It stores a "config" and groups such as "model" in the one store that hydra has."""
    from hydra.core.config_store import ConfigStore
    from parity.fairseq_peer import real_fairseq

    real_fairseq()
    before = dict(ConfigStore.instance().repo)
    assert "model" in before
    assert compose(["finetune=rte", "model=some/path"]).model == "some/path"
    assert ConfigStore.instance().repo == before


def test_fields_are_all_of_them():
    names = list(fields())
    assert len(set(names)) == len(names)
    config = dataclasses.asdict(Config())
    for name in names:
        value = config
        for part in name.split("."):
            value = value[part]


@pytest.mark.parametrize(
    "table",
    [
        ["data.train=mine.csv"],
        ["data.train=mine.parquet"],
        ["data.train=mine.csv.gz"],
        ["data.train=mine.tsv", "data.format=tsv"],
        ["data.train=mine.tsv", "data.columns={sentence: text}"],
        ["data.train=mine.jsonl", "data.columns.sentence=text"],
    ],
)
def test_a_recipe_fits_a_table_of_ones_own(table):
    """Its counts of updates are those of its published set."""
    c = compose(["finetune=sst_2", *table])
    assert c.data.format in (None, "tsv")
    found = (c.optimizer.warmup_updates, c.optimizer.total_updates, c.loop.max_updates)
    assert found == (None, None, None) and c.loop.max_epochs == 10
    said = compose(["finetune=sst_2", *table, "loop.max_updates=7", "optimizer.warmup_updates=2"])
    assert (said.loop.max_updates, said.optimizer.warmup_updates) == (7, 2)
    assert said.optimizer.total_updates is None


def test_a_recipe_keeps_its_numbers_with_its_own_set():
    for settings in (["data.train=SST-2/train.tsv"], ["data.train=x.csv", "data.format=sst_2"]):
        c = compose(["finetune=sst_2", *settings])
        assert c.data.format == "sst_2" and c.loop.max_updates == 20935
        assert c.optimizer.warmup_updates == 1256
    endless = compose(["finetune=winogrande", "data.train=x.csv", "data.columns={query: q}"])
    assert endless.loop.max_updates == 23750  # without epochs the run would have no end


@pytest.mark.parametrize("name", ["2024_01_05", "007", "1e5", "1_0", "true", "1.0", "nan"])
def test_a_setting_that_is_text_stays_text(name: str) -> None:
    """hydra reads 2024_01_05 as a number, and a folder may be called so."""
    config = compose(
        [
            "finetune=rte",
            f"data.train={name}",
            f"output={name}",
            f"task.head={name}",
            f"data.labels=[{name}, b, '{name}']",
            f"data.columns={{sentence: {name}, sentence2: [{name}, b]}}",
            f"data.columns.label={name}",
            f"task.options.separator={name}",
        ]
    )
    assert (config.data.train, config.output, config.task.head) == (name, name, name)
    assert config.data.labels == [name, "b", name]
    assert config.data.columns == {"sentence": name, "sentence2": [name, "b"], "label": name}
    assert config.task.options["separator"] == name


def test_a_setting_that_is_no_text_has_its_type() -> None:
    config = compose(["finetune=rte", "data.train=null", "seed=1_0", "optimizer.lr=1e-3"])
    assert (config.data.train, config.seed, config.optimizer.lr) == (None, 10, 1e-3)
    assert compose(["finetune=rte", "task.options.truncate=true"]).task.options == {
        "truncate": True
    }


@pytest.mark.parametrize(
    "setting",
    [
        "data.train='${oc.env:HOME}'",
        "data.train=${oc.env:HOME}",
        r"data.train=$\{oc.env\:HOME\}",
        r"data.train='\${oc.env:HOME}'",
        "data.columns={text: '${oc.decode:x}'}",
        "data.columns.text='${oc.${task.head}:HOME}'",
        "data.columns='${oc.env:HOME}'",
        "task.options.beside=[{head: '${oc.env:HOME}'}]",
        "seed=${oc.env:HOME}",
        "output='${hydra:runtime.cwd}'",
    ],
)
def test_no_setting_reads_the_environment(setting: str) -> None:
    with pytest.raises(InputError) as error:
        compose(["finetune=rte", "data.train=x.tsv", setting])
    assert str(Path.home()) not in str(error.value)
    assert "is not resolved; write the value itself" in str(error.value)


def test_other_settings_and_the_time_are_followed() -> None:
    config = compose(["finetune=rte", "data.train=x.tsv", "output='${task.name}/${now:%Y}'"])
    assert re.fullmatch(r"classification/20\d\d", config.output)
