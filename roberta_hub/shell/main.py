"""Runs the command roberta-hub: finds the verb, and imports only that."""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import BinaryIO, cast

import click

import roberta_hub
from roberta_hub.errors import Advice, RobertaHubError, close_names
from roberta_hub.terminal import clean

VERBS_BY_SECTION = {
    "ask a model": {
        "classify": "a label for each text or pair, or all that it has, by a head trained for it",
        "zero-shot": "a label of your own for each text, without training",
        "fill-mask": "the most probable words for <mask>",
        "similar": "the texts of a file that are nearest to yours",
        "tag": "names, places and other labelled spans",
        "answer": "the span of a text that answers a question",
        "choose": "the best of several options",
        "rank": "how well a text answers a query, by a cross-encoder",
        "score": "how natural a text is",
        "explain": "how much each word speaks for a label, or how surprising it is",
        "ui": "a page in the browser to play with a model",
        "serve": "a model over HTTP: OpenAI's protocol, text-embeddings-inference's, the verbs",
    },
    "texts to numbers": {
        "embed": "one vector for each text",
        "index": "vectors kept on disk, for similar: added to, resumed, searched in milliseconds",
        "duplicates": "texts that are there twice, or nearly so, by words or by vectors",
        "features": "the model's hidden states, of each token or pooled",
        "tokens": "the pieces and ids that the model reads",
    },
    "your own model": {
        "fit": "a classifier of your own from a table of texts and labels",
        "next": "the texts without labels that are worth labelling next",
        "train": "pre-train or fine-tune, with every setting; see train --help",
        "vocabulary": "the pieces of a language, learnt from text",
        "preprocess": "texts and labelled tables as fairseq's files, for fairseq and for train",
    },
    "is it right": {
        "verify": "a model beside a peer: an export, a folder, a server; faults are named",
        "compare": "a new model beside an old one, on the rows of a table",
        "evaluate": "what a model is worth: labels, scores, search, grammar, answers, spans",
    },
    "files and installation": {
        "run": "a script of fairseq's, as it is: its names mean this package",
        "models": "names, sizes, and which are in the cache",
        "download": "fetch models into the cache",
        "convert": "a model from one file format into another",
        "export": "a model as ONNX or for torch.export, for other runtimes",
        "scan": "what is inside a checkpoint, without running it",
        "doctor": "versions, devices, cache, environment, a self-test",
    },
}
"""The verbs with their help, here so that `roberta-hub --help` imports none of them."""
VERBS = {name: text for verbs in VERBS_BY_SECTION.values() for name, text in verbs.items()}
SPIN_COUNT = "2000"
"""How often a thread of torch's asks for work before it sleeps. By GNU's default it asks for
milliseconds, and takes the core from the threads it waits for where other programs run: `fit` of
eight rows beside four of them took 143 s and 91 s of a processor, with this 58 s and 51 s (a Zen 3
of two cores); alone both take the same, within their noise."""
COMPLETION_VARIABLE = "_ROBERTA_HUB_COMPLETE"
"""Variable with which a shell asks for completions: `eval "$(... =bash_source roberta-hub)"`."""
_EXAMPLES = """\b
examples:
  roberta-hub zero-shot "I was charged twice." --labels billing,delivery
  roberta-hub fill-mask "She is a student at Harvard <mask>."
  roberta-hub classify -m mine -i reviews.csv --text text -o labels.csv
  cat reviews.txt | roberta-hub embed -o vectors.parquet
  roberta-hub doctor --verify

Texts are arguments, the lines of a file (-i FILE), a column of a table (-i FILE --text NAME), or
the lines of standard input. Results go to standard output, all else to standard error. The exit
status is 0, 1 for input that cannot be used, 2 for wrong usage, 130 after Ctrl-C; verify, compare,
evaluate, scan and doctor say in their help what theirs means.

Completion: eval "$(_ROBERTA_HUB_COMPLETE=bash_source roberta-hub)", zsh_source and fish_source.
"""


class Verbs(click.Group):
    """The command group, which imports a verb on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the verbs."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb; None if there is none of that name."""
        return verb(cmd_name) if cmd_name in VERBS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs, without importing them."""
        for section, verbs in VERBS_BY_SECTION.items():
            with formatter.section(section):
                formatter.write_dl(list(verbs.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb of a command line; the error names those that are meant, or lists all."""
        if not ctx.resilient_parsing and args[0] not in VERBS and not args[0].startswith("-"):
            ctx.fail(f"no verb {args[0]!r}; {_advice(args[0])}")
        return super().resolve_command(ctx, args)


def _advice(name: str) -> str:
    """Say which verb is meant by a name that is none."""
    from roberta_hub.other_names import command_advice  # not for a help

    said = command_advice(name)
    if isinstance(said, str):
        return said
    if said:
        return "there is " + ", and ".join(f"{verb} ({VERBS[verb]})" for verb in said)
    near = close_names(name, VERBS)
    hint = f"did you mean {near}? There are" if near else "there are"
    return f"{hint} {', '.join(VERBS)}"


