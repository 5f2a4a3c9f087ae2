"""torch.hub entry points. `torch.hub.list` shows every callable here, so helpers begin with "_".

The names, their aliases and their help come from the package's records, records.py and
relatives.py, which import the standard library alone. The package itself is imported inside an
entry: listing works without what it needs, and says nothing of another copy that is imported
already.
"""

dependencies = ["torch", "tiktoken", "regex", "requests"]

_HELP = """{summary}

{details}Args:
    pretrained (bool): {pretrained}
    **keywords: {keywords}

Example:
    >>> roberta = torch.hub.load(REPO, "{name}", trust_repo=True)
    >>> roberta.eval()
    {example}
"""
_DOWNLOADED = {
    "pretrained": "False gives random weights, without any network.",
    "keywords": """`device`, `dtype`, `progress`, `force_download`; fairseq's `checkpoint_file`,
        `data_name_or_path` and arguments of the checkpoint such as `dropout`.
        All are documented in `help(roberta_hub.load_model)`.""",
}
_IN_THE_PACKAGE = {
    "pretrained": "False gives random weights.",
    "keywords": "`device`, `dtype`; all are documented in `help(roberta_hub.load_model)`.",
}


def _records():
    """Run the file with the records by its path: the package may be missing, or be another copy."""
    import importlib.util
    from pathlib import Path

    path = Path(__file__).resolve().parent / "roberta_hub/checkpoint/fetch/records.py"
    spec = importlib.util.spec_from_file_location("_roberta_hub_records", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MODELS


def _load(name, pretrained, keywords):
    from pathlib import Path

    import roberta_hub

    here, found = Path(__file__).resolve().parent, Path(roberta_hub.__file__).resolve().parents[1]
    if found != here:  # Python imports a package once: the first copy wins, whichever was asked for
        wanted = next(
            line
            for line in (here / "roberta_hub" / "__init__.py").read_text().splitlines()
            if line.startswith("__version__")
        ).split('"')[1]
        message = (
            f"torch.hub asked for roberta_hub {wanted} in {here}, but {roberta_hub.__version__} "
            f"from {found} is already imported and is used; to use the other, restart Python with "
            f"PYTHONPATH={here}"
        )
        if wanted != roberta_hub.__version__:
            raise roberta_hub.RobertaHubError(message)
        import warnings

        warnings.warn(message, stacklevel=3)
    return roberta_hub.load_model(name, pretrained=pretrained, **keywords)


def _entry(record):
    """Make the entry point of one model: a function with a name, a signature and a docstring."""

    def entry(pretrained=True, **keywords):
        return _load(record.name, pretrained, keywords)

    in_the_package = any(origin.kind == "package" for origin in record.origins)
    details = "".join(f"{line}\n" for line in record.details)
    entry.__name__ = entry.__qualname__ = record.identifier
    entry.__doc__ = _HELP.format(
        name=record.name,
        summary=record.summary,
        details=f"{details}\n" if details else "",
        example="\n    ".join(record.example),
        **(_IN_THE_PACKAGE if in_the_package else _DOWNLOADED),
    )
    return entry


for _record in _records():
    # torch.hub looks up attributes, so fairseq's names with dots and hyphens can be entries too.
    globals().update(dict.fromkeys((_record.name, *_record.aliases), _entry(_record)))
