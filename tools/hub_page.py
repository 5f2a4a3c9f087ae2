"""`make hub-page`: every statement of fairseq's hub page runs.

They run on random weights and on a file that fairseq wrote: shapes and ids are right, the answers
mean nothing.
"""

from __future__ import annotations

import time
from pathlib import Path

from demo import walk

REPO = Path(__file__).resolve().parents[1]

LARGE = """
import torch
roberta = torch.hub.load(REPO, "roberta.large", source="local", pretrained=False)
roberta.eval()  # disable dropout (or leave in train mode to finetune)
tokens = roberta.encode("Hello world!")
assert tokens.tolist() == [0, 31414, 232, 328, 2]
roberta.decode(tokens)
assert roberta.decode(tokens) == "Hello world!"
last_layer_features = roberta.extract_features(tokens)
assert last_layer_features.size() == torch.Size([1, 5, 1024])
all_layers = roberta.extract_features(tokens, return_all_hiddens=True)
assert len(all_layers) == 25
assert torch.all(all_layers[-1] == last_layer_features)
roberta.register_classification_head("new_task", num_classes=3)
roberta.predict("new_task", tokens)
"""

MNLI = """
roberta = torch.hub.load(REPO, "roberta.large.mnli", source="local", pretrained=False)
roberta.eval()
tokens = roberta.encode("Roberta is a heavily optimized version of BERT.", \
"Roberta is not very optimized.")
roberta.decode(tokens)
with torch.no_grad(): prediction = roberta.predict("mnli", tokens).argmax().item()
prediction  # 0 contradiction, 1 neutral, 2 entailment
"""

FILE = """
from roberta_hub import RobertaModel, collate_tokens
roberta = RobertaModel.from_pretrained(FILE)
roberta.eval()
tokens = roberta.encode("Hello world!")
assert tokens.tolist() == [0, 31414, 232, 328, 2]
assert roberta.decode(tokens) == "Hello world!"
last_layer_features = roberta.extract_features(tokens)
last_layer_features.size()
all_layers = roberta.extract_features(tokens, return_all_hiddens=True)
assert torch.all(all_layers[-1] == last_layer_features)
roberta.register_classification_head("new_task", num_classes=3)
roberta.predict("new_task", tokens)
pairs = [["Roberta is a heavily optimized version of BERT.", "Roberta is not very optimized."], \
["potatoes are awesome.", "I like to run."]]
batch = collate_tokens([roberta.encode(pair[0], pair[1]) for pair in pairs], pad_idx=1)
roberta.predict("mnli", batch).argmax(dim=1)
roberta.fill_mask("The first Star wars movie came out in <mask>", topk=3)
"""


def main() -> None:
    """The hub page three times."""
    start = time.perf_counter()
    names: dict[str, object] = {
        "REPO": str(REPO),
        "FILE": str(REPO / "tests/data/fairseq/model.pt"),
    }
    walk(
        "# The hub page, roberta.large. These weights are RANDOM: shapes and ids are right, "
        "answers mean nothing.",
        LARGE,
        names,
    )
    walk(
        "# The MNLI part. These weights are RANDOM too; with the published ones this prints 0, "
        "contradiction.",
        MNLI,
        names,
    )
    walk(
        "# The same on a file that real fairseq 0.12.2 wrote, given by path (8 dimensions, random "
        "weights).",
        FILE,
        names,
    )
    print(
        f"\nEvery statement ran, in {time.perf_counter() - start:.1f} s. With a network, leave out "
        f"pretrained=False for the published weights."
    )


if __name__ == "__main__":
    main()
