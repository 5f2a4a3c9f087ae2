"""torch.hub entry points. `torch.hub.list` shows every callable here, so helpers begin with "_"."""

dependencies = ["torch", "tiktoken", "regex", "requests"]


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
            f"from {found} is already imported and is used; restart Python, or `pip uninstall "
            "roberta-hub`"
        )
        if wanted != roberta_hub.__version__:
            raise roberta_hub.RobertaHubError(message)
        import warnings

        warnings.warn(message, stacklevel=3)
    return roberta_hub.load_model(name, pretrained=pretrained, **keywords)


def roberta_base(pretrained=True, **keywords):
    """RoBERTa base: 125 M parameters, 12 layers, 768 dimensions; 0.2 GB download.

    Args:
        pretrained (bool): False gives random weights, without any network.
        **keywords: `device`, `dtype`, `progress`, `force_download`; fairseq's `checkpoint_file`,
            `data_name_or_path` and arguments of the checkpoint such as `dropout`.
            All are documented in `help(roberta_hub.load_model)`.

    Example:
        >>> roberta = torch.hub.load(REPO, "roberta.base", trust_repo=True)
        >>> roberta.eval()
        >>> roberta.encode("Hello world!")
        tensor([    0, 31414,   232,   328,     2])
    """
    return _load("roberta.base", pretrained, keywords)


def roberta_large(pretrained=True, **keywords):
    """RoBERTa large: 355 M parameters, 24 layers, 1024 dimensions; 0.7 GB download.

    Args:
        pretrained (bool): False gives random weights, without any network.
        **keywords: `device`, `dtype`, `progress`, `force_download`; fairseq's `checkpoint_file`,
            `data_name_or_path` and arguments of the checkpoint such as `dropout`.
            All are documented in `help(roberta_hub.load_model)`.

    Example:
        >>> roberta = torch.hub.load(REPO, "roberta.large", trust_repo=True)
        >>> roberta.eval()
        >>> roberta.extract_features(roberta.encode("Hello world!")).shape
        torch.Size([1, 5, 1024])
    """
    return _load("roberta.large", pretrained, keywords)


def roberta_large_mnli(pretrained=True, **keywords):
    """RoBERTa large fine-tuned on MNLI, with the head "mnli"; 0.7 GB download.

    Its classes are contradiction, neutral and entailment.

    Args:
        pretrained (bool): False gives random weights, without any network.
        **keywords: `device`, `dtype`, `progress`, `force_download`; fairseq's `checkpoint_file`,
            `data_name_or_path` and arguments of the checkpoint such as `dropout`.
            All are documented in `help(roberta_hub.load_model)`.

    Example:
        >>> roberta = torch.hub.load(REPO, "roberta.large.mnli", trust_repo=True)
        >>> roberta.eval()
        >>> tokens = roberta.encode("Roberta is heavily optimized.", "Roberta is not optimized.")
        >>> roberta.predict("mnli", tokens).argmax().item()  # 0: contradiction
        0
    """
    return _load("roberta.large.mnli", pretrained, keywords)


def roberta_large_wsc(pretrained=True, **keywords):
    """RoBERTa large fine-tuned on Winograd schemas, for `disambiguate_pronoun`; 0.7 GB download.

    Args:
        pretrained (bool): False gives random weights, without any network.
        **keywords: `device`, `dtype`, `progress`, `force_download`; fairseq's `checkpoint_file`,
            `data_name_or_path` and arguments of the checkpoint such as `dropout`.
            All are documented in `help(roberta_hub.load_model)`; `user_dir` is not needed here.

    Example:
        >>> roberta = torch.hub.load(REPO, "roberta.large.wsc", trust_repo=True)
        >>> roberta.eval()
        >>> roberta.disambiguate_pronoun(
        ...     "The _trophy_ would not fit in the brown suitcase because [it] was too big.",
        ...     candidates=["the brown suitcase"])
        True
    """
    return _load("roberta.large.wsc", pretrained, keywords)


def roberta_tiny(pretrained=True, **keywords):
    """RoBERTa tiny, with 10 M parameters and the head "mnli", in the package; no download.

    It has 4 layers and 256 dimensions. Made with this package's own training code; its
    MODEL_CARD.md says of what, and how good it is.

    Args:
        pretrained (bool): False gives random weights.
        **keywords: `device`, `dtype`; all are documented in `help(roberta_hub.load_model)`.

    Example:
        >>> roberta = torch.hub.load(REPO, "roberta.tiny", trust_repo=True)
        >>> roberta.eval()
        >>> roberta.fill_mask("The capital of France is <mask>.", topk=3)
    """
    return _load("roberta.tiny", pretrained, keywords)


# fairseq's names; torch.hub looks them up as attributes.
globals().update(
    {
        "roberta.base": roberta_base,
        "roberta.large": roberta_large,
        "roberta.large.mnli": roberta_large_mnli,
        "roberta.large.wsc": roberta_large_wsc,
        "roberta.tiny": roberta_tiny,
    }
)
