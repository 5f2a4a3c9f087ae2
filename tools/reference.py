"""Writes the pages of docs/reference/ that follow from the code, so that they cannot lag behind it.

    python tools/reference.py              # a page a verb, the API, the settings of training
    python tools/reference.py --answers    # and what the examples of the shell print, in minutes

The pages are committed, so that they are read where the code is read; a test of
tests/house/test_reference.py fails where one is not what this writes.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

import roberta_hub
from roberta_hub.config import RobertaConfig
from roberta_hub.shell.lakes import takes_rows
from roberta_hub.shell.main import VERBS, verb
from roberta_hub.shell.options import collect, collect_given, parse_keep, takes_texts
from roberta_hub.train.config import GROUPS, compose, recipes
from roberta_hub.train.limits import CHOICES, MINIMA
from roberta_hub.train.setting_docs import fields_of, shown
from roberta_hub.train.settings import (
    BatchConfig,
    Config,
    DataConfig,
    LoopConfig,
    OptimizerConfig,
    TaskConfig,
)
from roberta_hub.train.tasks.options import FinetuningOptions, PretrainingOptions
from roberta_hub.train.usage import usage

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from shell_examples import commands_of, commented, examples_run  # noqa: E402

REFERENCE = ROOT / "docs/reference"
Row = Sequence[str]


# ---- Markdown ----


def table(titles: Row, rows: Iterable[Row]) -> str:
    """Write a table; an empty cell stays empty."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join("| " + " | ".join(row) + " |\n" for row in lines)


def prose(text: str) -> str:
    """Write a help's sentence as Markdown: flags and tokens as code, and nothing as markup."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part.replace("|", "\\|") if part.startswith("`") else _plain(part) for part in parts
    )


def _plain(text: str) -> str:
    words = re.split(r"((?<![\w-])--?[a-z][a-z-]*|<[a-z/]+>|'[^' ]*[*/][^' ]*')", text)
    return "".join(
        f"`{word}`" if i % 2 else re.sub(r"([*\[\]<|])|(?<!\w)_|_(?!\w)", r"\\\g<0>", word)
        for i, word in enumerate(words)
    )


def code(*words: object) -> str:
    """Write names or values as code, with commas."""
    return ", ".join(f"`{word}`" for word in words)


# ---- the shell ----

NOT_SHOWN = (
    *("train", "fit", "vocabulary", "verify", "doctor", "download", "ui", "explain", "index"),
    *("duplicates", "serve"),
)
"""Verbs whose examples take minutes, need a server, draw, or print what differs between machines:
their pages show the command alone."""
NEEDS = {
    "reviews.lance": "`reviews.lance` is what [index](index.md) made of `reviews.csv`",
    "mine": "`mine` is a model that [fit](fit.md) made of [the table of ten minutes]"
    "(../../start/ten_minutes.md#train-a-classifier)",
    "newer": "`newer` is another, whose body was trained too",
    "my-vocabulary": "`my-vocabulary` is what [vocabulary](vocabulary.md) made of four lines",
    "ner": "`ner` is a tagger that [fit](fit.md) made of sentences with marked names and places",
    "reranker": "`reranker` is a model that [fit](fit.md) made of queries, texts and scores",
    "race": "`race` is a model that [fit](fit.md) made of questions, options and scores",
    "squad": "`squad` is a model that [train](train.md) made of questions and their answers",
}
"""Models of the examples that are not in the package."""


GUIDES = {
    "classify": "guides/classify.md",
    "zero-shot": "guides/zero_shot.md",
    "fill-mask": "guides/fill_masks.md",
    "similar": "guides/vectors.md",
    "tag": "guides/entities.md",
    "explain": "guides/explain.md",
    "answer": "guides/questions.md",
    "rank": "guides/vectors.md",
    "embed": "guides/vectors.md",
    "index": "guides/vector_index.md",
    "duplicates": "guides/vector_index.md",
    "features": "guides/word_features.md",
    "fit": "guides/own_classifier.md",
    "vocabulary": "guides/own_language.md",
    "preprocess": "guides/fairseq_data.md",
    "verify": "guides/verify.md",
    "compare": "guides/compare.md",
    "evaluate": "guides/evaluate.md",
    "run": "start/from_fairseq.md",
    "models": "reference/models.md",
    "download": "reference/models.md",
    "convert": "reference/formats.md",
    "export": "guides/export.md",
    "ui": "guides/ui.md",
    "serve": "guides/serve.md",
}
"""The page that tells more of a verb, from docs/."""


def _group(takes: Any) -> set[str]:
    """Names of the options that a decorator of several verbs adds."""

    def function(*given: Any) -> int:
        return 0

    added = takes(function).__click_params__
    return {parameter.name for parameter in added if isinstance(parameter, click.Option)}


TEXTS = _group(takes_texts)
LAKES = _group(takes_rows) - TEXTS
SHARED = (
    ("Texts and answers", TEXTS, "The same in every verb on texts."),
    ("Lakes", LAKES, "For a folder or several files: [lakes of text](../lakes.md)."),
)
"""Options that several verbs have: a heading, their names, what is said of them."""


def kind_of(option: click.Option) -> str:
    """Say what an option takes."""
    kind = option.type
    if option.is_flag:
        return ""
    if option.nargs == 2:
        return "two texts"
    if option.callback in (collect, collect_given, parse_keep):
        return "name, or `a,b`"
    if isinstance(kind, click.Choice):
        return code(*kind.choices)
    if isinstance(kind, (click.IntRange, click.FloatRange)):
        name = "whole number" if isinstance(kind, click.IntRange) else "number"
        if kind.min is not None and kind.max is not None:
            return f"{name}, {kind.min:,} to {kind.max:,}"
        return name if kind.min is None else f"{name}, at least {kind.min:,}"
    names = {"integer": "whole number", "float": "number", "path": "path", "text": "text"}
    return names[kind.name]


def default_of(option: click.Option) -> tuple[str, str]:
    """Say an option's default; and its help, without the default."""
    says = (option.help or "").strip()
    if found := re.search(r"\s*\[default: (.+)\]$", says, re.S):
        return prose(found[1]), says[: found.start()]
    if option.required:
        return "required", says
    if option.is_flag and option.secondary_opts:
        both = {True: option.opts, False: option.secondary_opts}
        return code(both[option.default][0]) if option.default in (True, False) else "", says
    if option.is_flag:
        return "off", says
    if isinstance(option.default, (str, int, float)):
        return code(option.default), says
    return "", says


