"""What others publish on these sets: none of it is run here, and each row says where it is from."""

from __future__ import annotations

from dataclasses import dataclass, field

TWEETEVAL = "[TweetEval](https://github.com/cardiffnlp/tweeteval), README"
MODEL2VEC = "[model2vec](https://github.com/MinishLab/model2vec/tree/main/results), README"
CNN = "[sent-conv-torch](https://github.com/harvardnlp/sent-conv-torch), README"
SIMCSE = "[SimCSE](https://github.com/princeton-nlp/SimCSE), README"
ALL_PAIRS = "all pairs of a year at once, 2012's with MSRvid"


@dataclass(frozen=True)
class Published:
    """One row of somebody's table."""

    name: str
    source: str
    """A link, and where to look there."""
    scores: dict[str, float] = field(default_factory=dict)
    """Set -> score, as published."""
    otherwise: str = ""
    """How it is measured otherwise than ours."""


TWEETS = (
    Published(
        "BERTweet",
        TWEETEVAL,
        {"emotion": 79.3, "hate": 56.4, "irony": 82.1, "offensive": 79.5},
    ),
    Published(
        "RoBERTa-base, retrained on tweets",
        TWEETEVAL,
        {"emotion": 78.5, "hate": 52.3, "irony": 61.7, "offensive": 80.5},
    ),
    Published(
        "RoBERTa-base", TWEETEVAL, {"emotion": 76.1, "hate": 46.6, "irony": 59.7, "offensive": 79.5}
    ),
    Published("LSTM", TWEETEVAL, {"emotion": 66.0, "hate": 52.6, "irony": 62.8, "offensive": 71.7}),
    Published(
        "fastText", TWEETEVAL, {"emotion": 65.2, "hate": 50.6, "irony": 63.1, "offensive": 73.4}
    ),
    Published("SVM", TWEETEVAL, {"emotion": 64.7, "hate": 36.7, "irony": 61.7, "offensive": 52.3}),
)
THOUSAND_ROWS = (
    "1,000 other rows; SST-5's low numbers suggest macro-F1, which the page does not say"
)
SENTENCES = {
    1000: (
        Published("BGE-base and regression", MODEL2VEC, {"subj": 94.55, "sst5": 38.49}),
        Published("SetFit, all-MiniLM-L6-v2", MODEL2VEC, {"subj": 93.80, "sst5": 42.31}),
        Published("model2vec, trained", MODEL2VEC, {"subj": 89.85, "sst5": 37.95}),
        Published("model2vec and regression", MODEL2VEC, {"subj": 89.20, "sst5": 32.34}),
        Published("TF-IDF and regression", MODEL2VEC, {"subj": 86.39, "sst5": 18.52}),
    ),
    0: (
        Published(
            "CNN on word2vec (Kim 2014), trained again by others",
            CNN,
            {"trec": 92.8, "subj": 93.4, "mr": 81.3, "sst5": 46.7},
            "MR and SUBJ by ten folds",
        ),
    ),
}
"""By rows; 0: the whole set."""
SIMILARITIES = (
    Published(
        "SimCSE, BERT-base, trained on NLI",
        SIMCSE,
        {"sts2012": 75.30, "sts2014": 80.19, "sts2015": 85.40},
        ALL_PAIRS,
    ),
)
