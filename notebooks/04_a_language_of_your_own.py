# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 4. A language of your own
#
# RoBERTa's models know English. What about a language that they have never read: Frisian, chess notation, the code of your company?
# Here it is Python, because every reader has its text: the standard library. From text to a model that fills in words takes ten minutes
# on one core.
#
# Install: `pip install ".[notebooks,train,vocabulary]"` in a clone.

# %%
import sysconfig
from pathlib import Path

# For another language, put its text here: a sentence or a paragraph a line, an empty line between documents.
library = Path(sysconfig.get_path("stdlib"))
files = sorted([*library.glob("*.py"), *library.glob("[a-z]*/*.py")])
files = [file for file in files if not {"site-packages", "test", "idlelib"} & set(file.parts)]
texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
print(f"{len(texts)} files, {sum(map(len, texts)) / 1e6:.1f} million characters")

# %% [markdown]
# The model in the package has read only English. What does it put into a line of code?

# %%
import roberta_hub

lines = ["for i in <mask>(len(items)):", "import <mask>", "def __init__(<mask>, name):"]
roberta_hub.load_model().fill_mask(lines[0], topk=5).png()

# %% [markdown]
# ## Its pieces
#
# A vocabulary is learned first: bytes that are often next to each other become a piece. Every twentieth file is kept aside, to ask about later.

# %%
import sys
import tempfile

temporary = tempfile.TemporaryDirectory()  # a real model gets a folder of its own
folder = Path(temporary.name)
(folder / "learnt.txt").write_text("\n\n".join(texts[i] for i in range(len(texts)) if i % 20))
(folder / "unseen.txt").write_text("\n\n".join(texts[::20]))
# !cd {folder} && {sys.executable} -m roberta_hub vocabulary learnt.txt --size 8000 --output pieces

# %%
# !NO_COLOR=1 {sys.executable} -m roberta_hub tokens -m {folder}/pieces "self.assertEqual(len(items), 2)"
# !NO_COLOR=1 {sys.executable} -m roberta_hub tokens "self.assertEqual(len(items), 2)"

# %% [markdown]
# Above, the pieces of this language; below, English's. Fewer pieces mean longer texts in the same time.
#
# ## Its model
#
# A small RoBERTa of three layers. `pretrain=tiny` makes the first weights from which pieces stand together in the text, so a few minutes are
# enough. A bar shows how far it is.

# %%
shape = {"embed_dim": 192, "ffn_dim": 768, "num_layers": 3, "num_heads": 3}
settings = {"data.vocabulary": "pieces", "data.train": "learnt.txt", "data.valid": "unseen.txt"}
settings |= {"loop.max_updates": 1000, "optimizer.total_updates": 1000, "optimizer.lr": 3e-3}
settings |= {f"architecture.{name}": value for name, value in shape.items()}
command = " ".join(f"{name}={value}" for name, value in settings.items())
# !cd {folder} && {sys.executable} -m roberta_hub train pretrain=tiny output=run {command}

# %%
import csv

import matplotlib.pyplot as plt

with open(folder / "run" / "log.csv", newline="") as file:
    log = [(int(row["update"]), float(row["loss"])) for row in csv.DictReader(file)]
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.plot(*zip(*log), linewidth=1)
axes.set(xlabel="updates", ylabel="loss of a masked piece, in nats")
axes.grid(alpha=0.3)
plt.show()

# %% [markdown]
# ## What it knows now
#
# The same line, and two more:

# %%
mine = roberta_hub.load_model(folder / "run" / "best")
mine.fill_mask(lines[0], topk=5).png()

# %%
for line in lines[1:]:
    found = mine.fill_mask(line)
    print(line, *[f"{word.strip()} {share:.2f}" for _, share, word in found], sep="   ")

# %% [markdown]
# And in files that it never read? One word of a line is masked. How often is the first answer the word that was there?

# %%
import random
import re
from collections import Counter

chosen = random.Random(0)
unseen = [line.strip() for text in texts[::20] for line in text.splitlines()]
unseen = [line for line in unseen if 20 < len(line) < 80 and line.endswith((")", ":"))]
places = [(line, chosen.choice(list(re.finditer(r"\w+", line)))) for line in unseen[::10]]
masked = [line[: place.start()] + "<mask>" + line[place.end() :] for line, place in places]
right = [found[0][0] == line for found, (line, _) in zip(mine.fill_mask(masked, topk=1), places)]
word, count = Counter(place[0] for _, place in places).most_common(1)[0]
print(f"{len(places)} lines: {sum(right) / len(places):.0%} right")
print(f"always {word!r}: {count / len(places):.0%}")

# %% [markdown]
# What next? A larger model, more text and more updates: [docs/guides/own_language.md](../docs/guides/own_language.md).
