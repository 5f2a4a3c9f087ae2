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
# # RoBERTa's hub page, statement by statement
#
# fairseq's page on [pytorch.org/hub](https://pytorch.org/hub/pytorch_fairseq_roberta) shows what RoBERTa can do
# in a few statements. Here we run them all. Then we look closer:
#
# 1. **The hub page**: load, encode, decode, features, a new head, sentence pairs
# 2. **Tokens**: how text becomes numbers
# 3. **Positions**: what padding does, and what it does not
# 4. **Layers**: what happens to a token on its way up
# 5. **Many texts**: features, pooling, gradients
#
# > **These weights are RANDOM.** There is no network here, so we ask for `pretrained=False`. The model has the right
# > shape and the right tokenizer. Every id, every size and every identity below is what the published model gives.
# > The *answers* mean nothing.
#
# With a network, change one statement and nothing else. `OWNER` stands for wherever this repository is published:
#
# ```python
# roberta = torch.hub.load("OWNER/roberta_hub:TAG", "roberta.large", pretrained=True, trust_repo=True)
# ```
#
# `pretrained=True` fetches the published weights (0.7 GB). `trust_repo=True` says that you know whose code this is.
# `:TAG` pins a version, so that the code does not change behind your back.

# %% [markdown]
# ## 1. The hub page
#
# The repository is the folder above this notebook. `source="local"` loads it from there.

# %%
from pathlib import Path

import torch

REPO = next(folder for folder in ("..", ".") if Path(folder, "hubconf.py").exists())
torch.manual_seed(0)  # the same random weights each time
REPO

# %% [markdown]
# Load the large model. `eval()` switches dropout off. Leave it out to fine-tune: a loaded model is in train mode.

# %%
roberta = torch.hub.load(REPO, "roberta.large", source="local", pretrained=False)
roberta.eval()  # disable dropout (or leave in train mode to finetune)
print(roberta)

# %% [markdown]
# Text to ids, and back. `0` is `<s>`, the beginning; `2` is `</s>`, the end.

# %%
tokens = roberta.encode("Hello world!")
assert tokens.tolist() == [0, 31414, 232, 328, 2]
tokens

# %%
assert roberta.decode(tokens) == "Hello world!"
roberta.decode(tokens)

# %% [markdown]
# Features of the last layer: 1 text, 5 tokens, 1024 numbers for each.

# %%
last_layer_features = roberta.extract_features(tokens)
assert last_layer_features.size() == torch.Size([1, 5, 1024])
last_layer_features.size()

# %% [markdown]
# All hidden states: the embeddings and 24 layers, so 25. The last one *is* the features.

# %%
all_layers = roberta.extract_features(tokens, return_all_hiddens=True)
assert len(all_layers) == 25
assert torch.all(all_layers[-1] == last_layer_features)
len(all_layers)

# %% [markdown]
# A new head for a task of your own. Its weights are random even on the published model: it waits for your training.

# %%
roberta.register_classification_head("new_task", num_classes=3)
logprobs = roberta.predict("new_task", tokens)
print("log-probabilities", logprobs.shape)
print("probabilities add up to", round(logprobs.exp().sum().item(), 4))

# %% [markdown]
# Now the model with a head for MNLI. It reads two sentences and answers 0 *contradiction*, 1 *neutral* or 2 *entailment*.
#
# We let the first model go before we load the second. Each takes 1.4 GB. Features remember how they were computed, for
# training, and so hold on to their model. They have to go too.

# %%
del roberta, last_layer_features, all_layers, logprobs
roberta = torch.hub.load(REPO, "roberta.large.mnli", source="local", pretrained=False)
roberta.eval()

with torch.no_grad():
    tokens = roberta.encode("Roberta is a heavily optimized version of BERT.", "Roberta is not very optimized.")
    prediction = roberta.predict("mnli", tokens)
    # assert prediction.argmax().item() == 0   # contradiction; true with the published weights

    tokens = roberta.encode("Roberta is a heavily optimized version of BERT.", "Roberta is based on BERT.")
    prediction = roberta.predict("mnli", tokens)
    # assert prediction.argmax().item() == 2   # entailment; true with the published weights

print("decode gives both sentences back:", roberta.decode(tokens))
print("prediction", prediction.shape, "for", roberta.head_labels("mnli"))
del roberta  # nothing else holds it: no_grad() kept no memory of the model

# %% [markdown]
# ### The same from a file
#
# A `model.pt` that fairseq wrote loads by its path. This one came from fairseq 0.12.2 and is made for tests: 8 numbers a
# token instead of 1024, and random weights again. So it is small enough to print.

