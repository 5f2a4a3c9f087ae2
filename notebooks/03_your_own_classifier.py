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
# # 3. Your own classifier
#
# A library gets letters. They are about borrowed books (`loan`), rooms, computers or events, and somebody has sorted 240 of them by hand.
# Can a model sort the next ones? All that it takes is a table of texts and labels.
#
# Install: `pip install ".[notebooks,train]"` in a clone.

# %%
import csv

with open("letters.csv", newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
# Of every 8 rows the model learns from 4, one of each label. It never learns from the other 4.
known = [row for i, row in enumerate(rows) if i % 8 < 4]
unseen = [row for i, row in enumerate(rows) if i % 8 >= 4]
labels = sorted({row["label"] for row in rows})
print(f"{len(known)} letters to learn from, {len(unseen)} to test on; labels: {labels}")
rows[:4]

# %% [markdown]
# ## Without any training
#
# First we ask the model in the package, which was not trained on these letters, by the labels' names alone. Here are four of the unseen
# letters; a person says *loan*, *room*, *computer*, *event*. Each bar is a probability.

# %%
import roberta_hub

roberta = roberta_hub.load_model()
roberta.zero_shot([row["text"] for row in unseen[:4]], labels).png()

# %% [markdown]
# How many of all 120 does it get right? We shall count often, so it is a function:


# %%
def accuracy(found, rows):
    return sum(f.label == row["label"] for f, row in zip(found, rows)) / len(rows)


def texts(rows):
    return [row["text"] for row in rows]


before = accuracy(roberta.zero_shot(texts(unseen), labels), unseen)
print(f"without training: {before:.0%}; blind guesses: {1 / len(labels):.0%}")

# %% [markdown]
# ## Training
#
# `fit` takes the table and gives a model. `epochs` says how often it reads each letter; without it `fit` chooses by the number of rows.
# We try 1, 3 and 9. The rows of `valid` are only counted on: `fit` learns nothing from them, and chooses nothing by them. (Each row is a
# dict; a path to a CSV file, or a data frame, is as good.)

# %%
import tempfile
from pathlib import Path

temporary = tempfile.TemporaryDirectory()  # a real model gets a folder of its own
folder = Path(temporary.name)
models = {}
for epochs in (1, 3, 9):
    place = folder / f"read_{epochs}"
    models[epochs] = roberta_hub.fit(known, valid=unseen, output=place, epochs=epochs)

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
for name, part, line in (("learnt", known, "--s"), ("unseen", unseen, "-o")):
    right = [accuracy(model.classify(texts(part)), part) for model in models.values()]
    axes.plot(list(models), right, line, label=f"{name} letters")
axes.axhline(before, color="gray", linestyle=":", label="unseen, without training")
axes.set(xlabel="how often each letter is read", xticks=list(models))
axes.set(ylabel="share of right answers", ylim=(0, 1.03))
axes.legend(loc="lower right")
axes.grid(alpha=0.3)
plt.show()
print(f"unseen letters, without training: {before:.0%}; read {epochs} times: {right[-1]:.0%}")

# %% [markdown]
# The upper line counts letters that the model was trained on, which it soon knows by heart; only the lower one tells what to expect of
# tomorrow's. It starts high: `fit` begins with a regression on the model's vectors, so the first reading starts from a good place.

# %% [markdown]
# ## What is mixed up with what?
#
# We continue with the model that has read nine times.
#
# Each row of this table is a label that a person gave, each column one that the model gave, each number a count of letters. The diagonal
# is right.

# %%
mine = models[9]
found = mine.classify(texts(unseen))
answers = [(row["label"], prediction.label) for row, prediction in zip(unseen, found)]
table = [[answers.count((true, given)) for given in labels] for true in labels]
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.imshow(table, cmap="Blues", vmax=40)
for i, row in enumerate(table):
    for j, count in enumerate(row):
        axes.text(j, i, count, ha="center", va="center")
axes.set(xlabel="the model says", xticks=range(len(labels)), xticklabels=labels)
axes.set(ylabel="a person says", yticks=range(len(labels)), yticklabels=labels)
plt.show()

# %% [markdown]
# ## The worst mistakes
#
# Ten at most. The one in which the right label got the least comes first. A wrong answer with a high probability teaches most: the model has learned a
# wrong sign, or a person has mislabelled the letter, or the letter belongs to two labels.


# %%
def share(pair):
    prediction, row = pair
    return prediction.scores[row["label"]]  # of the right label


wrong = [pair for pair in zip(found, unseen) if pair[0].label != pair[1]["label"]]
worst = sorted(wrong, key=share)
print(f"{len(wrong)} of {len(unseen)} letters are answered wrongly")
for prediction, row in worst[:10]:
    right = prediction.scores[row["label"]]
    print(f"{prediction}, not {row['label']} {right:.2f} | {row['text']}")

# %% [markdown]
# Which words led it there? `explain` leaves out each word in turn and asks again. A blue word speaks for the answer: without it the answer
# is less probable. An orange one speaks against it. (`fit` gives its classification head this name.)

# %%
mine.explain(worst[0][1]["text"], head="sentence_classification_head").png()

# %% [markdown]
# ## Kept, and used
#
# The model is saved already: `fit` wrote a folder. Its README.md has the scores on the unseen letters, which it calls *held out*.
# The range after "95 %" is what so few letters can tell: on very many letters it would most likely be right on a share within it. Where the
# share without training lies below the range, training has helped.

# %%
output = folder / "read_9"
print(*sorted(path.name for path in output.iterdir()))
card = (output / "README.md").read_text(encoding="utf-8")
print(*[line for line in card.splitlines() if line.startswith("accuracy")])
print(f"without training: {before:.0%}; always the same label: {1 / len(labels):.0%}")

# %%
again = roberta_hub.load_model(output)
again.classify(["The lamp in the hall is broken.", "Is the concert sold out?"]).png()

# %% [markdown]
# And from a shell. With a table of your own it is two commands: `roberta-hub fit letters.csv --output mine` writes the folder `mine`, and
# `roberta-hub classify -m mine` asks it.

# %%
import sys

letter = "When do I have to bring back the film?"
# !NO_COLOR=1 {sys.executable} -m roberta_hub classify -m {output} -f table "{letter}"

# %% [markdown]
# What next? Try more rows, or a larger model to begin with: `fit(table, model="roberta.base")`. Letters that it never saw tell whether it
# helps. More about training: [docs/guides/fine_tune.md](../docs/guides/fine_tune.md).
