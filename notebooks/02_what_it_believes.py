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
# # 2. What the model believes
#
# RoBERTa has read much text with some words hidden, and has learnt to guess them. What it "believes" is what such texts usually say.
# We ask it in five ways, and then look for where it is wrong.
#
# The model is `roberta.tiny`, which lies in the package. It is small, and makes mistakes that a large one does not: good for learning
# how to look. Nothing is downloaded. (`.png()` makes pictures that GitHub shows, too. Without it a notebook draws the answer itself, and
# shows more where the mouse rests on a word.)

# %%
import roberta_hub

roberta = roberta_hub.load_model()
roberta.fill_mask("Every morning she drinks a cup of <mask>.", topk=5).png()

# %% [markdown]
# ## Masks: what could stand here?
#
# `<mask>` hides a word. Each bar is the probability that the model gives to a word in its place; those of all words, 50,000 of them, add
# up to 1. Look at two things: is it the right *kind* of word, and is it a sensible one? The first is learnt early, the second late.
#
# Change the words around it, and the guess changes:

# %%
texts = ["The <mask> barked at us.", "The <mask> was late, so we missed the film."]
roberta.fill_mask(texts, topk=3).png()

# %% [markdown]
# With `targets` only the words that you name are compared. The two bars below need not add up to 1: the rest belongs to all other words.
# If *he* and *she* differ, that is a belief about nurses and pilots, taken from texts that people wrote.

# %%
texts = ["The nurse said that <mask> was tired.", "The pilot said that <mask> was tired."]
roberta.fill_mask(texts, targets=["he", "she"]).png()

# %% [markdown]
# ## Surprise: which word does not fit?
#
# Now each word is hidden in turn, and we look how probable the *real* one was. Surprise counts in bits: 0 bits, the model was sure of
# this word; 1 bit, it gave it a half; 2 bits, a quarter; 10 bits, one in a thousand. The stronger the colour, the greater the surprise;
# colours and bars end at 15 bits, one in 33,000.

# %%
roberta.explain("The children ate bread and butter for breakfast.").png()

# %%
roberta.explain("The children ate bread and gravel for breakfast.").png()

# %% [markdown]
# Compare the same words in the two pictures: the odd one is surprising itself, and it makes its neighbours more or less surprising, too.
# Rare words and names are always surprising. That alone is no mistake.
#
# Added up over a text, surprise tells which of two sentences is more natural. `score` gives that sum with a minus (and counts it piece by
# piece, in natural logarithms): higher is more natural. In each pair below, the first sentence is the sensible one:

# %%
pairs = [
    ("She put the letter into an envelope.", "She put the letter into an elephant."),
    ("The sun rises in the morning.", "The sun rises in the fridge."),
    ("He opened the door with a key.", "He opened the door with a cloud."),
    ("They were happy to see us.", "They was happy to see us."),
    ("I have never seen him.", "I have never see him."),
    ("Nobody likes to wait.", "Nobody likes to waits."),
]
better, worse = (roberta.score([pair[i] for pair in pairs]) for i in (0, 1))

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
gains = [a - b for a, b in zip(better, worse)]
colours = ["#1f6feb" if gain > 0 else "#d1570a" for gain in gains]
axes.barh([pair[1] for pair in pairs], gains, color=colours)
axes.axvline(0, color="black", linewidth=0.8)
axes.invert_yaxis()
axes.set(title="by how much the sensible sentence is more natural than this one")
axes.set(xlabel="difference of scores")
plt.show()

# %% [markdown]
# A bar to the right: the model prefers the sensible sentence. A bar to the left: it does not.

# %% [markdown]
# ## Pairs: does the second follow from the first?
#
# The head `mnli` reads two sentences. *entailment*: if the first is true, the second must be, too. *contradiction*: it cannot be.
# *neutral*: it may be or not. Only the two sentences count, not what is true in the world.

# %%
first = "Two women are playing football in the park."
pairs = [
    (first, "Some people are outside."),
    (first, "The women are sisters."),
    (first, "The women are asleep in bed."),
]
roberta.classify(pairs).png()

# %% [markdown]
# People would say: entailment, neutral, contradiction. The order matters. Turn the first pair round: who is outside need not play
# football.

# %%
roberta.classify([pairs[0], pairs[0][::-1]]).png()

# %% [markdown]
# On which words does an answer depend? `explain` with a head covers each word in turn with a `<mask>` and asks again. Blue: without this
# word the answer is less probable, so the word speaks *for* it. Orange: without it the answer is more probable. Where all numbers are
# near 0, no single word decides.

