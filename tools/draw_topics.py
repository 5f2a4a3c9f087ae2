"""Draws 400 paragraphs of Wikipedia with one of eight labels, of articles no training sees.

    python tools/draw_topics.py            # runs/tiny/topics.tsv, from the committed numbers
    python tools/draw_topics.py --draw     # draw anew, and write the numbers too: before training

An article's first sentence says what it is about ("is a Swiss footballer", "is a river in"): that
decides the label. The paragraph is another part of the article, so nobody sees what decided. 50 of
each label, at most 7 of one kind of thing (footballers, rivers). `held_out` names the documents
that training leaves out: these articles, and English Wikipedia's about the same things. The texts
stay in `runs/`; only numbers of documents and paragraphs are committed, in tools/data/topics.json.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import lzma
import os
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
NUMBERS = Path(__file__).with_name("data") / "topics.json"
OUT = ROOT / "runs" / "tiny" / "topics.tsv"
SOURCE, OTHER = "simplewiki_2022", "enwiki_2021_core"
OF_EACH, OF_ONE_KIND = 50, 7
WORDS = range(40, 121)
KINDS = {
    "sports": "footballer|football player|football club|football team|basketball player"
    "|basketball team|baseball player|baseball team|hockey player|hockey team|goaltender"
    "|defenceman|winger|cricketer|cricket team|tennis player|boxer|swimmer|cyclist|skier|skater"
    "|gymnast|racing driver|rugby player|rugby team|golfer|sport|stadium|wrestler"
    "|sprinter|runner|athlete",
    "music": "band|rock band|album|studio album|song|guitarist|drummer|bassist|rapper"
    "|songwriter|singer-songwriter|composer|opera|symphony|violinist|pianist"
    "|music genre|record label|musical instrument|soprano|tenor|concerto|cellist",
    "film": "movie|comedy movie|drama movie|horror movie|action movie|thriller movie"
    "|crime movie|documentary movie|animated movie|romance movie|adventure movie|fantasy movie"
    "|drama film|musical movie|western movie|biographical movie|comedy film|movie director"
    "|film director|movie series|movie producer|film producer"
    "|cinematographer|screenwriter|filmmaker|film festival|movie festival",
    "politics": "politician|political party|president|prime minister|senator|election"
    "|presidential election|general election|ministry|statesman|parliament|legislature"
    "|referendum|diplomat|political movement|political scandal|congressman|ideology",
    "geography": "city|town|village|river|lake|mountain|island|commune|province|county|valley"
    "|district|municipality|volcano|desert|peninsula|mountain range|waterfall|archipelago|bay"
    "|sea|glacier|canyon|borough|suburb|national park",
    "animals": "frog|bird|dinosaur|mammal|fish|shark|snake|lizard|spider|insect|dog|horse|cat"
    "|butterfly|beetle|turtle|whale|dolphin|bat|rodent|monkey|bear|antelope|deer|crab|ant"
    "|owl|parrot|duck|salamander|toad|marsupial|primate|moth|bee|fly|squid|snail|birds|mammals"
    "|insects|lizards|snakes|spiders|frogs|sharks|rodents|amphibians|reptiles|breed",
    "science": "chemical element|chemical compound|planet|star|galaxy|asteroid|comet"
    "|moon|physicist|chemist|mathematician|astronomer|biologist|space probe|telescope|mineral"
    "|constellation|spacecraft|theorem|molecule|enzyme|protein|particle|isotope|geneticist"
    "|exoplanet|hypothesis|chemical|acid|gas|nebula|hormone",
    "war": "battle|war|civil war|military operation|military conflict|armed conflict|soldier"
    "|battle tank|warship|aircraft carrier|battleship|submarine|destroyer|military unit|army"
    "|regiment|fighter aircraft|fighter plane|bomber|assault rifle|rifle|missile|siege"
    "|military campaign|conflict|invasion|massacre|militia|machine gun|cruiser|naval battle|revolt",
}
"""The words for a thing of each label, as first sentences have them."""
LABELS = tuple(KINDS)
KIND = {kind: label for label, kinds in KINDS.items() for kind in kinds.split("|")}
PEOPLE = re.compile(
    r"(?:player|footballer|winger|goaltender|defenceman|cricketer|boxer|swimmer|cyclist|skier"
    r"|skater|gymnast|driver|golfer|wrestler|sprinter|runner|athlete|[a-z]+ist|drummer|rapper"
    r"|songwriter|composer|soprano|tenor|director|producer|cinematographer|screenwriter"
    r"|filmmaker|politician|president|minister|senator|statesman|diplomat|congressman"
    r"|mathematician|astronomer|soldier)$"
)
"""Of these only the opening is shown: later paragraphs tell of their lives."""
DEFINITION = re.compile(
    r" (?:is|was|are|were) (?:an?|the|one of the|any)"
    r"((?:,? [^\W\d_][\w'’/\-]*){1,7}?)"
    r"(?=[.,;]| (?:who|that|which|in|of|from|for|by|on|at|with|to|and|near|known|directed|based"
    r"|released|written|starring|between|fought|where|found|native|played|during|made|recorded)\b)"
)
"""What "X is a ..." says, up to where the thing is named."""
OF = re.compile(
    r"^ (?:extinct |large |small |medium |living )*(?:species|genus|family|breed|type"
    r"|kind|group|order|subspecies)$"
)
AFTER_OF = re.compile(
    r" of((?: [^\W\d_][\w'’/\-]*){1,4}?)(?=[.,;]| (?:that|which|in|of|from|native"
    r"|found|and|with|who|endemic)\b)"
)
INVENTED = re.compile(
    r"\b(?:fiction|fictional|imaginary|character|video game|novel|book|show|television|TV|comic)\b"
)
"""What a first sentence has where the thing is told of in another thing."""
SENTENCE = re.compile(r"(?<=[a-z0-9)”\"’]{2})\. (?=[\"“A-Z])")
PRIVATE = re.compile(
    r"\b(?:born|died|dies|death|married|divorced|childhood|grew up|raised|his wife|her husband"
    r"|cancer|buried|funeral|siblings|sister|brother|father|mother|parents)\b"
)
"""Such words could be about anybody."""


def documents(name: str) -> Iterator[list[str]]:
    """Read the paragraphs of each article."""
    path = SHARED / "data/pretrain" / f"{name}.txt.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for blank, lines in itertools.groupby(file, key=lambda line: not line.strip()):
            if not blank:
                yield [line.strip() for line in lines]


def subject(paragraph: str) -> str:
    """What an article is about: its first words, up to the verb."""
    bare = re.sub(r"\s*\([^)]*\)|[\"“”]", "", paragraph)
    return re.split(r",| (?:is|was|are|were) ", bare, maxsplit=1)[0].casefold().strip()


def kind_of(paragraph: str) -> str | None:
    """The kind of thing that the first sentence says it is; None: no kind of ours, or of two."""
    first = SENTENCE.split(re.sub(r"\s*\([^)]*\)", "", paragraph), maxsplit=1)[0] + "."
    found = DEFINITION.search(first)
    if not found or INVENTED.search(first):
        return None
    phrase, after = found.group(1), first[found.end() :]
    if OF.match(phrase):
        kind = AFTER_OF.match(after)
        if not kind:
            return None
        phrase, after = kind.group(1), after[kind.end() :]
    words = phrase.replace(",", "").split()
    for length in (2, 1):
        kind = " ".join(words[-length:]).lower()
        if len(words) >= length and kind in KIND:
            also = {KIND[k] for k in re.findall(r"[a-z\-]+", after.lower()) if k in KIND}
            two = PEOPLE.search(kind) and re.match(r",? (?:and|[a-z\- ]+ and|[a-z]+,)\b", after)
            return None if two or not also <= {KIND[kind], "geography"} else kind
    return None


def parts(paragraphs: list[str]) -> Iterator[tuple[int, str]]:
    """The paragraphs that may be shown, each with its number; of the first what follows it."""
    for number, paragraph in enumerate(paragraphs[:4]):
        sentences = SENTENCE.split(paragraph, maxsplit=1 if number == 0 else 0)
        text = (sentences[1] if len(sentences) > 1 else "") if number == 0 else paragraph
        whole = len(text.split()) in WORDS and len(SENTENCE.split(text)) > 1 and "\t" not in text
        if whole and not PRIVATE.search(text):
            yield number, text


def draw() -> dict[str, list[list[int]]]:
    """Draw [document, paragraph] of every label, and English Wikipedia's documents next to them."""
    found: dict[str, dict[str, list[tuple[int, int, str]]]] = defaultdict(lambda: defaultdict(list))
    for number, paragraphs in enumerate(documents(SOURCE)):
        kind = kind_of(paragraphs[0])
        few = paragraphs[:1] if kind and PEOPLE.search(kind) else paragraphs
        shown = next(parts(few), None) if kind else None
        if kind and shown:
            found[KIND[kind]][kind].append((number, shown[0], subject(paragraphs[0])))
    chance = random.Random(16)
    drawn: dict[str, list[list[int]]] = {}
    subjects = set()
    for label in LABELS:
        few = [
            a for of in found[label].values() for a in chance.sample(of, min(len(of), OF_ONE_KIND))
        ]
        chosen = chance.sample(few, OF_EACH)
        drawn[label] = [[number, part] for number, part, _ in chosen]
        subjects |= {about for _, _, about in chosen}
    twins = [n for n, lines in enumerate(documents(OTHER)) if subject(lines[0]) in subjects]
    return {**drawn, OTHER: [twins]}


