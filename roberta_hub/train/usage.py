"""Writes the help of `roberta-hub train`, with every recipe and field; it needs no torch."""

from __future__ import annotations

import re

from roberta_hub.train.config import GROUPS, SECTIONS, fields, recipes
from roberta_hub.train.limits import CHOICES, MINIMA
from roberta_hub.train.setting_docs import Setting, fields_of
from roberta_hub.train.settings import Config

WIDTH = 78
"""Columns of the help where no terminal says another number."""


def usage(width: int = WIDTH) -> str:
    """Write the help text, with every recipe, and of every field what it is."""
    lines = [
        "usage: roberta-hub train [finetune=NAME | pretrain=NAME] [FIELD=VALUE ...]",
        "       roberta-hub train [FIELD=VALUE ...] --fairseq A COMMAND OF fairseq-train",
        "",
        "Trains a model and writes it, its logs and a state to resume from into the folder "
        "`output`.",
        "Started again, the same command resumes where it stopped.",
        "",
        *(f"{group}: {', '.join(recipes(group))}" for group in GROUPS),
        "",
        "fields:",
    ]
    sections: dict[str, list[str]] = {}
    for name in fields():
        section, _, leaf = name.rpartition(".")
        sections.setdefault(section, []).append(leaf)
    for section, leaves in sections.items():
        prefix = f"{section}." if section else ""
        lines.append(f"  {prefix}[{' | '.join(leaves)}]" if prefix else f"  {', '.join(leaves)}")
    lines += [
        "",
        described(width),
        "examples:",
        "  roberta-hub train finetune=mnli data.train=MNLI/train.tsv "
        "data.valid=MNLI/dev_matched.tsv",
        "  roberta-hub train finetune=sst_2 model=roberta.tiny data.train=reviews.csv \\",
        '      "data.columns={sentence: text, label: stars}"',
        "  roberta-hub train pretrain=base data.train=corpus.txt \\",
        '      task.options.sentences=segment_pair "task.options.objectives=[next_sentence]"',
        "  torchrun --nproc-per-node 8 -m roberta_hub train pretrain=base data.train=corpus.txt",
    ]
    return "\n".join(lines)


def described(width: int = WIDTH) -> str:
    """Write what each setting is, in the layout of the options of other verbs."""
    from click import HelpFormatter

    formatter = HelpFormatter(width=width)
    for section, kind in {"": Config, **SECTIONS}.items():
        prefix = f"{section}." if section else ""
        with formatter.section(section or "the run"):
            formatter.write_dl([_row(own, prefix + own.name) for own in fields_of(kind)])
    return formatter.getvalue().lstrip("\n")


def _row(own: Setting, name: str) -> tuple[str, str]:
    """Write a setting with what it takes, and its sentences with its default and its least value.

    Example:
        >>> _row(Setting("limit", "int | None", "null", "How many; None: all."), "data.limit")
        ('data.limit=N', 'How many; null: all.  [x>=1]')
    """
    says = own.says
    for value, typed in {"None": "null", "False": "false", "True": "true"}.items():
        says = re.sub(rf"(?<!\w){value}: ", f"{typed}: ", says)
    default = own.default not in ("", "null", "{}")
    remarks = [f"default: {own.default}"] if default else []
    remarks += [f"x>={MINIMA[name]:g}"] if name in MINIMA else []
    return f"{name}={_taken(own, name)}", says + (f"  [{'; '.join(remarks)}]" if remarks else "")


def _taken(own: Setting, name: str) -> str:
    """Write what a setting takes, as the help of a verb writes what an option takes."""
    if name in CHOICES:
        return f"[{'|'.join(CHOICES[name])}]"
    kind = own.kind.removesuffix(" | None").partition("[")[0]
    words = {"bool": "[true|false]", "dict": "{NAME: VALUE}", "list": "[A,B,...]"}
    return {"int": "N", "float": "N", **words}.get(kind, "TEXT")