# %%
pair = ("A man is sleeping on a bench.", "A man is running on a road.")
roberta.explain(pair, "mnli").png()

# %% [markdown]
# ## Zero-shot: labels of your own
#
# No head was trained on your labels. But a label is a word, and a word makes a sentence: "This example is sports." Does *that* follow from
# the text? The label that follows best is the answer.

# %%
texts = [
    "The team scored twice in the last minute.",
    "Parliament votes on the new law today.",
    "Add salt and stir the soup.",
]
topics = ["sports", "politics", "cooking"]
roberta.zero_shot(texts, topics).png()

# %% [markdown]
# By hand, so that there is no magic in it: three pairs. Each number here is *entailment* against neutral and contradiction; `zero_shot`
# sets the three entailments against each other, so that they add up to 1.

# %%
pairs = [(texts[0], f"This example is {topic}.") for topic in topics]
for (_, claim), prediction in zip(pairs, roberta.classify(pairs)):
    print(f"{prediction.scores['entailment']:.2f}  {claim}")

# %% [markdown]
# ## Similarity: what is near what?
#
# `embed` makes one vector of a text, and the cosine compares two of them: 1 is the same direction. The sentences come in three groups of
# three. If the model tells the groups apart, there are three bright squares along the diagonal.

# %%
texts = [
    "A dog runs across the meadow.",
    "The puppy is playing outside.",
    "Two dogs chase a ball.",
    "The bank raised its interest rates.",
    "Shares fell on Monday.",
    "The company made less money.",
    "She plays the violin.",
    "The band gave a concert.",
    "He sings in a choir.",
]
alike = roberta.similarity(texts, texts)

# %%
figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
shown = axes.imshow(alike, cmap="cividis", vmax=1)
axes.set(yticks=range(9), yticklabels=texts, xticks=range(9), xticklabels=range(1, 10))
axes.set(title="cosine of each two sentences")
for edge in (2.5, 5.5):
    axes.axhline(edge, color="white", linewidth=1)
    axes.axvline(edge, color="white", linewidth=1)
figure.colorbar(shown)
plt.show()

# %% [markdown]
# `search` asks which sentences are nearest to a query. No word of this query need be in them:

# %%
roberta.search("someone makes music", texts, topk=4).png()

# %% [markdown]
# ## Where it is wrong
#
# **Not.** A guess should turn round with a *not*. It hardly does, not even in large models
# ([Kassner and Schütze 2020](https://arxiv.org/abs/1911.03343)): the same words fit the rest of the sentence. How many words are in both
# lists?

# %%
texts = ["A robin is a <mask>.", "A robin is not a <mask>."]
roberta.fill_mask(texts, topk=5).png()

# %% [markdown]
# **Who did it.** The same words in another order. Many models answer *entailment*, because all the words agree
# ([McCoy et al. 2019](https://arxiv.org/abs/1902.01007)). Right is *neutral*, for all three:

# %%
pairs = [
    ("The doctor thanked the lawyer.", "The lawyer thanked the doctor."),
    ("The judge who saw the actor laughed.", "The actor laughed."),
    ("The artist near the dancer slept.", "The dancer slept."),
]
roberta.classify(pairs).png()

# %% [markdown]
# **Numbers.** Words about amounts look alike. Right: entailment, contradiction, entailment, contradiction.

# %%
pairs = [
    ("There are seven apples in the bowl.", "There are more than five apples."),
    ("There are seven apples in the bowl.", "There are fewer than five apples."),
    ("All the trains were late.", "At least one train was late."),
    ("All the trains were late.", "Not a single train was late."),
]
roberta.classify(pairs).png()

# %% [markdown]
# **How you ask.** The text stays, the question about it changes. An answer that turns with the wording was not a firm one:

# %%
text = "The soup was cold, but the waiter made up for it."
for asked in ("This example is {}.", "The guest is {}.", "The evening was {}."):
    print(roberta.zero_shot(text, ["positive", "negative"], hypothesis=asked), "|", asked)

# %% [markdown]
# ## What to take along
#
# - A probability is what the model expects, not how often it is right. Count on texts of your own: the
#   [model card](../roberta_hub/models/tiny/MODEL_CARD.md) has what was counted here.
# - Surprise tells that a word does not fit. It does not tell why.
# - *Entailment* is about two sentences, not about the world; word overlap fools it.
# - A label of your own works best as a word that such texts use, in a sentence that they could contain.
#
# Where these answers are not good enough, train a model on your own examples: that is the [next notebook](03_your_own_classifier.ipynb).
