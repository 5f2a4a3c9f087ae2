"""`make demo`: the model in the box answers."""

from __future__ import annotations

import ast
import time

DEMO = """
import roberta_hub
roberta = roberta_hub.load_model()
roberta
for text in ["She was born in a small village near the <mask>.", \
"The film was directed <mask> a young woman from Ohio."]:
    print(text, [(word, round(p, 2)) for _, p, word in roberta.fill_mask(text, topk=3)])
answers = ["You can pay by card.", "The museum opens at nine.", "Dogs are not allowed in the park."]
for hit in roberta.search("Can I bring my dog?", answers, topk=1): print(hit.text)
print(roberta.zero_shot("The team scored twice in the last minute.", ["politics", "sports"]))
pairs = [("A man is playing a guitar.", "A man is making music."), \
("A child is painting a fence in the garden.", "Nobody is painting anything.")]
for pair, answer in zip(pairs, roberta.classify(pairs)):
    print(pair, answer.label, round(answer.score, 2))
"""


def walk(title: str, script: str, names: dict[str, object]) -> None:
    """Run a script statement by statement, as an interactive session would show it."""
    print(f"\n{title}\n")
    for node in ast.parse(script.strip()).body:
        print(f">>> {ast.get_source_segment(script.strip(), node)}")
        if isinstance(node, ast.Expr):
            value = eval(compile(ast.Expression(node.value), "demo", "eval"), names)
            if value is not None:
                print(value)
        else:
            exec(compile(ast.Module([node], []), "demo", "exec"), names)


def main() -> None:
    """Show a session with roberta.tiny."""
    start = time.perf_counter()
    walk("# roberta.tiny, in the package. Its answers are its own.", DEMO, {})
    seconds = time.perf_counter() - start
    print(f"\nIt answered {seconds:.1f} s after the start. More: README.md; `make hub-page`.")


if __name__ == "__main__":
    main()
