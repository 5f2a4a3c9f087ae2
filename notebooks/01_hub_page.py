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
# # 1. The hub page, and what is inside
#
# fairseq's page on [pytorch.org/hub](https://pytorch.org/hub/pytorch_fairseq_roberta) shows RoBERTa in a few statements. Here they all
# run. Then we look inside: tokens, positions, layers, attention.
#
# The model is `roberta.tiny`, which lies in this repository: nothing is downloaded. It is small, so read its answers as those of a
# beginner. With a network, write `"roberta.large"` instead, and change nothing else.

# %%
from pathlib import Path

import torch

REPO = next(folder for folder in ("..", ".") if Path(folder, "hubconf.py").exists())
roberta = torch.hub.load(REPO, "roberta.tiny", source="local")
roberta.eval()  # disable dropout (or leave in train mode to finetune)
torch.manual_seed(0)  # the same random head below each time
parameters = sum(parameter.numel() for parameter in roberta.parameters())
print(f"{parameters:,} parameters in {roberta.cfg.num_layers} layers")

# %% [markdown]
# RoBERTa does not read words. It reads *pieces*, each with a number, its id. `<s>` begins a text, and `</s>` ends it. `Ġ` stands for the
# space before a piece.

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
# The model turns each id into a row of numbers. There is a row for each of the 5 tokens; a large model has 1024 numbers in it:

# %%
last_layer_features = roberta.extract_features(tokens)
assert last_layer_features.size() == torch.Size([1, 5, roberta.cfg.embed_dim])
last_layer_features.size()

# %% [markdown]
# With all hidden states: the embeddings, and then one for each layer. The last one *is* the features.

# %%
all_layers = roberta.extract_features(tokens, return_all_hiddens=True)
assert len(all_layers) == roberta.cfg.num_layers + 1
assert torch.all(all_layers[-1] == last_layer_features)
len(all_layers)

# %% [markdown]
# A new head answers a question of your own. Its weights are random until you train it, so these three probabilities mean nothing:

# %%
roberta.register_classification_head("new_task", num_classes=3)
logprobs = roberta.predict("new_task", tokens)  # with gradients: it can learn
logprobs.exp()

# %% [markdown]
# The head `mnli` is trained. It reads two sentences and answers 0 *contradiction*, 1 *neutral* or 2 *entailment*. The page's two pairs
# (the large model answers 0 and 2):

# %%
with torch.no_grad():
    for second in ("Roberta is not very optimized.", "Roberta is based on BERT."):
        tokens = roberta.encode("Roberta is a heavily optimized version of BERT.", second)
        answer = roberta.predict("mnli", tokens).argmax().item()
        print(answer, roberta.head_labels("mnli")[answer], "|", second)

# %% [markdown]
# Several pairs at once: `collate_tokens` fills them up to one length with 1, the id of `<pad>`.

# %%
from roberta_hub import collate_tokens  # fairseq has it in fairseq.data.data_utils

batch_of_pairs = [
    ["Roberta is a heavily optimized version of BERT.", "Roberta is not very optimized."],
    ["potatoes are awesome.", "I like to run."],
]
batch = collate_tokens([roberta.encode(*pair) for pair in batch_of_pairs], pad_idx=1)
with torch.no_grad():
    print(roberta.predict("mnli", batch).argmax(dim=1))
batch

# %% [markdown]
# Words for a gap. The bars are probabilities; those of all words add up to 1. The published large model says years here. Which *kind* of
# word does this one expect?

# %%
filled = roberta.fill_mask("The first Star wars movie came out in <mask>", topk=5)
filled.png()

# %% [markdown]
# `filled` is the list that fairseq gives: (text, probability, word).

# %%
filled[:2]

# %% [markdown]
# The same calls on `roberta.large`. Its weights here are **random**, since there is no network: only the shapes are those of the page.

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
# A `model.pt` that fairseq wrote loads by its path; nothing in it is run. This one is made for tests: 8 numbers a token.

# %%
from roberta_hub import RobertaModel