# %%
from roberta_hub import RobertaModel, collate_tokens

small = RobertaModel.from_pretrained(f"{REPO}/tests/data/fairseq/model.pt")
small.eval()
print(small)

# %%
tokens = small.encode("Hello world!")
assert tokens.tolist() == [0, 31414, 232, 328, 2]

with torch.no_grad():
    all_layers = small.extract_features(tokens, return_all_hiddens=True)
    assert torch.all(all_layers[-1] == small.extract_features(tokens))
print(len(all_layers), "hidden states; the last one:")
print(all_layers[-1].numpy().round(2))

# %% [markdown]
# Several pairs at once: `collate_tokens` pads them to one length with `1`, the id of `<pad>`.

# %%
pairs = [
    ("Roberta is a heavily optimized version of BERT.", "Roberta is not very optimized."),
    ("potatoes are awesome.", "I like to run."),
]
batch = collate_tokens([small.encode(*pair) for pair in pairs], pad_idx=1)
with torch.no_grad():
    print(batch)
    print("predictions", small.predict("mnli", batch).shape)

# %% [markdown]
# Words for a gap. Random weights give random words, hardly more probable than any other of the 50,265. The trained model
# gives years.

# %%
for text, probability, word in small.fill_mask("The first Star wars movie came out in <mask>", topk=3):
    print(f"{probability:.6f}  {word!r}")
print(f"{1 / len(small.task.source_dictionary):.6f}  one in {len(small.task.source_dictionary):,}")

# %% [markdown]
# ## 2. Tokens
#
# RoBERTa does not read words. It reads *pieces* from a list of 50,265. A frequent word is one piece. A rare word is put
# together from several. From here on the model is `roberta.base`, random too. The tokenizer needs no weights: what you
# see in this part is exactly what the published models see.

# %%
torch.manual_seed(0)
roberta = torch.hub.load(REPO, "roberta.base", source="local", pretrained=False).eval()

text = "Our librarian unshelves bookworms."
print(roberta.tokenize(text))
print(roberta.offsets(text))

# %% [markdown]
# `Ġ` stands for the space before a piece. Pieces with `Ġ` begin a word; pieces without go on with it. So `"is"` and
# `" is"` are two different pieces with two different ids:

# %%
for text in ("is", " is", "Is", " Is", "IS"):
    print(f"{text!r:6} {roberta.tokenize(text)!s:8} {roberta.encode(text)[1:-1].tolist()}")

# %% [markdown]
# `offsets` says where in the text each piece stands, in characters. That is how you mark a word in the original text.
#
# Underneath, a text is *bytes*. Most letters here are one byte. The curly apostrophe of `can’t` is three bytes, and an
# emoji four. A piece may then hold only *part* of a character, and several pieces point at the same place:

# %%
text = "You can’t paint a 🍓 blue."
data = text.encode()
for piece, (start, end), (first, last) in zip(roberta.tokenize(text), roberta.offsets(text), roberta.bpe.byte_spans(text)):
    print(f"{piece:8} characters {start:2d} to {end:2d}: {text[start:end]!r:9} bytes {data[first:last].hex(' ')}")

# %% [markdown]
# Let us draw that. A piece that is not a whole character is drawn as its bytes, two hexadecimal digits each.

# %%
import matplotlib.pyplot as plt
from matplotlib.patches import Patch, Rectangle

plt.rcParams.update({"figure.dpi": 90, "font.size": 10, "axes.titlesize": 11})
COLOURS = {
    "special": "#d0d0d0",
    "first, or after a space": "#a9cfee",
    "goes on": "#fde0a3",
    "part of a character": "#f5b3c1",
}


def pieces_of(roberta, *sentences):
    """(what to draw, kind, id) of each token of an input."""
    inner = []
    for sentence in sentences:
        data = sentence.encode()
        inner += [(data[first:last], first == 0) for first, last in roberta.bpe.byte_spans(sentence)]
    inner = iter(inner)
    for token in roberta.encode(*sentences).tolist():
        if token in (0, 2):  # no text ever makes these two ids
            yield {0: "<s>", 2: "</s>"}[token], "special", token
            continue
        piece, is_first = next(inner)
        try:
            label = piece.decode()
            kind = "first, or after a space" if is_first or label[0] == " " else "goes on"
            yield label.replace(" ", "␣"), kind, token
        except UnicodeDecodeError:
            yield piece.hex(" ").upper(), "part of a character", token