def flags_of(option: click.Option) -> str:
    """Write an option's names, the last with the place of its value."""
    metavar = option.metavar or {"choice": "NAME", "path": "PATH", "text": "TEXT"}.get(
        option.type.name, "N"
    )
    names = [*option.opts, *option.secondary_opts]
    values = [""] * (len(names) - 1) + ["" if option.is_flag else f" {metavar}"]
    return code(*(name + value for name, value in zip(names, values, strict=True))).replace(
        "|", "\\|"
    )


def options_table(options: Sequence[click.Option]) -> str:
    """Write a table of options."""
    rows = []
    for option in options:
        default, says = default_of(option)
        rows.append([flags_of(option), kind_of(option), default, prose(says)])
    return table(("option", "takes", "default", "what it does"), rows)


def example_lines(command: click.Command) -> list[str]:
    """The command lines of a verb's help."""
    text = inspect.cleandoc(command.epilog or "").partition("examples:")[2]
    return [line.strip() for line in text.split("\n\n")[0].splitlines() if line.strip()]


def examples_of(name: str, page: Path) -> str:
    """Write the examples of a verb: with what they print, where that is the same everywhere."""
    lines = example_lines(verb(name))
    if name in NOT_SHOWN:
        return textwrap.indent("\n".join(lines), "    ") + "\n"
    shown = commands_of(page.read_text(encoding="utf-8")) if page.exists() else {}
    text = "```sh\n" + "".join(commented(line, shown.get(line, "")) for line in lines) + "```\n"
    words = " ".join(lines).split()
    if "\n# {" in text:
        text += "\nInto a pipe the answer is JSON, as here; a terminal gets a table.\n"
    if needed := [says for model, says in NEEDS.items() if model in words]:
        text += "\n" + "; ".join(needed) + ".\n"
    return text


