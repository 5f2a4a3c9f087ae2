"""Which of fairseq's names are offered, by its modules, and what to do instead of the others."""

from __future__ import annotations

from collections.abc import Callable

from roberta_hub.errors import RobertaHubError, slipped_names
from roberta_hub.other_names import FAIRSEQ_PROGRAMS

Names = dict[str, object]
VERSION = "0.12.2"
"""The fairseq whose names these are."""


class NotOfferedError(RobertaHubError, ModuleNotFoundError):
    """A module or name of fairseq's that has no equal here; the message says what to do."""


def _top() -> Names:
    return {"__version__": VERSION}


def _none() -> Names:
    return {}


def _roberta() -> Names:
    from roberta_hub.hub import CamembertModel, GottbertModel, RobertaModel, XLMRModel
    from roberta_hub.interface import RobertaHubInterface

    classes = (CamembertModel, GottbertModel, RobertaHubInterface, RobertaModel, XLMRModel)
    return {found.__name__: found for found in classes}


def _of_roberta(*names: str) -> Callable[[], Names]:
    return lambda: {name: found for name, found in _roberta().items() if name in names}


def _alignment() -> Names:
    from roberta_hub.fairseq_names.word_alignment import (
        align_bpe_to_words,
        align_features_to_words,
        spacy_nlp,
        spacy_tokenizer,
    )

    functions = (align_bpe_to_words, align_features_to_words, spacy_nlp, spacy_tokenizer)
    return {found.__name__: found for found in functions}


def _dictionary() -> Names:
    from roberta_hub.text.dictionary import Dictionary

    return {"Dictionary": Dictionary}


def _data_utils() -> Names:
    from roberta_hub.model.packing import collate_tokens

    return {"collate_tokens": collate_tokens}


def _encoders() -> Names:
    from roberta_hub.fairseq_names.loading import build_bpe, build_tokenizer, register_bpe

    functions = (build_bpe, build_tokenizer, register_bpe)
    return {found.__name__: found for found in functions}


def _gpt2() -> Names:
    from roberta_hub.fairseq_names.loading import GPT2BPEConfig, build_gpt2, get_encoder

    return {"GPT2BPE": build_gpt2, "GPT2BPEConfig": GPT2BPEConfig, "get_encoder": get_encoder}


def _gpt2_utils() -> Names:
    from roberta_hub.fairseq_names.loading import get_encoder

    return {"get_encoder": get_encoder}


def _lines() -> Names:
    from roberta_hub.fairseq_names.tensors import SPACE_NORMALIZER, tokenize_line

    return {"SPACE_NORMALIZER": SPACE_NORMALIZER, "tokenize_line": tokenize_line}


def _dropout() -> Names:
    from roberta_hub.model.dropout import FairseqDropout

    return {"FairseqDropout": FairseqDropout}


def _hub_utils() -> Names:
    from roberta_hub.fairseq_names.loading import from_pretrained

    return {"from_pretrained": from_pretrained}


def _checkpoint_utils() -> Names:
    from roberta_hub.fairseq_names.loading import (
        load_checkpoint_to_cpu,
        load_model_ensemble,
        load_model_ensemble_and_task,
    )

    functions = (load_checkpoint_to_cpu, load_model_ensemble, load_model_ensemble_and_task)
    return {found.__name__: found for found in functions}


def _tasks() -> Names:
    from roberta_hub.fairseq_names.loading import get_task, setup_task

    return {"get_task": get_task, "setup_task": setup_task}


def _utils() -> Names:
    from roberta_hub.fairseq_names.tensors import (
        apply_to_sample,
        get_activation_fn,
        item,
        log_softmax,
        make_positions,
        model_eval,
        move_to_cpu,
        move_to_cuda,
        set_torch_seed,
        softmax,
        strip_pad,
    )

    functions = (
        apply_to_sample,
        get_activation_fn,
        item,
        log_softmax,
        make_positions,
        model_eval,
        move_to_cpu,
        move_to_cuda,
        set_torch_seed,
        softmax,
        strip_pad,
    )
    return {found.__name__: found for found in functions}


