"""fairseq's names in a process that asks for them, and in one that does not."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import forks
import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests/data/fairseq"
ASKED = "import roberta_hub; roberta_hub.as_fairseq()\n"
NOTE = "roberta_hub: `import fairseq` means roberta_hub in this process, not "


def answer(code: str, *arguments: object, ask: bool = True, **more: Any) -> Any:
    """Run code in a process that asks, and return what it prints as JSON."""
    lines = (ASKED if ask else "") + "import json\n" + textwrap.dedent(code)
    done = forks.run("-c", lines, *arguments, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


OURS = {
    "from fairseq.models.roberta import RobertaModel": "roberta_hub.hub.RobertaModel",
    "from fairseq.models.roberta import XLMRModel": "roberta_hub.hub.XLMRModel",
    "from fairseq.models.roberta import CamembertModel": "roberta_hub.hub.CamembertModel",
    "from fairseq.models.roberta import GottbertModel": "roberta_hub.hub.GottbertModel",
    "from fairseq.models.roberta import RobertaHubInterface": (
        "roberta_hub.interface.RobertaHubInterface"
    ),
    "from fairseq.models.roberta.hub_interface import RobertaHubInterface": (
        "roberta_hub.interface.RobertaHubInterface"
    ),
    "from fairseq.models.roberta.model_xlmr import XLMRModel": "roberta_hub.hub.XLMRModel",
    "from fairseq.data.data_utils import collate_tokens": (
        "roberta_hub.model.packing.collate_tokens"
    ),
    "from fairseq.data import Dictionary": "roberta_hub.text.dictionary.Dictionary",
    "from fairseq.data.dictionary import Dictionary": "roberta_hub.text.dictionary.Dictionary",
    "from fairseq.modules import FairseqDropout": "roberta_hub.model.dropout.FairseqDropout",
    "from examples.roberta.wsc.wsc_utils import jsonl_iterator": (
        "roberta_hub.fairseq_names.pronoun_files.jsonl_iterator"
    ),
}
MODULES = (
    "from fairseq.data import encoders",
    "from fairseq.models.roberta import alignment_utils",
    "from fairseq import hub_utils",
    "from fairseq import checkpoint_utils",
    "from fairseq import utils",
    "from fairseq import tasks",
    "import fairseq.data.data_utils as data_utils",
    "from examples.roberta.wsc import wsc_utils",
    "from examples.roberta import commonsense_qa",
)


def test_each_name_is_the_very_object_of_ours() -> None:
    found = answer(
        """
        import sys
        from importlib import import_module
        found = {}
        for line in json.loads(sys.argv[1]):
            names = {}
            exec(line, names)
            name = line.split()[-1]
            home, _, own = f"{names[name].__module__}.{names[name].__qualname__}".rpartition(".")
            assert getattr(import_module(home), own) is names[name]
            found[line] = f"{home}.{own}"
        print(json.dumps(found))
        """,
        json.dumps(list(OURS)),
    )
    assert found == OURS


@pytest.mark.parametrize("line", MODULES)
def test_each_module(line: str) -> None:
    name = line.split()[-1]
    found = answer(
        f"""
        {line}
        print(json.dumps([repr({name}), dir({name}), {name}.__all__]))
        """
    )
    assert found[0].endswith("(roberta_hub)>")
    assert set(found[2]) <= set(found[1])


def test_import_fairseq_alone_has_all_modules() -> None:
    """As in fairseq, whose own __init__ imports them."""
    assert answer(
        """
        import fairseq
        model = fairseq.models.roberta.RobertaModel
        batch = fairseq.data.data_utils.collate_tokens
        load = fairseq.checkpoint_utils.load_model_ensemble
        print(json.dumps([fairseq.__version__, model.__name__, batch.__name__, load.__name__]))
        """
    ) == ["0.12.2", "RobertaModel", "collate_tokens", "load_model_ensemble"]


ABSENT = {
    "import fairseq.criterions": ["losses of its trainer", "roberta-hub train"],
    "from fairseq.criterions import register_criterion": ["losses", "roberta-hub train"],
    "from fairseq.models import register_model": ["registry", "fairseq.models has roberta here"],
    "from fairseq.models.roberta import RobertaEncoder": ["roberta.model has them", "XLMRModel"],
    "from fairseq.models.roberta import RobertaModle": ["did you mean RobertaModel?"],
    "from fairseq.models.bart import BARTModel": ["models that are no RoBERTa", "fairseq itself"],
    "from fairseq.data import MaskTokensDataset": ["datasets of its trainer", "Dictionary"],
    "from fairseq.data.encoders.utils import get_whole_word_mask": ["encoders.build_bpe(NAME)"],
    "from fairseq.modules import TransformerSentenceEncoderLayer": ["transformers' files"],
    "from fairseq.modules import TransformerSentenceEncoder": ["model.encoder.sentence_encoder"],
    "from fairseq.examples.roberta.wsc import wsc_utils": ["disambiguate_pronoun"],
    "from fairseq.tasks.masked_lm import MaskedLMTask": ["get_task and setup_task"],
    "from fairseq.utils import eval": ["utils.model_eval is the same"],
    "from fairseq.tasks import register_task": ["tasks of its trainer", "setup_task"],
    "from fairseq.utils import import_user_module": ["tools of its trainer", "move_to_cuda"],
    "from fairseq.hub_utils import GeneratorHubInterface": ["translators", "from_pretrained"],
    "from fairseq import options, tasks": ["commands of its shell", "roberta-hub train"],
    "from fairseq import nothing": ["fairseq.nothing is not offered", "fairseq itself"],
    "import fairseq.nothing.below": ["fairseq.nothing is not offered"],
    "from fairseq_cli.train import cli_main": ["roberta-hub train"],
    "from examples.roberta.wsc import wsc_task": ["disambiguate_pronoun", "train --fairseq"],
    "from examples.roberta.wsc.wsc_criterion import WSCCriterion": ["losses of WSC"],
    "from examples.roberta.wsc.wsc_utils import get_detokenizer": ["text as it is written"],
    "from examples.roberta.wsc.wsc_utils import jsonl_iteratr": ["did you mean jsonl_iterator?"],
    "from examples.roberta.commonsense_qa import commonsense_qa_task": ["roberta.choose answers"],
    "import examples.roberta.preprocess_RACE": ["recipes", "roberta-hub preprocess"],
    "from examples.roberta import multiprocessing_bpe_encoder": ["roberta-hub preprocess"],
}


def test_any_other_name_is_an_import_error_that_says_what_to_do() -> None:
    found = answer(
        """
        import sys
        found = {}
        for line in json.loads(sys.argv[1]):
            try:
                exec(line)
            except ImportError as error:
                found[line] = str(error)
        print(json.dumps(found))
        """,
        json.dumps(list(ABSENT)),
    )
    assert found.keys() == ABSENT.keys()
    for line, words in ABSENT.items():
        assert [word for word in words if word not in found[line]] == [], found[line]


WHERE = """
import importlib, os, sys
os.chdir(sys.argv[1])
sys.path.insert(0, sys.argv[1])
found = {}
for name in ("examples.roberta.wsc.wsc_utils", "examples.roberta.commonsense_qa", "examples.mine",
             "examples.roberta.preprocess_RACE", "examples.other"):
    try:
        module = importlib.import_module(name)
        found[name] = "ours" if module.__spec__.origin == "roberta_hub" else "theirs"
    except ImportError as error:
        found[name] = type(error).__name__