def usage_of(name: str, command: click.Command) -> str:
    """Write the first line of a verb's help."""
    parent = click.Context(click.Command("roberta-hub"), info_name="roberta-hub")
    context = click.Context(command, info_name=name, parent=parent)
    return " ".join(command.get_usage(context).split()).removeprefix("Usage: ")


def verb_page(name: str) -> str:
    """Write the page of a verb."""
    command, page = verb(name), REFERENCE / f"shell/{name}.md"
    if name == "train":  # whose settings are no options
        lines = usage().partition("examples:\n")
        return "\n".join(
            (
                "# roberta-hub train\n",
                "Pre-train or fine-tune a model. [Every setting](../settings.md) is written "
                "`section.name=value`; guides: [fine-tuning](../../guides/fine_tune.md), "
                "[pre-training](../../guides/pretrain.md).\n",
                "## Examples\n",
                textwrap.indent(textwrap.dedent(lines[2]), "    ") + "\n",
                "## `roberta-hub train --help`\n",
                textwrap.indent(lines[0].rstrip(), "    ") + "\n",
                "[All verbs](../shell.md)\n",
            )
        )
    first, *more = [" ".join(part.split()) for part in cleaned(command.help).split("\n\n")]
    options = [one for one in command.params if isinstance(one, click.Option)]
    names = {option.name for option in options}
    shared = [group for group in SHARED if group[1] <= names]
    own = [one for one in options if not any(one.name in group for _, group, _ in shared)]
    parts = [f"# roberta-hub {name}\n", f"{prose(first)}\n", f"    {usage_of(name, command)}\n"]
    parts += [f"{prose(paragraph)}\n" for paragraph in more]
    parts += ["## Examples\n", examples_of(name, page)]
    if own:
        parts += ["## Options\n", options_table(own)]
    for title, group, says in shared:
        these = [option for option in options if option.name in group]
        parts += [f"## {title}\n", f"{says}\n", options_table(these)]
    more_of = f"[More on this task](../../{GUIDES[name]}) · " if name in GUIDES else ""
    parts.append(f"{more_of}[All verbs](../shell.md)\n")
    return "\n".join(parts)


def cleaned(text: str | None) -> str:
    """A help without its indent."""
    return inspect.cleandoc(text or "").replace("\b\n", "")


def shell_index() -> str:
    """Write the rows of the verbs into the page of the shell; the rest of it is written by hand."""
    rows = [
        f"| [`{name}`](shell/{name}.md) | {prose(says.partition(';')[0])} |\n"
        for name, says in VERBS.items()
    ]
    page = (REFERENCE / "shell.md").read_text(encoding="utf-8")
    return re.sub(r"(?:^\| \[.*\n)+", lambda _: "".join(rows), page, count=1, flags=re.M)


# ---- the API ----

