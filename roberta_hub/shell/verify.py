"""Declares `roberta-hub verify` and `compare`: a model beside a peer, or beside an old one."""

from __future__ import annotations

from typing import Any

import click

from roberta_hub.shell.given import option
from roberta_hub.shell.options import examples, takes_models, text_option
from roberta_hub.shell.reports import FORMAT, write_report
from roberta_hub.shell.signature import takes_arguments


@click.command(
    epilog=examples(
        "roberta-hub verify mine --against mine-onnx/model.onnx",
        "roberta-hub verify mine --against http://localhost:8080/embed",
    )
)
@takes_models("model")
@option(
    "--against",
    "peer",
    required=True,
    metavar="FILE|FOLDER|URL",
    help="An ONNX file; a folder, for transformers and sentence-transformers; the address of a "
    "server of sentence vectors (/embed, /v1/embeddings); a .gguf file.",
)
@option(
    "-i",
    "--input",
    "source",
    type=click.Path(),
    metavar="FILE",
    help="Ask about these texts too: one a line, or a table's column.",
)
@text_option(
    "text",
    "The column of a table's texts. Without it: found by its name, or the only one of prose.",
)
@takes_arguments(
    "verification/verify.py",
    "verify",
    texts=None,
    least_cosine={"type": click.FloatRange(0, 1), "metavar": "COSINE"},
)
@FORMAT
def verify(
    model: str,
    peer: str,
    source: str | None,
    text: tuple[str, ...],
    least_cosine: float | None,
    form: str,
) -> int:
    """Compare MODEL with a peer that should answer as it does, and name what the peer does not.

    The exit status is 0 where the peer answers the same, in less precision too; 1 where it has a
    fault or cannot be asked.
    """
    from roberta_hub.verification.verify import verify as verified

    texts = None if source is None else _texts(source, text)
    found = verified(model, peer, texts, least_cosine=least_cosine)
    return write_report(found, form)


@click.command(
    epilog=examples(
        "roberta-hub compare mine newer -i reviews.csv --verb embed --by stars",
        "roberta-hub compare mine newer -i moods.csv --format markdown",
    )
)
@takes_models("old", "new")
@option(
    "-i",
    "--input",
    "source",
    required=True,
    type=click.Path(),
    metavar="FILE",
    help="The table: CSV, TSV, JSONL or Parquet.",
)
@takes_arguments("evaluation/compare.py", "compare")
@option(
    "--most-changed",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Share of the answers that may change; more is a failure.",
)
@FORMAT
def compare(
    old: str, new: str, source: str, most_changed: float | None, form: str, **given: Any
) -> int:
    """Compare the model NEW with the model OLD on the rows of a table: did it get worse?

    The exit status is 1 where NEW is worse, on all rows or on a slice, and not by chance; or where
    more answers changed than may; or where one of them cannot be asked. Else it is 0.
    """
    from roberta_hub.evaluation.compare import compare as compared

    found = compared(old, new, source, **given)
    too_many = most_changed is not None and found.changed > most_changed
    return max(write_report(found, form), int(too_many))


def _texts(source: str, columns: tuple[str, ...]) -> list[Any]:
    """Texts of a file: a line each, or the rows of a table."""
    from roberta_hub.shell.reading import open_source
    from roberta_hub.verbs.question import Parts

    found = []
    for item in open_source(source, columns, Parts()).items:
        if item is not None and item.fault is None:
            found.append(item.texts[0] if len(item.texts) == 1 else item.texts)
        elif item is not None and item.fault is not None:
            from roberta_hub.errors import InputError

            raise InputError(item.fault.why, place=item.where)
    return found