small = RobertaModel.from_pretrained(f"{REPO}/tests/data/fairseq/model.pt").eval()
print(small.extract_features(small.encode("Hello world!")).shape)

# %% [markdown]
# ## Tokens
#
# A frequent word is one piece; a rare word is put together. The tokenizer is that of all RoBERTas, so these pieces and ids are what the
# large model sees, too:

# %%
roberta = torch.hub.load(REPO, "roberta.tiny", source="local").eval()
roberta.token_strip("Our librarian unshelves bookworms.").png()

# %% [markdown]
# `"is"` and `" is"` are two different pieces with two different ids:

# %%
for text in ("is", " is", "Is", " Is", "IS"):
    pieces, ids = roberta.tokenize(text), roberta.encode(text)[1:-1].tolist()
    print(f"{text!r:6} {pieces!s:8} {ids}")

# %% [markdown]
# Underneath, a text is *bytes*. Most letters are one byte; the curly apostrophe of `can’t` is three, and an emoji four. Then a piece may
# hold only a *part* of a character, and several pieces point at the same place. The straight apostrophe is in the list of pieces,
# together with its `t`. To a reader the two words are the same; to the model they are not.

# %%
for text in ("You can't paint a 🍓.", "You can’t paint a 🍓."):
    for piece, (start, end) in zip(roberta.tokenize(text), roberta.offsets(text)):
        print(f"{piece}={text[start:end]!r}", end="  ")
    print()

# %% [markdown]
# **Text stays text.** Nobody can type a symbol of the model: `</s>` in a text is four characters, and ends nothing. Between the two
# sentences of a pair stands the real one, twice:

# %%
roberta.token_strip(("End it with </s> or not.", "It goes on.")).png()

# %% [markdown]
# ## Positions
#
# Attention alone does not know the order of its tokens. So each token gets a *position*, and a vector for it. RoBERTa counts from 2:
# position 1 belongs to `<pad>`, and 0 is never used.
#
# Texts differ in length, and a batch is a rectangle. The empty places are filled on the right, or on the left:

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
    axes.set(title=f"padding on the {side}", xlabel="place in the batch")
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
# Each layer changes each token's vector a little, by what it sees around it. At the bottom a word has one vector; at the top it should
# have one for each meaning. We take *bank* in four sentences, and compare it with the *bank* of the first, layer by layer.
# (The cosine of two vectors is 1 for the same direction, and 0 for nothing in common.)

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
figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
for text, vector, line in zip(banks[1:], vectors[1:], ("-o", "--s", ":^")):
    axes.plot(torch.cosine_similarity(vectors[0], vector, dim=-1), line, label=text)
axes.set(title=f"how alike is this bank to that of “{banks[0]}”?")
axes.set(xlabel="layer (0: embeddings)", xticks=range(len(vectors[0])))
axes.set(ylabel="cosine", ylim=(None, 1.02))
axes.legend()
axes.grid(alpha=0.3)
plt.show()

# %% [markdown]
# At layer 0 all are nearly the same: one word, in the same place. Look for the line of the other *money* bank: does it stay above those of
# the rivers? In a large model it clearly does; a small one has read less of rivers and of banks.

# %% [markdown]
# ## Attention
#
# How does a token see what is around it? In each layer, each *attention head* makes for each token a row of weights that add up to 1, and
# mixes the other tokens' vectors by them. A row tells from where its token takes.

# %%
text = "The cat slept because it was tired."
roberta.attention(text, layer=-1).png()

# %% [markdown]
# One panel a head. What to look for: a diagonal (each token looks at itself), a line beside it (at its neighbour), a column (all look
# at one token, often `<s>`, `</s>` or the full stop, which means "at nothing special").
#
# One head of one layer, larger. Where does *it* look?

# %%
roberta.attention(text, layer=2, attention_head=0).png()

# %% [markdown]
# Weights are what a layer mixes by. They are *not* a reason for an answer: to ask what an answer depends on, change the text and ask
# again. That is what `explain` does, in the [next notebook](02_what_it_believes.ipynb).
