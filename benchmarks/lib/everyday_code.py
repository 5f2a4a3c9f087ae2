"""The programs that people write for eight everyday jobs, with this package and with its peers.

Each runs as it stands in the folder that `everyday.py` prepares. Where a library has no way that
needs no download, a sentence stands in the place of a program.
"""

from __future__ import annotations

OURS, HF, ST, SPACY, FAIRSEQ = (
    "roberta_hub",
    "transformers",
    "sentence-transformers",
    "spaCy",
    "fairseq",
)
JOBS: dict[str, dict[str, str]] = {
    "One label": {
        OURS: """
import roberta_hub
roberta = roberta_hub.load_model("mine")
print(roberta.classify("An utter waste of time."))
""",
        HF: """
from transformers import pipeline
classify = pipeline("text-classification", "mine-hf")
print(classify("An utter waste of time."))
""",
    },
    "A masked word": {
        OURS: """
import roberta_hub
roberta = roberta_hub.load_model()
for text, probability, word in roberta.fill_mask("The capital of France is <mask>.", topk=3):
    print(word, round(probability, 2))
""",
        HF: """
from transformers import pipeline
fill = pipeline("fill-mask", "tiny-hf")
for found in fill("The capital of France is <mask>.", top_k=3):
    print(found["token_str"], round(found["score"], 2))
""",
    },
    "Texts to vectors in Parquet": {
        OURS: """
import polars, roberta_hub
texts = open("texts.txt").read().splitlines()
vectors = roberta_hub.load_model().embed(texts)
table = polars.DataFrame({"text": texts, "vector": vectors.numpy()})
table.write_parquet("roberta_hub.parquet")
print(table.shape, table["vector"].dtype)
""",
        ST: """
import polars
from sentence_transformers import SentenceTransformer
texts = open("texts.txt").read().splitlines()
vectors = SentenceTransformer("tiny-hf").encode(texts)
table = polars.DataFrame({"text": texts, "vector": vectors})
table.write_parquet("sentence-transformers.parquet")
print(table.shape, table["vector"].dtype)
""",
        HF: """
import polars, torch
from transformers import AutoModel, AutoTokenizer
texts = open("texts.txt").read().splitlines()
tokenizer = AutoTokenizer.from_pretrained("tiny-hf")
model = AutoModel.from_pretrained("tiny-hf").eval()
order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
vectors = torch.empty(len(texts), model.config.hidden_size)
for start in range(0, len(order), 32):
    part = order[start : start + 32]
    batch = tokenizer(
        [texts[i] for i in part], padding=True, truncation=True, return_tensors="pt"
    )
    with torch.inference_mode():
        states = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    vectors[part] = (states * mask).sum(1) / mask.sum(1)
table = polars.DataFrame({"text": texts, "vector": vectors.numpy()})
table.write_parquet("transformers.parquet")
print(table.shape, table["vector"].dtype)
""",
    },
    "Labels of one's own": {
        OURS: """
import roberta_hub
roberta = roberta_hub.load_model()
text = "The striker scored twice in the final."
print(roberta.zero_shot(text, ["sport", "politics", "cooking"]))
""",
        HF: """
from transformers import pipeline
classify = pipeline("zero-shot-classification", "tiny-hf")
text = "The striker scored twice in the final."
print(classify(text, ["sport", "politics", "cooking"]))
""",
    },
    "Names in a text": {
        OURS: """
import roberta_hub
roberta = roberta_hub.load_model("names")
for span in roberta.tag("Ada Lovelace met Charles Babbage in London."):
    print(span)
""",
        HF: """
from transformers import pipeline
tag = pipeline("ner", "names-hf", aggregation_strategy="simple")
for entity in tag("Ada Lovelace met Charles Babbage in London."):
    print(entity["entity_group"], entity["word"], round(entity["score"], 2))
""",
        SPACY: """
import spacy
nlp = spacy.load("en_core_web_sm")
for entity in nlp("Ada Lovelace met Charles Babbage in London.").ents:
    print(entity.label_, entity.text)
""",
    },
    "Search": {
        OURS: """
import roberta_hub
corpus = open("corpus.txt").read().splitlines()
for hit in roberta_hub.load_model().search("a film that made me laugh", corpus, topk=3):
    print(hit)
""",
        ST: """
from sentence_transformers import SentenceTransformer, util
corpus = open("corpus.txt").read().splitlines()
model = SentenceTransformer("tiny-hf")
query = model.encode("a film that made me laugh")
for hit in util.semantic_search(query, model.encode(corpus), top_k=3)[0]:
    print(round(hit["score"], 2), corpus[hit["corpus_id"]])
""",
    },
    "A classifier of one's own": {
        OURS: """
import csv, roberta_hub
roberta = roberta_hub.fit("reviews.csv", output="fitted")
test = list(csv.DictReader(open("test.csv")))
found = roberta.classify([row["text"] for row in test])
right = sum(p.label == row["label"] for p, row in zip(found, test))
print(f"{right / len(test):.1%}")
""",
        HF: """
import csv, numpy
from transformers import (
    AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, Trainer,
    TrainingArguments,
)
labels = ["negative", "positive"]
tokenizer = AutoTokenizer.from_pretrained("tiny-hf")
model = AutoModelForSequenceClassification.from_pretrained(
    "tiny-hf", num_labels=2, id2label=dict(enumerate(labels)), ignore_mismatched_sizes=True
)
def examples(file):
    rows = list(csv.DictReader(open(file)))
    return [
        tokenizer(row["text"], truncation=True) | {"labels": labels.index(row["label"])}
        for row in rows
    ]
test = examples("test.csv")
arguments = TrainingArguments("trained", num_train_epochs=10, per_device_train_batch_size=16,
    learning_rate=1e-4, report_to="none", save_strategy="no")
trainer = Trainer(model, arguments, train_dataset=examples("reviews.csv"),
    data_collator=DataCollatorWithPadding(tokenizer))
trainer.train()
logits, gold, _ = trainer.predict(test)
print(f"{numpy.mean(logits.argmax(-1) == gold):.1%}")
""",
        ST: """
import csv
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression
train = list(csv.DictReader(open("reviews.csv")))
test = list(csv.DictReader(open("test.csv")))
model = SentenceTransformer("tiny-hf")
classifier = LogisticRegression(max_iter=1000).fit(
    model.encode([row["text"] for row in train]), [row["label"] for row in train]
)
vectors = model.encode([row["text"] for row in test])
print(f"{classifier.score(vectors, [row['label'] for row in test]):.1%}")
""",
        SPACY: """
import csv, spacy
from spacy.training import Example
train = list(csv.DictReader(open("reviews.csv")))
test = list(csv.DictReader(open("test.csv")))
nlp = spacy.blank("en")
categories = nlp.add_pipe("textcat")
for label in ("negative", "positive"):
    categories.add_label(label)
def example(row):
    cats = {label: float(row["label"] == label) for label in ("negative", "positive")}
    return Example.from_dict(nlp.make_doc(row["text"]), {"cats": cats})
examples = [example(row) for row in train]
nlp.initialize(lambda: examples)
for _ in range(10):
    for batch in spacy.util.minibatch(examples, 16):
        nlp.update(batch)
found = [max(doc.cats, key=doc.cats.get) for doc in nlp.pipe(row["text"] for row in test)]
right = sum(label == row["label"] for label, row in zip(found, test))
print(f"{right / len(test):.1%}")
""",
    },
    "My fairseq checkpoint": {
        OURS: """
import roberta_hub
roberta = roberta_hub.load_model("fairseq")
print(roberta.fill_mask("The capital of France is <mask>.", topk=1))
""",
        HF: """
from transformers import pipeline
fill = pipeline("fill-mask", "fairseq")
print(fill("The capital of France is <mask>.", top_k=1))
""",
        FAIRSEQ: """
from fairseq.models.roberta import RobertaModel
roberta = RobertaModel.from_pretrained("fairseq", "model.pt").eval()
print(roberta.fill_mask("The capital of France is <mask>.", topk=1))
""",
    },
}
"""Job -> library -> program."""

NOT_RUN: dict[str, dict[str, str]] = {
    "One label": {
        ST: "a CrossEncoder judges pairs of texts",
        SPACY: "its trained pipelines have no text categorizer; one's own, see below",
    },
    "A masked word": {ST: "has no such task", SPACY: "has no such task"},
    "Texts to vectors in Parquet": {SPACY: "its vectors come with en_core_web_md, a download"},
    "Labels of one's own": {ST: "has no such task", SPACY: "has no such task"},
    "Names in a text": {ST: "has no such task"},
    "Search": {HF: "the vectors as above, and the products by hand", SPACY: "has no such task"},
    "My fairseq checkpoint": {ST: "reads transformers' folders", SPACY: "has none"},
}
"""Job -> library -> why no program stands there."""


def lines(program: str) -> int:
    """Lines that are not blank.

    Example:
        >>> lines("a\\n\\nb\\n")
        2
    """
    return sum(bool(line.strip()) for line in program.splitlines())
