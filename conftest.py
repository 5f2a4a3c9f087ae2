"""Gives the examples in docstrings their names.

`torch` is there in every example. In those of the interface and the verbs `roberta` is roberta.base
with random weights, and `folder` an empty folder.
"""

import pytest


@pytest.fixture(scope="session")
def _base():
    import roberta_hub

    return roberta_hub.load_model("roberta.base", pretrained=False).eval()


@pytest.fixture(autouse=True)
def _doctest_names(request, doctest_namespace, tmp_path_factory):
    if isinstance(request.node, pytest.DoctestItem):
        import torch

        doctest_namespace["torch"] = torch
        if "interface" in request.node.name or "verbs" in request.node.name:
            import roberta_hub

            doctest_namespace["roberta_hub"] = roberta_hub
            doctest_namespace["roberta"] = request.getfixturevalue("_base")
            doctest_namespace["folder"] = tmp_path_factory.mktemp("saved")
