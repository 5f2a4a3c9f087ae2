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
# # 2. The hub page, and what is inside
#
# RoBERTa was published with fairseq, a library. fairseq's page on
# [pytorch.org/hub](https://pytorch.org/hub/pytorch_fairseq_roberta) shows it in a few statements. Here they all run. Then we look
# inside: tokens, positions, layers, attention.
#
# The model is `roberta.tiny`, which lies in this repository: nothing is downloaded. It is small, so read its answers as those of a
# beginner. With a network, `"roberta.large"` and `"roberta.large.mnli"` load by the same call.
#
# Install: `pip install ".[notebooks]"` in a clone.

# %%
from pathlib import Path

import torch

REPO = next(folder for folder in ("..", ".") if Path(folder, "hubconf.py").exists())
roberta = torch.hub.load(REPO, "roberta.tiny", source="local")
roberta.eval()  # to answer; training drops some numbers at random (dropout)
torch.manual_seed(0)  # the same random numbers each time
parameters = sum(parameter.numel() for parameter in roberta.parameters())
print(f"{parameters:,} parameters in {roberta.cfg.num_layers} layers")

# %% [markdown]
# RoBERTa does not read words. It reads *tokens*: a token is a word, a piece of one or a sign, and has a number, its *id*. `<s>` begins a
# text, and `</s>` ends it. `Ġ` stands for the space before a token.

# %%
roberta.token_strip("Hello world! It bookmarks unbookish things.").png()

# %% [markdown]
# ## Statement by statement
#
# Text becomes ids, and ids become text again:

# %%
tokens = roberta.encode("Hello world!")
assert tokens.tolist() == [0, 31414, 232, 328, 2]
roberta.decode(tokens)  # 'Hello world!'

# %% [markdown]
# The model turns each id into a row of numbers, the token's *vector*: 1 text, 5 tokens, 384 numbers each. A large model has 1024.

# %%
last_layer_features = roberta.extract_features(tokens)
assert last_layer_features.size() == torch.Size([1, 5, roberta.cfg.embed_dim])
last_layer_features.size()

# %% [markdown]
# The model has six *layers*, each of which works on what the one before gives. `return_all_hiddens` shows all stages: what goes into the
# first layer, the *embeddings*, and what comes out of each. That makes seven, and the last one *is* the features.

# %%
all_layers = roberta.extract_features(tokens, return_all_hiddens=True)
assert len(all_layers) == roberta.cfg.num_layers + 1
assert torch.all(all_layers[-1] == last_layer_features)
len(all_layers)

# %% [markdown]
# A *classification head* is a small layer on top, which answers a question with probabilities. A new one has random weights until you
# train it, so these three mean nothing. (`grad_fn` is torch's note that they can be trained.)

# %%
roberta.register_classification_head("new_task", num_classes=3)
logprobs = roberta.predict("new_task", tokens)  # with gradients: it can learn
logprobs.exp()

# %% [markdown]
# The classification head `mnli` is trained. It reads two sentences. If the first is true, the second is wrong (0, *contradiction*), open
# (1, *neutral*) or right (2, *entailment*). The page says 0 and 2 for its two pairs, and so does this model:

# %%
with torch.no_grad():
    for second in ("Roberta is not very optimized.", "Roberta is based on BERT."):
        tokens = roberta.encode("Roberta is a heavily optimized version of BERT.", second)
        answer = roberta.predict("mnli", tokens).argmax().item()
        print(answer, roberta.head_labels("mnli")[answer], "|", second)

# %% [markdown]
# Several pairs at once are a *batch*: `collate_tokens` fills its rows up to one length with 1, the id of `<pad>`.

# %%
from roberta_hub import collate_tokens  # fairseq has it in fairseq.data.data_utils

batch_of_pairs = [
    ["Roberta is a heavily optimized version of BERT.", "Roberta is not very optimized."],
    ["potatoes are awesome.", "I like to run."],
]
batch = collate_tokens([roberta.encode(*pair) for pair in batch_of_pairs], pad_idx=1)
with torch.no_grad():
    answers = roberta.predict("mnli", batch).argmax(dim=1)
print([roberta.head_labels("mnli")[answer] for answer in answers])
batch