def draw_strip(roberta, texts, width=90):
    """Each text as a strip of coloured boxes, with the id under each piece."""
    figure = plt.figure(figsize=(9.6, 0.66 * len(texts) + 0.4))
    axes = figure.add_axes([0, 0, 1, 1])
    for row, sentences in enumerate(texts):
        x, y = 0.5, -row
        for label, kind, token in pieces_of(roberta, *sentences):
            size = max(len(label), 0.8 * len(str(token))) + 0.7
            axes.add_patch(Rectangle((x, y), size, 0.44, facecolor=COLOURS[kind]))
            axes.text(x + size / 2, y + 0.2, label, ha="center", va="center", family="monospace", size=10)
            axes.text(x + size / 2, y - 0.16, token, ha="center", va="center", family="monospace", size=7.5, color="#555555")
            x += size + 0.25
        assert x < width, "the strip is longer than the figure"
    axes.legend(handles=[Patch(color=colour, label=kind) for kind, colour in COLOURS.items()],
                loc="lower center", bbox_to_anchor=(0.5, 0.0), ncols=4, frameon=False, fontsize=9)
    axes.set(xlim=(0, width), ylim=(-len(texts) - 0.1, 0.6))
    axes.axis("off")
    plt.show()


draw_strip(roberta, [
    ("The library opens at nine.",),
    ("Our librarian unshelves bookworms.",),
    ("You can’t paint a 🍓 blue.",),
    ("You can't paint it blue.",),
    ("Crème brûlée, s’il vous plaît!",),
])

# %% [markdown]
# Look at the apostrophes. The straight one of `can't` is in the list of pieces, together with its `t`. The curly one of
# `can’t` falls into bytes. To a reader the two words are the same; to the model they are not.
#
# ### Text stays text
#
# `<s>`, `</s>` and `<mask>` are symbols of the model. Nobody can type them: written in a text they are characters like all
# others. A user's text cannot end a sentence or open a gap. (`fill_mask` alone reads `<mask>` as a gap. That is its job.)
#
# ### Pairs
#
# Two sentences become one input, with `</s></s>` between them.

# %%
draw_strip(roberta, [
    ("End it with </s> or hide it with <mask>.",),
    ("It is raining.", "The street is wet."),
])
assert roberta.decode(roberta.encode("a </s> b <mask> c")) == "a </s> b <mask> c"
roberta.decode(roberta.encode("It is raining.", "The street is wet."))

# %% [markdown]
# ## 3. Positions
#
# Attention alone does not know the order of its tokens. So each token gets a *position*, and a vector from a table of
# positions is added to it. RoBERTa counts from 2. Position 1 belongs to `<pad>`, and 0 is never used.
#
# Texts differ in length, and a batch is a rectangle. The empty places are filled with `<pad>`, on the right or on the left:

# %%
sentences = ["The cat sleeps.", "Rain.", "A quiet library opens at nine."]
ids = [roberta.encode(sentence) for sentence in sentences]
right = collate_tokens(ids, pad_idx=1)
left = collate_tokens(ids, pad_idx=1, left_pad=True)
print(right, left, sep="\n")

# %% [markdown]
# Positions count real tokens only. A sum that runs along the row is enough:

# %%
def positions(batch):
    real = batch.ne(1)
    return real.cumsum(1) * real + 1


print(positions(right), positions(left), sep="\n")

# %%
def draw_positions(axes, batch, title):
    table = positions(batch)
    shown = axes.imshow(table.masked_fill(batch.eq(1), 0), cmap=colours, vmin=1.5, vmax=positions(right).max(), aspect="auto")
    for row in range(batch.size(0)):
        pieces = iter([label for label, kind, token in pieces_of(roberta, sentences[row])])
        for column in range(batch.size(1)):
            padding = batch[row, column] == 1
            piece = "<pad>" if padding else next(pieces)
            grey = "#707070" if padding else "black"
            axes.text(column, row - 0.14, piece, ha="center", va="center", family="monospace", size=9, color=grey)
            axes.text(column, row + 0.22, table[row, column].item(), ha="center", va="center", size=9, color=grey)
    axes.set(title=title, xticks=[], yticks=range(batch.size(0)), yticklabels=[f"text {row}" for row in range(batch.size(0))])
    axes.set_xticks([column + 0.5 for column in range(batch.size(1) - 1)], minor=True)
    axes.set_yticks([row + 0.5 for row in range(batch.size(0) - 1)], minor=True)
    axes.grid(which="minor", color="white", linewidth=2)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    return shown


from matplotlib.colors import LinearSegmentedColormap