API = {
    "load": (
        "Load a model",
        "By a name, or from files of any [format](../formats.md).",
        (
            "load_model",
            "available_models",
            "RobertaModel",
            "RobertaModel.from_pretrained",
            "RobertaModel.hub_models",
            "XLMRModel",
            "CamembertModel",
            "GottbertModel",
            "as_fairseq",
            "collate_tokens",
        ),
    ),
    "interface": (
        "fairseq's methods",
        "`roberta` is what `load_model` returns. These names and numbers are those of fairseq's "
        "hub interface.",
        (
            "RobertaHubInterface",
            "roberta.encode",
            "roberta.decode",
            "roberta.extract_features",
            "roberta.predict",
            "roberta.fill_mask",
            "roberta.disambiguate_pronoun",
            "roberta.extract_features_aligned_to_words",
            "roberta.register_classification_head",
            "roberta.args",
            "roberta.bpe",
            "roberta.device",
            "roberta.max_positions",
        ),
    ),
    "verbs": (
        "Verbs on texts",
        "Where one text goes, a list or a column goes too. By tasks: "
        "[guides](../../guides/index.md).",
        (
            "roberta.classify",
            "roberta.predict_proba",
            "roberta.zero_shot",
            "roberta.tag",
            "roberta.answer",
            "roberta.choose",
            "roberta.score",
            "roberta.replaced",
            "roberta.embed",
            "roberta.similarity",
            "roberta.search",
            "roberta.rank",
            "roberta.features",
            "roberta.encode_batch",
            "roberta.tokenize",
            "roberta.offsets",
        ),
    ),
    "answers": (
        "Answers",
        "What verbs return. Lists of them print a line each, and have `to_pandas()`.",
        ("Prediction", "Span", "Answer", "Hit"),
    ),
    "displays": (
        "Displays",
        "A notebook draws them, a terminal writes them, `png(path)` makes a picture, and "
        "`to_dict()` has the numbers.",
        ("roberta.explain", "roberta.token_strip", "roberta.attention"),
    ),
    "model": (
        "Heads, saving, speed",
        "What changes the model, or writes it.",
        (
            "roberta.register_token_head",
            "roberta.register_span_head",
            "roberta.head_labels",
            "roberta.add_tokens",
            "roberta.save",
            "roberta.export",
            "roberta.optimize",
            "roberta.to",
            "roberta.cuda",
        ),
    ),
    "fit": (
        "Your own model",
        "A classifier or a tagger of a table. The guide: "
        "[your own classifier](../../guides/own_classifier.md).",
        ("fit", "RobertaClassifier"),
    ),
    "compare": (
        "Compare with another model",
        "The guides: [verify](../../guides/verify.md), [compare](../../guides/compare.md).",
        ("verify", "compare"),
    ),
    "evaluate": (
        "Evaluate",
        "The guide: [evaluation](../../guides/evaluate.md).",
        ("evaluate", "as_mteb"),
    ),
    "indexing": (
        "Vectors on disk, near-duplicates",
        "The guide: [an index on disk](../../guides/vector_index.md).",
        ("index", "open_index", "duplicates"),
    ),
    "lakes": (
        "Lakes (files of texts)",
        "`from roberta_hub import scale`. What a lake promises: [lakes](../lakes.md).",
        ("scale.lake", "scale.Verb", "scale.status", "scale.Report", "scale.Status"),
    ),
    "ui": (
        "A page to play with",
        "The guide: [a page to play with](../../guides/ui.md).",
        ("ui.page", "ui.serve"),
    ),
    "serve": (
        "A server",
        "The guide: [serve](../../guides/serve.md).",
        ("serve",),
    ),
    "settings": (
        "Settings",
        "What a model says of itself. Settings of training have [a page](../settings.md) too.",
        ("RobertaConfig", "SentenceSettings", "ZeroShotSettings"),
    ),
    "errors": (
        "Errors",
        "All of them, and their remedies: [errors](../errors.md).",
        ("RobertaHubError",),
    ),
}
"""Every public name, by page: its title, its first sentence, its names."""


def found(name: str) -> Any:
    """What a name of the API means; `roberta.` is of the interface."""
    place: Any = roberta_hub
    for part in name.replace("roberta.", "RobertaHubInterface.", 1).split("."):
        place = getattr(place, part)
    return place


def first_sentence(of: object) -> str:
    """The first paragraph of a docstring."""
    return (inspect.getdoc(of) or "").split("\n\n")[0].replace("\n", " ").rstrip(".")


def api_page(group: str) -> str:
    """Write a page of the API; the site adds each name's docstring."""
    title, says, names = API[group]
    rows = [(code(name), first_sentence(found(name))) for name in names]
    parts = [f"# {title}\n", f"{says}\n", table(("name", "what it does"), rows)]
    parts.append(
        "`help(NAME)` and the site of `make docs` show each in full. [All names](../api.md)\n"
    )
    return "\n".join(parts)


def api_index() -> str:
    """Write the first page of the API."""
    rows = [
        (f"[{title}](api/{group}.md)", code(*(name.removeprefix("roberta.") for name in names)))
        for group, (title, _, names) in API.items()
    ]
    return (
        "# API\n\nEverything that `roberta_hub` promises. A name that is not here may change.\n\n"
        + table(("page", "names"), rows)
    )


# ---- settings of training ----