# %% [markdown]
# Words for a gap, `<mask>`. The bars are probabilities, and a whole bar is 1. The page's large model says 1977. This one puts signs first
# and wrong years after them: no guess gets more than 20 %.

# %%
filled = roberta.fill_mask("The first Star wars movie came out in <mask>", topk=5)
filled.png()

# %% [markdown]
# `filled` is the list that fairseq gives: (text, probability, word).

# %%
filled[:2]

# %% [markdown]
# The page's sizes are those of `roberta.large`. Its weights are a download, so here they are **random**: the sizes are right, the numbers
# mean nothing.

# %%
del roberta, last_layer_features, all_layers, logprobs
large = torch.hub.load(REPO, "roberta.large", source="local", pretrained=False).eval()
with torch.no_grad():
    tokens = large.encode("Hello world!")
    states = large.extract_features(tokens, return_all_hiddens=True)
assert len(states) == 25 and states[-1].shape == (1, 5, 1024)
print(f"{sum(p.numel() for p in large.parameters()):,} parameters")
del large, states

# %% [markdown]
# fairseq saves a model as `model.pt`. Such a file loads by its path; nothing in it is run. This one is made for tests: 8 numbers a token.

# %%
from roberta_hub import RobertaModel

small = RobertaModel.from_pretrained(f"{REPO}/tests/data/fairseq/model.pt").eval()
print(small.extract_features(small.encode("Hello world!")).shape)

# %% [markdown]
# ## Tokens
#
# A frequent word is one token; a rare word is several. `roberta.large` has the same tokens and ids:

# %%
roberta = torch.hub.load(REPO, "roberta.tiny", source="local").eval()
roberta.token_strip("Our librarian unshelves bookworms.").png()

# %% [markdown]
# `"is"` and `" is"` are two different tokens with two different ids:

# %%
for text in ("is", " is", "Is", " Is", "IS"):
    tokens, ids = roberta.tokenize(text), roberta.encode(text)[1:-1].tolist()
    print(f"{text!r:6} {tokens!s:8} {ids}")

# %% [markdown]
# Underneath, a text is *bytes*, and a token shows each as one letter. A plain letter is one byte. The curly apostrophe of `can’t` is three,
# `âĢ` and `Ļ`, and this emoji four. So a token may hold only a *part* of a character, and several tokens point at the same one. With the
# straight apostrophe, `'t` is one token. To a reader the two words are the same; to the model they are not.

# %%
for text in ("You can't paint a 🍓.", "You can’t paint a 🍓."):
    for token, (start, end) in zip(roberta.tokenize(text), roberta.offsets(text)):
        print(f"{token}={text[start:end]!r}", end="  ")
    print()

# %% [markdown]
# **Text stays text.** A typed `</s>` is four characters, and ends nothing: below it is three tokens, none with the id 2. Between the two
# sentences of a pair stands the real one, twice. (`fill_mask` alone looks for a symbol in your text: `<mask>`.)

# %%
roberta.token_strip(("End it with </s> or not.", "It goes on.")).png()

# %% [markdown]
# ## Positions
#
# Attention alone does not know the order of its tokens. So each token gets a *position*, and a vector for it. RoBERTa counts from 2:
# position 1 belongs to `<pad>`, and 0 is never used.
#
# Texts differ in length, and a batch is a rectangle. The empty places are filled on the right, or on the left. The numbers in the picture
# are positions:

# %%
sentences = ["The cat sleeps.", "Rain.", "A quiet library opens at nine."]
ids = [roberta.encode(sentence) for sentence in sentences]
right = collate_tokens(ids, pad_idx=1)
left = collate_tokens(ids, pad_idx=1, left_pad=True)


def positions(batch):
    real = batch.ne(1)
    return real.cumsum(1) * real + 1  # a sum along the row counts real tokens only


# %%
import matplotlib.pyplot as plt

figure, panels = plt.subplots(1, 2, figsize=(9, 2.4), layout="constrained")
for axes, batch, side in ((panels[0], right, "right"), (panels[1], left, "left")):
    table = positions(batch)
    axes.imshow(table.masked_fill(batch.eq(1), 0), cmap="Blues", vmax=20, aspect="auto")
    axes.set(title=f"positions, padding on the {side}", xlabel="place in the row")
    axes.set(yticks=range(3), ylabel="text")
    for row in range(table.size(0)):
        for column in range(table.size(1)):
            padding = batch[row, column] == 1
            shown = "pad" if padding else int(table[row, column])
            faint = 0.4 if padding else 1
            axes.text(column, row, shown, ha="center", va="center", alpha=faint)
