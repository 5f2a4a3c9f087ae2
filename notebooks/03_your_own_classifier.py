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
# A library gets letters. They are about loans, rooms, computers or events, and somebody has sorted the first hundred by hand. Can a model
# sort the next ones? All that it takes is a table of texts and labels.

# %%
import csv

with open("letters.csv", newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
known = [row for i, row in enumerate(rows) if i // 4 % 4 != 3]
unseen = [row for i, row in enumerate(rows) if i // 4 % 4 == 3]  # never learnt from
labels = sorted({row["label"] for row in rows})
print(f"{len(known)} letters to learn from, {len(unseen)} to test on; labels: {labels}")
rows[:4]

# %% [markdown]
# ## Without any training
#
# First we ask the model in the package, which has never seen such letters, by the labels' names alone. Guessing blindly would give one in
# four.

# %%
import roberta_hub

roberta = roberta_hub.load_model()
roberta.zero_shot([row["text"] for row in unseen[:4]], labels).png()

# %% [markdown]
# How many of the unseen letters does it get right? We shall count often, so it is a function:

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
# We try three values, to see what more reading does. (Each row is a dict; a path to a CSV file, or a data frame, is as good.) What is odd
# about a table `fit` says in warnings, which we print.

# %%
import tempfile
import warnings
from pathlib import Path

temporary = tempfile.TemporaryDirectory()  # a real model gets a folder of its own
folder = Path(temporary.name)
models = {}
with warnings.catch_warnings(record=True) as said:
    for epochs in (1, 3, 9):
        place = folder / f"read_{epochs}"
        models[epochs] = roberta_hub.fit(
            known, valid=unseen, output=place, epochs=epochs, progress=False
        )
print(*{str(warning.message) for warning in said if warning.category is UserWarning})

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
for name, part, line in (("learnt", known, "--s"), ("unseen", unseen, "-o")):
    right = [accuracy(model.classify(texts(part)), part) for model in models.values()]
    axes.plot(list(models), right, line, label=f"{name} letters")
axes.axhline(before, color="gray", linestyle=":", label="without training")
axes.set(xlabel="how often each letter is read", xticks=list(models))
axes.set(ylabel="right answers", ylim=(0, 1.03))
axes.legend(loc="lower right")
axes.grid(alpha=0.3)
plt.show()

# %% [markdown]
# The two lines say different things. The upper one shows what the model knows by heart. Only the lower one, of letters that it has never
# seen, tells what to expect tomorrow. When the first goes on rising and the second does not, more reading is of no more use; more
# *letters* are. (There are only 24 unseen ones: a single letter moves the lower line by four points.)

# %% [markdown]
# ## What is mixed up with what?
#
# Each row of this table is a label that a person gave, each column one that the model gave. The diagonal is right.

# %%
mine = models[9]
found = mine.classify(texts(unseen))
answers = [(row["label"], prediction.label) for row, prediction in zip(unseen, found)]
table = [[answers.count((true, said)) for said in labels] for true in labels]
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.imshow(table, cmap="Blues", vmax=9)
for i, row in enumerate(table):
    for j, count in enumerate(row):
        axes.text(j, i, count, ha="center", va="center")
axes.set(xlabel="the model says", xticks=range(len(labels)), xticklabels=labels)
axes.set(ylabel="a person says", yticks=range(len(labels)), yticklabels=labels)
plt.show()

# %% [markdown]
# ## The surest mistakes
#
# Now the letters in which the right label got the smallest share. A wrong answer with a high probability teaches most: either the
# model has learnt a wrong sign, or a person has mislabelled the letter, or the letter belongs to two labels.

# %%
def share(pair):
    prediction, row = pair
    return prediction.scores[row["label"]]  # of the right label


worst = sorted(zip(found, unseen), key=share)[:5]
for prediction, row in worst:
    right = prediction.scores[row["label"]]
    print(f"{prediction}, not {row['label']} {right:.2f} | {row['text']}")

# %% [markdown]
# Which words led it there? Blue words speak for its answer, orange ones against. (`print(mine)` tells the name of its head.)

# %%
mine.explain(worst[0][1]["text"], head="sentence_classification_head").png()

# %% [markdown]
# ## Kept, and used
#
# The model is saved already: `fit` wrote a folder, with the scores on the unseen letters in its README.md.

# %%
output = folder / "read_9"
print(*sorted(path.name for path in output.iterdir()))
card = (output / "README.md").read_text(encoding="utf-8")
print(card[card.index("## Scores") : card.index("These rows")])

# %%
again = roberta_hub.load_model(output)
again.classify(["The lamp in the hall is broken.", "Is the concert sold out?"]).png()

# %% [markdown]
# And from a shell. The whole of it, with a table of your own, is two commands: `roberta-hub fit letters.csv`, and then
# `roberta-hub classify -m mine`.

# %%
import sys

letter = "When do I have to bring back the film?"
# !NO_COLOR=1 {sys.executable} -m roberta_hub classify -m {output} -f table "{letter}"

# %% [markdown]
# What next? Some hundreds of rows make a better model; so does a larger one to begin with: `fit(table, model="roberta.base")`. More
# about training: [docs/training.md](../docs/training.md).