print(json.dumps(found))
"""


def test_a_folder_called_examples_stays_the_scripts_own(tmp_path: Path) -> None:
    """And in a clone of fairseq the recipes that import its trainer are ours."""
    modules = ("examples.roberta.wsc.wsc_utils", "examples.roberta.commonsense_qa")
    ours = dict.fromkeys(modules, "ours")
    absent = {"examples.mine": "ModuleNotFoundError", "examples.other": "ModuleNotFoundError"}
    race = {"examples.roberta.preprocess_RACE": "NotOfferedError"}
    assert answer(WHERE, tmp_path) == {**ours, **absent, **race}
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/mine.py").touch()
    assert answer(WHERE, tmp_path) == {**ours, **absent, **race, "examples.mine": "theirs"}
    for name in ("wsc", "commonsense_qa"):
        (tmp_path / "examples/roberta" / name).mkdir(parents=True)
        (tmp_path / "examples/roberta" / name / "__init__.py").write_text("import nothing_there")
    (tmp_path / "examples/roberta/preprocess_RACE.py").touch()
    race = {"examples.roberta.preprocess_RACE": "theirs"}
    assert answer(WHERE, tmp_path) == {**ours, **absent, **race, "examples.mine": "theirs"}
    assert answer(WHERE, tmp_path, ask=False)["examples.roberta.wsc.wsc_utils"] != "ours"


def test_another_attribute_is_an_attribute_error_that_says_the_same() -> None:
    found = answer(
        """
        import fairseq
        found = [hasattr(fairseq.utils, "nothing"), getattr(fairseq, "optim", 1)]
        try:
            fairseq.optim
        except AttributeError as error:
            found.append(str(error))
        try:
            fairseq.data.data_utils.colate_tokens
        except AttributeError as error:
            found.append(str(error))
        print(json.dumps(found))
        """
    )
    assert found[:2] == [False, 1]
    assert "optimizers and schedules" in found[2] and "roberta-hub train" in found[2]
    assert "did you mean collate_tokens?" in found[3]


# ---- torch.hub ----


@pytest.mark.parametrize(
    "repository",
    [
        "pytorch/fairseq",
        "facebookresearch/fairseq",
        "pytorch/fairseq:main",
        "pytorch/fairseq:v0.9.0",
    ],
)
def test_torch_hubs_repository_of_fairseq(repository: str) -> None:
    found = answer(
        f"""
        import torch
        keywords = {{"pretrained": False, "force_reload": True, "trust_repo": True}}
        roberta = torch.hub.load({repository!r}, "roberta.large", device="meta", **keywords)
        small = {{"pretrained": False, "device": "meta"}}
        camembert = torch.hub.load({repository!r}, model="camembert", **small)
        found = [type(roberta).__module__, roberta.args.encoder_layers, roberta.training]
        found += [camembert.cfg.num_layers, "xlmr.large" in torch.hub.list({repository!r})]
        print(json.dumps([*found, torch.hub.help({repository!r}, "roberta.large")]))
        """
    )
    assert found[:5] == ["roberta_hub.interface", 24, True, 12, True]
    assert "RoBERTa" in found[5]


def test_a_clone_of_fairseq_on_this_disk(tmp_path: Path) -> None:
    """`source="local"` runs the clone's hubconf.py, which imports what is not offered."""
    place = tmp_path / "clone" / "fairseq" / "models" / "roberta" / "hub_interface.py"
    place.parent.mkdir(parents=True)
    place.write_text("")
    (tmp_path / "clone" / "hubconf.py").write_text("from fairseq.models import MODEL_REGISTRY\n")
    found = answer(
        """
        import sys, torch
        small = {"pretrained": False, "device": "meta", "source": "local"}
        roberta = torch.hub.load(sys.argv[1], "roberta.base", **small)
        print(json.dumps([type(roberta).__module__, roberta.args.encoder_layers]))
        """,
        tmp_path / "clone",
    )
    assert found == ["roberta_hub.interface", 12]