plt.show()

# %% [markdown]
# A token keeps its position wherever the padding is. So its features must be the same, and they are, to the last bit. At the padding
# stand zeros: nothing is computed there.

# %%
with torch.no_grad():
    from_right, from_left = map(roberta.extract_features, (right, left))
same = torch.equal(from_right[right.ne(1)], from_left[left.ne(1)])
print("the same features:", same)
print("zeros at padding:", bool((from_right[right.eq(1)] == 0).all()))

# %% [markdown]
# In fact padding never gets in. We can listen at the table of positions while the batch goes through: real tokens only, end to end.

# %%
heard = []
table = roberta.model.encoder.sentence_encoder.embed_positions
listener = table.register_forward_pre_hook(lambda _, inputs: heard.append(inputs[0]))
with torch.no_grad():
    roberta.extract_features(right)
listener.remove()
print(f"{right.numel()} places in the batch, {heard[0].numel()} tokens in the model:")
print(heard[0].tolist())

# %% [markdown]
# ## Layers
#
# Each layer changes each token's vector by the tokens around it. Does a word of two meanings get two different vectors? We take *bank* in
# four sentences, two about money and two about rivers, and compare the last three with the first, layer by layer.
# (The *cosine* of two vectors is 1 for the same direction, and 0 for nothing in common.)

# %%
banks = [
    "The bank lends money to small firms.",
    "The bank pays no interest this year.",
    "The bank of the river was green.",
    "The bank was full of reeds and ducks.",
]


def bank(text):  # (layers, numbers): the vector of " bank" in each layer
    place = roberta.tokenize(text).index("Ġbank") + 1  # 1 for <s>
    with torch.no_grad():
        states = roberta.extract_features(roberta.encode(text), return_all_hiddens=True)
    return torch.cat(states)[:, place]


# %%
vectors = [bank(text) for text in banks]
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for text, vector, line in zip(banks[1:], vectors[1:], ("-o", "--s", ":^")):
    axes.plot(torch.cosine_similarity(vectors[0], vector, dim=-1), line, label=text)
axes.set(title=f"how alike is this bank to that of “{banks[0]}”?")
axes.set(xlabel="after layer (0: the embeddings)", xticks=range(len(vectors[0])))
axes.set(ylabel="cosine (axis begins at 0.8)", ylim=(0.8, 1.02))
axes.set(yticks=(0.8, 0.85, 0.9, 0.95, 1))
figure.legend(loc="outside lower center")
axes.grid(alpha=0.3)
plt.show()

# %% [markdown]
# At 0 all are the same: one word, in the same place. Up to layer 5 the other *money* bank is nearest. After layer 6 it is not: a river's
# bank lies nearer. And all stay above 0.8. This model hardly keeps the two meanings apart.

# %% [markdown]
# ## Attention
#
# How does a token see the tokens around it? A layer has twelve *attention heads* (not to be mistaken for classification heads). Each makes
# for each token a row of weights that add up to 1, and mixes the vectors of all tokens by them. One attention head, the first of layer 2
# (layers count from 1, heads from 0):

# %%
text = "The cat slept because it was tired."
roberta.attention(text, layer=2, attention_head=0).png()

# %% [markdown]
# Read it row by row: the token on the left takes from the tokens above. This head takes mostly from `<s>`. Apart from that, *cat* takes
# from itself, and *slept* from *tired*.
#
# All heads of the last layer, `layer=-1`, in small. A dark column is a token from which all others take:

# %%
roberta.attention(text, layer=-1).png()

# %% [markdown]
# The column of `<s>` is dark in most heads. Other dark ones are *cat* (head 11), *slept* and *tired* (head 9).
#
# Weights are what a layer mixes by. They are *not* a reason for an answer ([Jain and Wallace 2019](https://arxiv.org/abs/1902.10186)).
# To ask what an answer depends on, change the text and ask again. That is what `explain` does, in the
# [first notebook](01_what_it_believes.ipynb).