colours = LinearSegmentedColormap.from_list("positions", ["#eaf4fb", "#7fb6e0"])
colours.set_under("#eeeeee")
figure, panels = plt.subplots(2, 1, figsize=(9, 4.6), layout="constrained")
draw_positions(panels[0], right, "padding on the right: each token and its position")
shown = draw_positions(panels[1], left, "padding on the left: other places, same positions")
figure.colorbar(shown, ax=panels, label="position", shrink=0.6)
figure.get_layout_engine().set(hspace=0.08)
plt.show()

# %% [markdown]
# A token keeps its position wherever the padding is. So its features must be the same too. They are, to the last bit:

# %%
with torch.no_grad():
    from_right = roberta.extract_features(right)
    from_left = roberta.extract_features(left)
    alone = [roberta.extract_features(sequence)[0] for sequence in ids]

print("left as right:", torch.equal(from_right[right.ne(1)], from_left[left.ne(1)]))
print("batch as one at a time:", torch.allclose(from_right[right.ne(1)], torch.cat(alone), atol=1e-5))

# %% [markdown]
# What stands in the rows of the padding? Zeros. Here is the length of each token's vector:

# %%
print(from_right.norm(dim=-1).numpy().round(1))
print("zeros at padding:", bool((from_right[right.eq(1)] == 0).all()))

# %% [markdown]
# This model does not compute padding and then throw it away. Padding never gets in. We can listen at the table of
# positions while a padded batch goes through: only real tokens are looked up, laid end to end.

# %%
heard = []
table = roberta.model.encoder.sentence_encoder.embed_positions
listener = table.register_forward_pre_hook(lambda module, inputs: heard.append(inputs[0]))
with torch.no_grad():
    roberta.extract_features(right)
listener.remove()

print(f"{right.numel()} places in the batch, {heard[0].numel()} tokens in the model:")
print(heard[0].tolist())

# %% [markdown]
# ## 4. Layers
#
# 12 layers make 13 hidden states. First question: how *long* is each token's vector, and how far does each layer *move* it?

# %%
sentence = "A quiet library opens at nine, and nobody can’t read."
pieces = [label for label, kind, token in pieces_of(roberta, sentence)]
with torch.no_grad():
    states = torch.stack(roberta.extract_features(roberta.encode(sentence), return_all_hiddens=True))[:, 0]
print("layers, tokens, numbers:", tuple(states.shape))

lengths = states.norm(dim=-1)
moves = (states[1:] - states[:-1]).norm(dim=-1)

figure, panels = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained", sharex=True)
for axes, values, first, top, title in [
    (panels[0], lengths, 0, 30, "length of each vector"),
    (panels[1], moves, 1, None, "how far each layer moves it"),
]:
    shown = axes.imshow(values, cmap="cividis", origin="lower", aspect="auto", vmin=0 if top else None, vmax=top)
    axes.set(title=title, ylabel="layer (0: embeddings)" if first == 0 else "layer")
    axes.set_yticks(range(len(values)), range(first, first + len(values)))
    axes.set_xticks(range(len(pieces)), pieces, rotation=90, family="monospace", size=9)
    figure.colorbar(shown, ax=axes)
plt.show()
print(f"layers 1 to 12: shortest {lengths[1:].min():.2f}, longest {lengths[1:].max():.2f}; square root of 768: {768 ** 0.5:.2f}")

# %% [markdown]
# On the left there is nothing to see, and that is the lesson. Each layer ends in a LayerNorm. It sets the mean of the 768
# numbers to 0 and their spread to 1, so every vector is √768 ≈ 27.7 long. A *trained* LayerNorm then scales each of the 768
# with a factor of its own, and the picture comes alive. A random one has 1 everywhere.
#
# On the right, mind the scale: it only runs from 9 to 11. Every layer moves every token about as far, a good third of its
# length. Random layers have no tasks to share out among them.
#
# Second question: how much of layer *i* is left in layer *j*? And how alike are the *different* tokens of one layer? The
# cosine tells: 1 is the same direction, 0 is nothing in common.

# %%
directions = torch.nn.functional.normalize(states, dim=-1)  # (layer, token, number)
between_layers = torch.einsum("itc,jtc->ijt", directions, directions).mean(-1)
between_tokens = torch.einsum("lsc,ltc->lst", directions, directions)
others = ~torch.eye(len(pieces), dtype=torch.bool)
alike = between_tokens[:, others].mean(-1)

figure, panels = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", width_ratios=[1.15, 1])
shown = panels[0].imshow(between_layers, cmap="cividis", origin="lower", vmin=0, vmax=1)
panels[0].set(title="the same token in two layers", xlabel="layer", ylabel="layer",
              xticks=range(0, 13, 2), yticks=range(0, 13, 2))
