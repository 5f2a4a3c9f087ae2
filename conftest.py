"""For the examples in docstrings: `roberta` is roberta.base with random weights."""

import pytest


@pytest.fixture(scope="session")
def _base():
    import roberta_hub

    return roberta_hub.load_model("roberta.base", pretrained=False).eval()


@pytest.fixture(autouse=True)
def _doctest_names(request, doctest_namespace):
    if isinstance(request.node, pytest.DoctestItem):
        import torch

        doctest_namespace["torch"] = torch
        if "interface" in request.node.name or "verbs" in request.node.name:
            doctest_namespace["roberta"] = request.getfixturevalue("_base")