@click.command(
    cls=Verbs,
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(roberta_hub.__version__, message="%(version)s")
def command() -> None:
    """Ask RoBERTa and its relatives, train them, and look after their files."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if "OMP_WAIT_POLICY" not in os.environ:  # torch reads it when it is imported
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(command, {}, "roberta-hub", COMPLETION_VARIABLE, instruction)
    if (words := _script(arguments)) is not None:
        from roberta_hub.fairseq_names.running import run

        return run(words)  # as Python runs it: streams, warnings and errors are the script's
    while (handle := os.open(os.devnull, os.O_RDONLY)) <= 2:
        pass  # what the shell has closed, >&- or 2>&-: no file of ours gets its number
    os.close(handle)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(cast(BinaryIO, ClosedOutput()), "utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # for the whole run
    for stream in (sys.stdout, sys.stderr):  # unprintable characters in a path must not crash
        getattr(stream, "reconfigure", dict)(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        # torch's, where numpy is not installed: the verbs do without.
        warnings.filterwarnings("ignore", "Failed to initialize NumPy")
        try:
            try:
                with command.make_context("roberta-hub", list(arguments)) as context:
                    status = command.invoke(context) or 0
            except click.exceptions.Exit as end:  # after --help and --version
                sys.stdout.flush()
                sys.exit(end.exit_code)
            sys.stdout.flush()  # here, where a closed pipe is handled
            return status
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.UsageError as error:
            place = error.ctx.command_path if error.ctx else "roberta-hub"
            what = clean(error.format_message())
            if isinstance(error, click.NoSuchOption):
                from roberta_hub.shell.unknown_options import said_of  # not for a help

                what = clean(said_of(error, arguments))
            print(f"{place}: {what}", file=sys.stderr)
            print(f"{place} --help shows what it takes.", file=sys.stderr)
            sys.exit(error.exit_code)
        except (KeyboardInterrupt, click.Abort):
            newline = "\n" if sys.stderr.isatty() else ""  # after the ^C
            print(f"{newline}roberta-hub: interrupted", file=sys.stderr)
            return 130
        except BrokenPipeError:  # `| head` has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except RobertaHubError as error:
            print(f"roberta-hub: {clean(' '.join(error.in_shell().splitlines()))}", file=sys.stderr)
        except OSError as error:
            from roberta_hub.files import DISK_ERRORS  # not for a help

            # Files have names.
            place = error.filename or ("standard output" if error.errno in DISK_ERRORS else "")
            what = f"{place}: {error.strerror}" if place else str(error)
            print(f"roberta-hub: {clean(what)}", file=sys.stderr)
        return 1


def _script(arguments: Sequence[str]) -> Sequence[str] | None:
    """Return what `run` is to run; None for another verb, a help and wrong usage."""
    words = list(arguments[1:])
    if list(arguments[:1]) != ["run"] or not words:
        return None
    name = words[1:2] if words[0] == "-m" else words[:1]
    return words if name and not name[0].startswith("-") else None


class ClosedOutput(io.RawIOBase):
    """Standard output that the shell has closed: what is written to it has no place."""

    def writable(self) -> bool:
        """Whether it may be tried: yes."""
        return True

    def write(self, data: object) -> int:
        """Refuse what is written."""
        raise OSError(errno.EBADF, "it is closed", "standard output")


def _show_warning(message: Warning | str, *place: object, **more: object) -> None:
    words = message.in_shell() if isinstance(message, Advice) else str(message)
    print(f"roberta-hub: note: {clean(words)}", file=sys.stderr)


def verb(name: str) -> click.Command:
    """Import the module of one verb; torch is imported only when the verb runs."""
    from roberta_hub.verbs.table import QUESTIONS

    own = name.replace("-", "_")
    if own in QUESTIONS:
        from roberta_hub.shell.rows import command_of

        return command_of(QUESTIONS[own])
    found: click.Command = getattr(_module(name), own)
    return found


def _module(name: str) -> ModuleType:
    if name == "tokens":
        from roberta_hub.shell import tokens

        return tokens
    if name == "similar":
        from roberta_hub.shell import similar

        return similar
    if name == "next":
        from roberta_hub.shell import next

        return next
    if name == "duplicates":
        from roberta_hub.shell import duplicates

        return duplicates
    if name == "index":
        from roberta_hub.shell import index

        return index
    if name == "train":
        from roberta_hub.shell import train

        return train
    if name == "vocabulary":
        from roberta_hub.shell import vocabulary

        return vocabulary
    if name == "preprocess":
        from roberta_hub.shell import preprocess

        return preprocess
    if name == "run":
        from roberta_hub.shell import scripts

        return scripts
    if name == "export":
        from roberta_hub.shell import export

        return export
    if name == "fit":
        from roberta_hub.shell import fit

        return fit
    if name in ("verify", "compare"):
        from roberta_hub.shell import verify

        return verify
    if name == "ui":
        from roberta_hub.shell import ui

        return ui
    if name == "serve":
        from roberta_hub.shell import serve

        return serve
    if name == "evaluate":
        from roberta_hub.shell import evaluate

        return evaluate
    if name == "explain":
        from roberta_hub.shell import explain

        return explain

    from roberta_hub.shell import maintenance

    return maintenance