def _wsc_utils() -> Names:
    from roberta_hub.fairseq_names.pronoun_files import OFFERED

    return {found.__name__: found for found in OFFERED}


RECIPES = "examples.roberta"
"""fairseq's recipes, which scripts import from a clone of it."""
MODULES: dict[str, Callable[[], Names]] = {
    "examples": _none,
    "examples.roberta": _none,
    "examples.roberta.commonsense_qa": _none,
    "examples.roberta.wsc": _none,
    "examples.roberta.wsc.wsc_utils": _wsc_utils,
    "fairseq": _top,
    "fairseq.checkpoint_utils": _checkpoint_utils,
    "fairseq.data": _dictionary,
    "fairseq.data.data_utils": _data_utils,
    "fairseq.data.dictionary": _dictionary,
    "fairseq.data.encoders": _encoders,
    "fairseq.data.encoders.gpt2_bpe": _gpt2,
    "fairseq.data.encoders.gpt2_bpe_utils": _gpt2_utils,
    "fairseq.hub_utils": _hub_utils,
    "fairseq.models": _none,
    "fairseq.models.roberta": _roberta,
    "fairseq.models.roberta.alignment_utils": _alignment,
    "fairseq.models.roberta.hub_interface": _of_roberta("RobertaHubInterface"),
    "fairseq.models.roberta.model": _of_roberta("RobertaModel"),
    "fairseq.models.roberta.model_camembert": _of_roberta("CamembertModel"),
    "fairseq.models.roberta.model_gottbert": _of_roberta("GottbertModel"),
    "fairseq.models.roberta.model_xlmr": _of_roberta("XLMRModel"),
    "fairseq.modules": _dropout,
    "fairseq.modules.fairseq_dropout": _dropout,
    "fairseq.tasks": _tasks,
    "fairseq.tokenizer": _lines,
    "fairseq.utils": _utils,
}
"""fairseq's modules that have equals here, each with what makes its names. All are packages, so
that Python asks us for the names that a module lacks too."""

