"""Verbs that keep the mode say once when that mode makes their answers random."""

import copy
import pickle
import warnings

import pytest
from small_models import small_roberta


@pytest.mark.system
def test_extract_features_warns_once_of_each_interface_and_predict_on_its_own() -> None:
    roberta = small_roberta(heads={"mnli": 3}).train()
    ids = roberta.encode("Hello")
    with pytest.warns(
        UserWarning, match=r"extract_features runs with dropout on.*eval\(\)"
    ) as seen:
        roberta.extract_features(ids)
    assert seen[0].filename == __file__
    with pytest.warns(UserWarning, match=r"predict runs with dropout on") as seen:
        roberta.predict("mnli", ids)
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roberta.extract_features(ids)
        roberta.predict("mnli", ids)
        copy.deepcopy(roberta).extract_features(ids)
        pickle.loads(pickle.dumps(roberta)).extract_features(ids)
        small_roberta().extract_features(ids)  # in eval mode
        calm = small_roberta(dropout=0.0, attention_dropout=0.0).train()
        calm.extract_features(ids)
