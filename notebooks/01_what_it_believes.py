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
# # 1. What the model believes
#
# RoBERTa has read much text with some words hidden, and has learned to guess them. What it "believes" is what such texts usually say.
# We ask it in five ways, and then look for where it is wrong.
#
# The model is `roberta.tiny`, which lies in the package. It is small and makes many mistakes: good for learning how to look. Nothing is
# downloaded. (`.png()` makes pictures that GitHub shows, too. Without it a notebook draws the answer itself, and shows more where the
# mouse rests on a word. Numbers are rounded.)
#
# Install: `pip install ".[notebooks]"` in a clone.

# %%
import roberta_hub

roberta = roberta_hub.load_model()
roberta.fill_mask("Every morning she drinks a cup of <mask>.", topk=5).png()

# %% [markdown]
# ## Masks: what could stand here?
#
# `<mask>` hides a word. Each bar is the probability that the model gives to a word in its place; a whole bar is 1. The model knows 50,265
# *tokens*: words, pieces of words and signs. The probabilities of all of them add up to 1.
#
# Look at two things: is it the right *kind* of word, and is it a sensible one? Four of the five above are the right kind; *her* is not.
# *Tea*, *milk* and *coffee* are sensible; *a cup of drinks* is not. Below, *hospital* is sensible, but *doctor* comes first. The farmer
# milks himself and the farm: right topic, wrong sense.

# %%
texts = ["The doctor works in a <mask>.", "The farmer milks the <mask>."]
roberta.fill_mask(texts, topk=3).png()

# %% [markdown]
# With `targets` only the words that you name are shown. The two bars need not add up to 1: the rest belongs to all other words. Compare
# the ratios of *he* to *she*, not the bars: 0.5 for the nurse, 16 for the pilot. That is a belief about nurses and pilots, taken from
# texts that people wrote.

# %%
texts = ["The nurse said that <mask> was tired.", "The pilot said that <mask> was tired."]
roberta.fill_mask(texts, targets=["he", "she"]).png()

# %% [markdown]
# ## Surprise: which word does not fit?
#
# Now each word is hidden in turn, and we look how probable the *real* one was. Surprise counts in bits: 0 bits, the model was sure of
# this word; 1 bit, it gave it a half; 2 bits, a quarter; 10 bits, one in a thousand. Colours and bars end at 15 bits, one in 33,000; the
# number has no end. Next to each bar are the words that the model expected instead.

# %%
roberta.explain("The children ate bread and butter for breakfast.").png()

# %%
roberta.explain("The children ate bread and gravel for breakfast.").png()

# %% [markdown]
# Even *butter* surprises this small model: compare two texts, and do not judge one number. *gravel* surprises it more (18.8 bits to 12.4),
# and so does *bread* next to it (8.3 to 5.0); the other words hardly change. Rare words and names often surprise, and are no mistakes.
#
# `score` adds up a whole text, token by token, with a minus, in natural logarithms (1 bit is 0.69): higher is more expected by this
# model. A longer text mostly scores lower, so compare texts that differ in a word. In each pair below, the first sentence is the sensible
# one. A bar to the right of 0: the model prefers it. A bar to the left: it does not.

# %%
pairs = [
    ("She put the letter into an envelope.", "She put the letter into an elephant."),
    ("The sun rises in the morning.", "The sun rises in the fridge."),
    ("He opened the door with a key.", "He opened the door with a cloud."),
    ("They were happy to see us.", "They was happy to see us."),
    ("I have never seen him.", "I have never see him."),
    ("Nobody likes to wait.", "Nobody likes to waits."),
]
better = roberta.score([sensible for sensible, _ in pairs])
worse = roberta.score([odd for _, odd in pairs])

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
axes.barh([odd for _, odd in pairs], [a - b for a, b in zip(better, worse)])
axes.axvline(0, color="black", linewidth=0.8)
axes.invert_yaxis()
axes.set(title="score of the sensible sentence, less the score of the odd one")
axes.set(ylabel="the odd sentence", xlabel="difference (natural logarithms)")
plt.show()

# %% [markdown]
# ## Pairs: does the second follow from the first?
#
# A *classification head* is a small layer on top of the model, trained to answer one question. The one in this model, `mnli`, reads two
# sentences. *entailment*: if the first is true, the second must be, too. *contradiction*: it cannot be. *neutral*: it may be or not. Only
# the two sentences count, not what is true in the world.

# %%
first = "Two women are playing football in the park."
pairs = [
    (first, "Some people are outside."),
    (first, "The women are sisters."),
    (first, "The women are asleep in bed."),
]
roberta.classify(pairs).png()

# %% [markdown]
# People would say entailment, neutral, contradiction. So does the model. The order matters. Turn the first
# pair round: who is outside need not play football. Right is *neutral*; this model says *contradiction*:

# %%
roberta.classify([pairs[0], pairs[0][::-1]]).png()

# %% [markdown]
# On which words does an answer depend? `explain` with the name of a classification head leaves out each word in turn and asks again.
# Blue: without this word the answer is less probable, so the word speaks *for* it. Orange, dotted: without it the answer is more probable.

# %%
pair = ("A child is eating an apple.", "A child is eating fruit.")
roberta.explain(pair, "mnli").png()

# %% [markdown]
# Without *apple* little is left of the answer: 0.89 - 0.76 = 0.13. Without *fruit* it is 0.92: that a child is eating follows a little
# more surely.