def test_other_repositories_and_other_models_of_torch_hub(tmp_path: Path) -> None:
    (tmp_path / "hubconf.py").write_text("def thing(n=1):\n    return n + 1\n")
    found = answer(
        """
        import sys, torch
        found = [torch.hub.load(sys.argv[1], "thing", source="local", n=4)]
        try:
            torch.hub.load("pytorch/fairseq", "transformer.wmt19.en-de")
        except KeyError as error:
            found.append(str(error))
        print(json.dumps(found))
        """,
        tmp_path,
    )
    assert found[0] == 5
    assert "no model 'transformer.wmt19.en-de'" in found[1] and "fairseq itself" in found[1]


# ---- an installed fairseq ----


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with a package that is called fairseq."""
    package = tmp_path / "site" / "fairseq"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("whose = 'theirs'\n")
    (package / "utils.py").write_text("whose = 'theirs'\n")
    return package


def test_ours_win_over_an_installed_fairseq_and_a_line_says_so(installed: Path) -> None:
    code = "import fairseq.utils\nprint(hasattr(fairseq, 'whose'), fairseq.utils.item(3))"
    done = forks.run(
        "-c", f"import sys; sys.path.insert(0, {str(installed.parent)!r})\n{ASKED}{code}"
    )
    assert (done.returncode, done.stdout) == (0, "False 3\n")
    assert done.stderr == f"{NOTE}{installed}\n"


def test_nothing_is_shadowed_where_nobody_asks(installed: Path) -> None:
    code = f"""
        import sys; sys.path.insert(0, {str(installed.parent)!r})
        before = list(sys.meta_path)
        import roberta_hub, torch
        load = torch.hub.load
        roberta_hub.load_model("roberta.base", pretrained=False, device="meta")
        import roberta_hub.fairseq_names.importing
        import fairseq.utils
        found = [fairseq.whose, fairseq.utils.whose, sys.meta_path == before]
        print(json.dumps([*found, torch.hub.load is load, load.__module__]))
        """
    assert answer(code, ask=False) == ["theirs", "theirs", True, True, "torch.hub"]


def test_asking_after_fairseq_itself_was_imported_is_an_error(installed: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(installed.parent)!r})\nimport fairseq\n{ASKED}"
    done = forks.run("-c", code)
    assert done.returncode == 1
    assert "fairseq itself is imported already" in done.stderr
    assert "call roberta_hub.as_fairseq() before" in done.stderr


def test_asking_twice_is_asking_once_and_the_bridge_says_who_asked(installed: Path) -> None:
    code = """
        import sys
        before = len(sys.meta_path)
        roberta_hub.as_fairseq()
        from roberta_hub.fairseq_bridge import import_fairseq
        try:
            import_fairseq()
        except ValueError as error:
            print(json.dumps([len(sys.meta_path) - before, str(error)]))
        """
    found = answer(code)
    assert found[0] == 0
    assert "as_fairseq()" in found[1] and "process that did not ask" in found[1]


# ---- what the functions do ----


def test_hub_utils_gives_the_parts_of_an_interface() -> None:
    found = answer(
        """
        import sys, torch
        from fairseq import hub_utils
        from fairseq.models.roberta import RobertaHubInterface, RobertaModel
        keywords = {"archive_map": RobertaModel.hub_models(), "load_checkpoint_heads": True}
        x = hub_utils.from_pretrained(sys.argv[1], "model.pt", ".", bpe="gpt2", **keywords)
        roberta = RobertaHubInterface(x["args"], x["task"], x["models"][0]).eval()
        whole = RobertaModel.from_pretrained(sys.argv[1]).eval()
        ids = whole.encode("Hello world!")
        same = torch.equal(roberta.extract_features(ids), whole.extract_features(ids))
        args = x["args"]
        assert args.model.max_positions == args["model"]["max_positions"]
        assert args.model.max_positions == whole.args.max_positions
        assert roberta.cfg is args and args.task.data == sys.argv[1]
        assert (roberta.labels, roberta.source, roberta.family) == (
            whole.labels, whole.source, whole.family)
        map = {"mine": {"path": sys.argv[1], "checkpoint_file": "model.pt", "dropout": 0.3}}
        mine = hub_utils.from_pretrained("mine", archive_map=map)["models"]
        print(json.dumps([same, len(mine), mine[0].args.dropout, roberta.decode(ids)]))
        """,
        SAMPLE,
    )
    assert found == [True, 1, 0.3, "Hello world!"]


def test_checkpoint_utils() -> None:
    found = answer(
        """
        import sys, torch
        from fairseq import checkpoint_utils
        path = sys.argv[1] + "/model.pt"
        models, cfg, task = checkpoint_utils.load_model_ensemble_and_task(
            [path, path], arg_overrides={"data": sys.argv[1], "dropout": 0.25})
        again, same = checkpoint_utils.load_model_ensemble([path], task=task)
        state = checkpoint_utils.load_checkpoint_to_cpu(path, {"dropout": 0.5})
        assert cfg["model"].dropout == 0.25 and same.model.dropout != 0.25
        assert state["cfg"].model.dropout == state["cfg"]["model"]["dropout"] == 0.5
        models[0].load_state_dict(state["model"])
        first = state["model"]["encoder.sentence_encoder.embed_tokens.weight"]
        found = [len(models), len(again), first.shape[0] == len(task.source_dictionary)]
        try:
            checkpoint_utils.load_model_ensemble(["/nowhere/model.pt"])
        except OSError as error:
            found.append(str(error))
        print(json.dumps(found))
        """,
        SAMPLE,
    )
    assert found == [2, 1, True, "Model file not found: /nowhere/model.pt"]


def test_tasks_and_encoders(tmp_path: Path) -> None:
    for name, lines in {
        "input0/dict.txt": "13 5\n262 4\n",
        "label/dict.txt": "yes 3\nno 2\n",
    }.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(lines)
    found = answer(
        """
        import sys
        from argparse import Namespace
        from fairseq import tasks
        from fairseq.data import Dictionary, encoders
        task = tasks.setup_task(Namespace(task="sentence_prediction", data=sys.argv[1]))
        found = [task.source_dictionary.symbols[4:], task.label_dictionary.symbols[4:]]
        found.append(task.mask_idx)
        bpe = encoders.build_bpe(Namespace(bpe="gpt2"))
        found.append(bpe.decode(bpe.encode("can’t")))
        found.append(encoders.build_tokenizer(Namespace(tokenizer=None)))
        words = Dictionary.load(sys.argv[1] + "/input0/dict.txt")
        ids = words.encode_line("13 262 9", append_eos=False, add_if_not_exist=False)
        found.append(ids.tolist())
        for call in (lambda: tasks.setup_task(Namespace(task="translation", data=".")),
                     lambda: encoders.build_tokenizer("moses"),
                     lambda: encoders.build_bpe("bert")):
            try:
                call()
            except ValueError as error:
                found.append(str(error))
        print(json.dumps(found))
        """,
        tmp_path,
    )
    assert found[:6] == [["13", "262", "<mask>"], ["yes", "no"], 6, "can’t", None, [4, 5, 3]]
    assert "there are masked_lm" in found[6] and "BPE alone" in found[7] and "choose" in found[8]


def test_alignment_utils() -> None:
    found = answer(
        """
        import sys, torch
        from fairseq.models.roberta import RobertaModel, alignment_utils
        roberta = RobertaModel.from_pretrained(sys.argv[1]).eval()
        ids = roberta.encode("She can’t  wait: 日本.")
        words = ["She", "can", "’t", " ", "wait", ":", "日", "本", "."]
        found = alignment_utils.align_bpe_to_words(roberta, ids, words)
        features = roberta.extract_features(ids).squeeze(0)
        aligned = alignment_utils.align_features_to_words(roberta, features, found)
        near = torch.allclose(aligned.sum(0), features.sum(0), atol=1e-4)
        try:
            alignment_utils.align_bpe_to_words(roberta, ids, ["She", "could"])
        except ValueError as error:
            print(json.dumps([found, list(aligned.shape)[0], str(error), near]))
        """,
        SAMPLE,
    )
    assert [len(own) > 0 for own in found[0]] == [True] * 3 + [False] + [True] * 5
    assert found[1] == 2 + len(found[0]) and "other letters than the ids" in found[2]


def test_small_functions_on_tensors() -> None:
    assert answer(
        """
        import torch
        from fairseq import utils
        sample = {"ids": [torch.tensor([1.0]).half()], "n": (1, torch.tensor(2))}
        moved = utils.move_to_cpu(sample)
        layer = torch.nn.Dropout(0.5)
        try:
            with utils.model_eval(layer):
                inside = layer.training
                raise KeyError
        except KeyError:
            pass
        found = [str(moved["ids"][0].dtype), utils.item(moved["n"][1]), inside, layer.training]
        found += [utils.make_positions(torch.tensor([[1, 0, 9, 2], [0, 2, 1, 1]]), 1).tolist()]
        found += [utils.strip_pad(torch.tensor([0, 2, 1]), 1).tolist()]
        found += [utils.get_activation_fn("gelu")(torch.tensor(0.0)).item()]
        with utils.set_torch_seed(3):
            first = torch.rand(1)
        torch.manual_seed(3)
        found += [str(utils.log_softmax(torch.ones(2).half(), 0).dtype)]
        found += [bool(first == torch.rand(1))]
        print(json.dumps(found))
        """
    ) == [
        "torch.float32",
        2,
        False,
        True,
        [[1, 2, 3, 4], [2, 3, 1, 1]],
        [0, 2],
        0.0,
        "torch.float32",
        True,
    ]