def held_out(name: str) -> set[int]:
    """Numbers of the documents that training must not read.

    Args:
        name: of a file of `data/pretrain`, "simplewiki_2022".

    Returns:
        Numbers as `enumerate(documents(name))` counts, from 0; none for files without topics.
    """
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    if name == OTHER:
        return set(numbers[OTHER][0])
    return {n for label in LABELS for n, _ in numbers[label]} if name == SOURCE else set()


def rows() -> list[tuple[str, str]]:
    """(paragraph, label) of the 400, read from the shared text."""
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    wanted = {n: (part, label) for label in LABELS for n, part in numbers[label]}
    read = []
    for number, paragraphs in enumerate(documents(SOURCE)):
        if number in wanted:
            part, label = wanted[number]
            read.append((dict(parts(paragraphs))[part], label))
    return read


def write() -> str:
    """Write the table to `OUT`; returns the beginning of its sha256."""
    OUT.parent.mkdir(parents=True, exist_ok=True)
    table = "".join(f"{text}\t{label}\n" for text, label in rows())
    OUT.write_text(f"text\tlabel\n{table}", encoding="utf-8")
    return hashlib.sha256(table.encode()).hexdigest()[:16]


def main() -> None:
    """Write the table, and with --draw the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", action="store_true", help="draw anew: never after training began")
    if parser.parse_args().draw:
        NUMBERS.parent.mkdir(exist_ok=True)
        lines = [f' "{key}": {json.dumps(value)}' for key, value in draw().items()]
        NUMBERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{OUT}: sha256 {write()}")


if __name__ == "__main__":
    main()