_TRAIN = "`roberta-hub train` trains and fine-tunes (docs/guides/fine_tune.md)"
_REAL = "a script that needs it runs with fairseq itself, by `python`"
_COMMANDS = f"the commands of its shell; {_TRAIN}"
_RECIPES = (
    "`roberta-hub train --fairseq` runs its commands, `roberta-hub preprocess` makes its data "
    "(docs/guides/fairseq_data.md)"
)
ELSEWHERE = {
    "examples.roberta": f"recipes; {_RECIPES}",
    "examples.roberta.commonsense_qa": (
        f"its task of CommonsenseQA; roberta.choose answers, {_RECIPES}"
    ),
    "examples.roberta.wsc": (
        "its task and losses of WSC; roberta.disambiguate_pronoun answers, wsc_utils reads files, "
        f"{_RECIPES}"
    ),
    "examples.roberta.wsc.wsc_utils": (
        "tools of its task of WSC; roberta.disambiguate_pronoun takes text as it is written"
    ),
    "fairseq.benchmark": f"measures of speed; {_REAL}",
    "fairseq.criterions": f"losses of its trainer; {_TRAIN}",
    "fairseq.data.data_utils": f"tools of its datasets; {_TRAIN}",
    "fairseq.data.encoders": "engines that register themselves; encoders.build_bpe(NAME) makes one",
    "fairseq.data": f"datasets of its trainer; {_TRAIN}",
    "fairseq.dataclass": f"its configuration; {_TRAIN}",
    "fairseq.distributed": f"training on several machines; {_TRAIN}",
    "fairseq.distributed_utils": f"training on several machines; {_TRAIN}",
    "fairseq.examples": (
        "recipes; examples.roberta.wsc.wsc_utils is here, roberta.disambiguate_pronoun "
        "has WSC's, and `roberta-hub train` the others (docs/guides/fine_tune.md)"
    ),
    "fairseq.file_io": "files at many places; open() and pathlib are Python's",
    "fairseq.file_utils": "its cache of downloads; roberta_hub.load_model fetches and keeps models",
    "fairseq.hub_utils": "interfaces of its translators; RobertaModel.from_pretrained loads ours",
    "fairseq.logging": f"logs of its trainer; {_TRAIN}",
    "fairseq.meters": f"meters of its trainer; {_TRAIN}",
    "fairseq.metrics": f"metrics of its trainer; {_TRAIN}",
    "fairseq.models": f"a registry and models that are no RoBERTa; {_REAL}",
    "fairseq.models.roberta": (
        "parts of the model; roberta.model has them, and register_classification_head adds heads"
    ),
    "fairseq.modules": "parts of models; roberta.model has RoBERTa's",
    "fairseq.modules.TransformerSentenceEncoder": (
        "RoBERTa's encoder of before 2021; roberta.model.encoder.sentence_encoder is one"
    ),
    "fairseq.modules.TransformerSentenceEncoderLayer": (
        "RoBERTa's layer of before 2021, which converters name; roberta.save(PATH, 'huggingface') "
        "writes transformers' files"
    ),
    "fairseq.nan_detector": "a hook of its trainer; `roberta-hub train` names what diverges",
    "fairseq.optim": f"optimizers and schedules of its trainer; {_TRAIN}",
    "fairseq.options": _COMMANDS,
    "fairseq.pdb": "a debugger for several processes; breakpoint() is Python's",
    "fairseq.progress_bar": f"progress of its trainer; {_TRAIN}",
    "fairseq.registry": f"registers for classes of your own; {_TRAIN}",
    "fairseq.scoring": f"scores of translations; {_REAL}",
    "fairseq.search": f"beam search of its translators; {_REAL}",
    "fairseq.sequence_generator": f"beam search of its translators; {_REAL}",
    "fairseq.tasks": f"tasks of its trainer; get_task and setup_task make a RoBERTa's, {_TRAIN}",
    "fairseq.trainer": f"its trainer; {_TRAIN}",
    "fairseq.utils.eval": "a switch to eval mode, of 2019; utils.model_eval is the same",
    "fairseq.utils": f"tools of its trainer; {_TRAIN}",
    "fairseq_cli": _COMMANDS,
    **{
        f"fairseq_cli.{name}": f"a command of its shell; {said}"
        for name, said in FAIRSEQ_PROGRAMS.items()
    },
}
"""What fairseq has at a place that is not offered, and what to do; the longest name counts."""


def not_offered(name: str) -> NotOfferedError:
    """Make the error for a module, or a name of one, that has no equal here.

    Args:
        name: dotted.

    Example:
        >>> print(not_offered("fairseq.criterions.masked_lm"))
        fairseq.criterions.masked_lm is not offered by roberta_hub: fairseq has losses of its \
trainer in fairseq.criterions; `roberta-hub train` trains and fine-tunes (docs/guides/fine_tune.md)
    """
    return NotOfferedError(_sentence(name))


def _sentence(name: str) -> str:
    parent, _, last = name.rpartition(".")
    said = f"{name} is not offered by roberta_hub"
    if parent in MODULES:
        offered = [name for name in MODULES[parent]() if not name.startswith("_")]
        offered += _below(parent)
        if near := slipped_names(last, offered):
            return f"{said}; did you mean {' or '.join(near)}?"
        there = f"; {parent} has {', '.join(sorted(offered))} here" if offered else ""
    else:
        there = ""
    known = [place for place in ELSEWHERE if f"{name}.".startswith(f"{place}.")]
    if not known:
        return f"{said}{there}; {_REAL}"
    place = max(known, key=len)
    return f"{said}: fairseq has {_split(place)}{there}"


def _split(place: str) -> str:
    what, _, remedy = ELSEWHERE[place].partition("; ")
    return f"{what} in {place}; {remedy}"


def _below(module: str) -> list[str]:
    """Names of the modules right below one."""
    start = f"{module}."
    return [
        name[len(start) :]
        for name in MODULES
        if name.startswith(start) and "." not in name[len(start) :]
    ]