# %% [markdown]
# ## Zero-shot: labels of your own
#
# No classification head was trained on your labels. But a label is a word, and a word makes a sentence: "This example is sports." Does
# *that* follow from the text? `mnli` is asked. And is the text near the word *sports* by its meaning? That says its sentence vector, of
# which more below. This model answers best by both, weighed together. Some label always wins, even if none fits.

# %%
texts = [
    "The team scored twice in the last minute.",
    "Parliament votes on the new law today.",
    "Add salt and stir the soup.",
]
topics = ["sports", "politics", "cooking"]
roberta.zero_shot(texts, topics).png()

# %% [markdown]
# By hand, so that there is no magic in it: `mnli` gives three numbers for each pair, of which the last is that of *entailment*.
# `zero_shot(..., by="entailment")` turns these into probabilities that add up to 1 over the *labels* (a softmax):

# %%
import torch

roberta.eval()  # `predict` is the bare model, which else drops numbers at random, as in training
claims = [f"This example is {topic}." for topic in topics]
with torch.no_grad():
    asked = [roberta.encode(texts[0], claim) for claim in claims]
    numbers = [roberta.predict("mnli", ids, return_logits=True)[0, -1] for ids in asked]
for claim, share in zip(claims, torch.stack(numbers).softmax(0)):
    print(f"{share:.2f}  {claim}")
print(roberta.zero_shot(texts[0], topics, by="entailment"))

# %% [markdown]
# ## Similarity: what is near what?
#
# `embed` makes a list of numbers of each text, its *vector*. `similarity` compares vectors by their cosine: 1 is the same direction, 0 has
# nothing in common, and below 0 they point apart. The sentences come in three groups of three. If the model tells the groups apart, the
# three squares between the white lines are brighter than the rest. (Do not count the diagonal: there each sentence meets itself.)

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
cosines = roberta.similarity(texts, texts)

# %%
figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
drawn = axes.imshow(cosines, cmap="cividis", vmax=1)
numbered = [f"{text} {number}" for number, text in enumerate(texts, start=1)]
axes.set(yticks=range(9), yticklabels=numbered, xticks=range(9), xticklabels=range(1, 10))
axes.set(title="cosine of every two sentences")
for edge in (2.5, 5.5):
    axes.axhline(edge, color="white", linewidth=1)
    axes.axvline(edge, color="white", linewidth=1)
figure.colorbar(drawn, label="cosine (bright: alike)")
plt.show()

# %% [markdown]
# Dogs stand out; money and music do so less: *Shares fell on Monday* has little in common with *The bank raised its interest rates*.
#
# `search` asks which sentences are nearest to a query. No word of this query is in them, and yet the three about music come first:

# %%
roberta.search("someone makes music", texts, topk=4).png()

# %% [markdown]
# ## Where it is wrong
#
# **Not.** A guess should turn round with a *not*: a dog is an animal, and it is not a cat, a house or a song. The guess hardly turns, not
# even in large models ([Kassner and Schütze 2020](https://arxiv.org/abs/1911.03343)): the same words fit the rest of the sentence. The
# same word leads both lists below, and with *not* the model is even surer of *dog*:

# %%
texts = ["A dog is a <mask>.", "A dog is not a <mask>."]
roberta.fill_mask(texts, topk=5).png()

# %% [markdown]
# **Who did it.** The second sentence has only words of the first, and says something else. Many models answer *entailment*, because the
# words agree ([McCoy et al. 2019](https://arxiv.org/abs/1902.01007)). So does this one. Right is *neutral*, for all three:

# %%
pairs = [
    ("The doctor thanked the lawyer.", "The lawyer thanked the doctor."),
    ("The judge who saw the actor laughed.", "The actor laughed."),
    ("The artist near the dancer slept.", "The dancer slept."),
]
roberta.classify(pairs).png()

# %% [markdown]
# **Numbers.** Right: entailment, entailment, contradiction, neutral. Only the third answer is right. *More than* and *fewer than* are
# contradictions to this model, whatever the number, and so is *all* after *some*, though less surely.

# %%
pairs = [
    ("She has three brothers.", "She has more than two brothers."),
    ("She has three brothers.", "She has fewer than four brothers."),
    ("She has three brothers.", "She has fewer than two brothers."),
    ("Some of the trains were late.", "All the trains were late."),
]
roberta.classify(pairs).png()

# %% [markdown]
# **How you ask.** `hypothesis` is the sentence that a label is put into, at `{}`. The text stays, the sentence changes, and the
# probability with it. Right is *sports*, but *cook* is the stronger word, however we ask:

# %%
text = "The cook won the race."
for asked in ("This example is {}.", "It is about {}.", "We talked about {}."):
    print(roberta.zero_shot(text, topics, hypothesis=asked, by="entailment"), "|", asked)

# %% [markdown]
# ## What to take along
#
# - A probability is what the model expects, not how often it is right. Count on texts of your own: the
#   [model card](../roberta_hub/models/tiny/MODEL_CARD.md) has what was counted here.
# - Surprise tells that a word was not expected. It does not tell why. Compare two texts.
# - *Entailment* is about two sentences, not about the world; word overlap fools it.
# - `zero_shot` picks one of the labels that you name, and the wording counts. The model card has its shares of right answers: 89.8 % for
#   topics of eight kinds, and 76.7 % for two moods.
#
# Where these answers are not good enough, train a model on your own examples: that is [another notebook](03_your_own_classifier.ipynb).