def takes(kind: str, name: str) -> str:
    """Say what a setting takes: its type, its choices, its least value."""
    if name in CHOICES:
        return code(*CHOICES[name])
    words = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false"}
    names = [part.partition("[")[0] for part in kind.split(" | ") if part != "None"]
    said = " or ".join(words.get(part, {"dict": "table"}.get(part, part)) for part in names)
    least = MINIMA.get(name)
    return said if least is None else f"{said}, at least {least:g}"


def settings_table(kind: type, prefix: str) -> str:
    """Write the fields of a section."""
    rows = [
        (
            code(prefix + own.name),
            takes(own.kind, prefix + own.name),
            own.default and code(own.default),
            prose(re.sub(r"\bNone\b", "`null`", own.says)),
        )
        for own in fields_of(kind)
    ]
    return table(("setting", "takes", "default", "what it is"), rows)


SECTIONS: tuple[tuple[str, str, type, str], ...] = (
    ("The run", "", Config, ""),
    ("data", "data.", DataConfig, ""),
    ("task", "task.", TaskConfig, ""),
    ("optimizer", "optimizer.", OptimizerConfig, ""),
    ("batch", "batch.", BatchConfig, ""),
    ("loop", "loop.", LoopConfig, ""),
    (
        "Options of fine-tuning",
        "task.options.",
        FinetuningOptions,
        "Each task reads those that concern it.",
    ),
    ("Options of pre-training", "task.options.", PretrainingOptions, ""),
    (
        "Architecture",
        "architecture.",
        RobertaConfig,
        "The defaults are those of `roberta.base`; a run begins with those of `model`. A model "
        "with weights allows only what no tensor depends on, such as dropout.",
    ),
)


def recipes_table() -> str:
    """Write what each recipe sets."""
    wanted = (
        "model",
        "task.name",
        "optimizer.lr",
        "batch.batch_size",
        "loop.max_updates",
        "loop.max_epochs",
    )
    rows = []
    for group in GROUPS:
        for name in recipes(group):
            config = compose([f"{group}={name}"])
            values = []
            for field in wanted:
                value: Any = config
                for part in field.split("."):
                    value = getattr(value, part)
                values.append("" if value is None else shown(value))
            rows.append((code(f"{group}={name}"), *values))
    return table(("recipe", *(code(field) for field in wanted)), rows)


def settings_page() -> str:
    """Write the page of every setting of `roberta-hub train`."""
    parts = [
        "# Settings of training\n",
        "`roberta-hub train` takes settings as `name=value`, and a recipe that sets many at once. "
        "In Python `roberta_hub.train.config.compose([...])` takes the same. `roberta-hub fit` "
        "needs none of them: [its options](shell/fit.md).\n",
        "    roberta-hub train finetune=mnli data.train=train.tsv optimizer.lr=2e-5\n",
        "`null` is written for a value that is not set. A wrong name is an error that lists near "
        "ones.\n",
        "## Recipes\n",
        "A recipe's counts of updates are those of its published set; a table of your own takes "
        "`loop.max_epochs`. An empty cell is not set.\n",
        recipes_table(),
    ]
    for title, prefix, kind, says in SECTIONS:
        parts.append(f"## {title}\n")
        if says:
            parts.append(f"{says}\n")
        parts.append(settings_table(kind, prefix))
    return "\n".join(parts)


# ---- all pages ----


def pages() -> dict[Path, str]:
    """Every page that this file writes, with its text."""
    found = {REFERENCE / f"shell/{name}.md": verb_page(name) for name in VERBS}
    found |= {REFERENCE / f"api/{group}.md": api_page(group) for group in API}
    found |= {REFERENCE / "shell.md": shell_index(), REFERENCE / "api.md": api_index()}
    return {**found, REFERENCE / "settings.md": settings_page()}


def main() -> None:
    """Write the pages, and what the examples print if that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--answers", action="store_true", help="run the examples of the shell")
    run = parser.parse_args().answers
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if run:
        with tempfile.TemporaryDirectory() as scratch:
            for page, text, stale in examples_run(Path(scratch)):
                print(f"{page.name}: {len(stale)} answers are no longer true", *stale, sep="\n")
                page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