figure.colorbar(shown, ax=panels[0], label="cosine, mean over tokens")
figure.get_layout_engine().set(wspace=0.06)
panels[1].plot(alike, marker="o", color="#00508f")
panels[1].set(title="two tokens in the same layer", xlabel="layer", ylabel="cosine, mean over pairs of tokens",
              xticks=range(0, 13, 2), ylim=(-0.1, 1))
panels[1].grid(alpha=0.3)
panels[1].spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# Even random layers do two things. Step by step they turn a token away from where it began (left). And they mix: random
# attention looks everywhere about equally, so every token gets a little of the same average, and tokens grow alike (right).
#
# What only *trained* weights show:
#
# - the same word in two meanings ("the river *bank*", "the *bank* is closed") gets two clearly different vectors;
# - layers differ: some tasks are read best from the middle, others from the top;
# - a few of the 768 numbers are very large in every token ([Kovaleva et al. 2021](https://arxiv.org/abs/2105.06990));
# - attention looks somewhere: at the word before, at `<s>`, at what a pronoun means.
#
# Run this part again with `pretrained=True`, and compare.

# %% [markdown]
# ## 5. Many texts
#
# `features` takes a list. It sorts, packs and puts back in order. A tuple is a pair. You get one tensor a text, each as long
# as its text:

# %%
texts = [
    "The cat sleeps on the sofa.",
    "On the sofa sleeps the cat.",
    "Interest rates rose again in March.",
    ("It is raining.", "The street is wet."),
]
for text, vectors in zip(texts, roberta.features(texts)):
    print(tuple(vectors.shape), text)

# %% [markdown]
# *Pooling* makes one vector a text: `"cls"` takes the one of `<s>`, `"mean"` the mean of all tokens. `layer=` takes
# them from another layer.

# %%
print(roberta.features(texts, pooling="cls").shape)
print(roberta.features(texts, pooling="mean", layer=6).shape)

mean = roberta.features(texts, pooling="mean", layer=0)
assert torch.allclose(mean[0], roberta.features(texts[:1], layer=0)[0].mean(0), atol=1e-5)

# %% [markdown]
# Even without training, texts that share words have vectors that are alike, for their embeddings are the same. This is a
# bag of words, no meaning. Texts 0 and 1 have the same words in another order. The others share less with them: `<s>`,
# `</s>`, the full stop, and the positions.

# %%
unit = torch.nn.functional.normalize(mean, dim=-1)
print((unit @ unit.T).numpy().round(2))

# %% [markdown]
# ### Gradients
#
# `features` is for using a model, and keeps no gradients. `extract_features` and `predict` are for training one, and do.

# %%
tokens = roberta.encode("Hello world!")
print("features:", roberta.features(["Hello world!"])[0].requires_grad)
print("extract_features:", roberta.extract_features(tokens).requires_grad)

roberta.extract_features(tokens).square().mean().backward()
gradient = roberta.model.encoder.sentence_encoder.embed_tokens.weight.grad
print("words of the table that this text could change:", gradient.abs().sum(1).nonzero().flatten().tolist())
roberta.zero_grad()

# %% [markdown]
# The gradient goes all the way down, to the embeddings of just these five tokens.
#
# So a new head can learn. We leave the encoder as it is and train the head on four texts. It learns them by heart, which is
# all that four texts and a random encoder allow:

# %%
torch.manual_seed(0)
roberta.register_classification_head("topic", num_classes=2, labels=["home", "money"])
examples = [
    ("The cat sleeps on the sofa.", 0),
    ("Dinner is ready in the kitchen.", 0),
    ("Interest rates rose again in March.", 1),
    ("The bank lends less this year.", 1),
]
batch = collate_tokens([roberta.encode(text) for text, _ in examples], pad_idx=1)
target = torch.tensor([label for _, label in examples])

head = roberta.model.classification_heads["topic"]
roberta.requires_grad_(False)
head.requires_grad_(True)
optimizer = torch.optim.Adam(head.parameters(), lr=2e-4)
for step in range(13):
    loss = torch.nn.functional.nll_loss(roberta.predict("topic", batch), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 0:
        print(f"step {step:2d}  loss {loss.item():.2f}")

for (text, _), prediction in zip(examples, roberta.classify([text for text, _ in examples], head="topic")):
    print(f"{prediction.label:6} {prediction.score:.2f}  {text}")

# %% [markdown]
# To fine-tune for real: load with `pretrained=True`, stay in train mode, let the encoder learn too (a learning rate of
# about 1e-5), and bring more than four texts.
