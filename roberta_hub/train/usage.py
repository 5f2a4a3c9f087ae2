"""Writes the help of `roberta-hub train`, with every recipe and field; it needs no torch."""

from __future__ import annotations

from roberta_hub.train.config import GROUPS, fields, recipes


def usage() -> str:
    """Write the help text, with every recipe and field."""
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
