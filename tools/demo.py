"""`make demo`: the model in the box answers."""

from __future__ import annotations

import ast
import time

DEMO = """
import roberta_hub
roberta = roberta_hub.load_model()
roberta
for _, probability, word in roberta.fill_mask("They have lived here for many <mask>.", topk=3):
    print(f"{word.strip()} {probability:.2f}")
answers = ["You can pay by card.", "The museum opens at nine.", "Dogs are not allowed in the park."]
print(roberta.search("Can I bring my dog?", answers, topk=1))
print(roberta.zero_shot("The team scored twice in the last minute.", ["politics", "sports"]))
pairs = [
    ("A man is playing a guitar.", "A man is making music."),
    ("A child is painting a fence in the garden.", "Nobody is painting anything."),
]
print(roberta.classify(pairs))  # does the second sentence follow from the first?
"""


def walk(title: str, script: str, names: dict[str, object]) -> None:
    """Run a script statement by statement, as an interactive session would show it."""
    print(f"\n{title}\n")
    lines = script.strip().splitlines()
    for node in ast.parse(script.strip()).body:
        first, *more = lines[node.lineno - 1 : node.end_lineno]
        print("\n".join([f">>> {first}", *(f"... {line}" for line in more)]))
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
    print(f"\nIt answered {seconds:.1f} s after the start.")
    print("Next: . .venv/bin/activate, then README.md. To train, pip install -e '.[train]'.")


if __name__ == "__main__":
    main()
