"""README and docs tell the truth: their examples run, and the map names every file."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from families import write_family
from scripts import TOOLS, load_script

from roberta_hub.checkpoint.fetch.records import RELATIVES, Record

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ANSWERS = load_script(TOOLS / "answers.py")
TYPED = [page.relative_to(ROOT).as_posix() for page in ANSWERS.PAGES]
SESSIONS = {f"{page.parent.name}/{page.stem}": page for page in ANSWERS.sessions()}
PAGES = sorted((ROOT / "docs").rglob("*.md"))
GROUPS = ("start", "guides", "reference", "background")
WITH_EXAMPLES = [page for page in PAGES if ">>> " in page.read_text(encoding="utf-8")]
MODELS = (ROOT / "docs/reference/models.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def answers() -> ModuleType:
    """tools/answers.py, which also writes the answers again."""
    return ANSWERS


PAGE_WIDTH = 88
"""Columns of a block that GitHub's page shows without a scroll bar."""


def test_no_line_of_a_block_runs_out_of_the_page() -> None:
    blocks = re.findall(r"^```\w+\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 3
    lines = [line for block in blocks for line in block.splitlines()]
    assert [line for line in lines if len(line) > PAGE_WIDTH] == []


def test_the_first_block_works_as_pasted_in_a_clone() -> None:
    """No name in it is to be filled in: `OWNER` stands where torch.hub wants one."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    first = re.search(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert first is not None
    for command in first[1].splitlines():
        assert re.search(rf"^{command.removeprefix('make ')}:", makefile, re.MULTILINE), command
    for page in (ROOT / "README.md", *sorted((ROOT / "docs/start").glob("*.md"))):
        text = page.read_text(encoding="utf-8")
        named = [line for line in text.splitlines() if "OWNER/roberta_hub" in line]
        assert all("torch.hub.load" in line for line in named), page.name
        assert not named or "`OWNER` is the account that hosts" in text, page.name


ENVIRONMENT = dict(os.environ)


@pytest.mark.system
@pytest.mark.timeout(900)  # the model in the box beside three peers
@pytest.mark.parametrize("page", TYPED)
def test_the_page_runs_as_typed(page: str, answers: ModuleType, tmp_path: Path) -> None:
    """In an empty folder, with nothing injected. New weights? `python tools/answers.py --write`."""
    (tmp_path / "empty").mkdir()
    text = (ROOT / page).read_text(encoding="utf-8")
    _, stale = answers.refreshed(text, tmp_path / "empty", answers.from_source(tmp_path))
    assert stale == []


@pytest.mark.system
@pytest.mark.timeout(900)  # in ten_minutes fit chooses how it learns
@pytest.mark.parametrize("name", SESSIONS)
def test_the_guide_runs_from_top_to_bottom(name: str, answers: ModuleType, tmp_path: Path) -> None:
    """`python tools/answers.py --write PAGE` writes the answers again."""
    text = SESSIONS[name].read_text(encoding="utf-8")
    needs = {"onnx": "onnxscript", ".png(": "matplotlib", "sentence_transformers": "transformers"}
    for word, package in needs.items():
        if word in text:
            pytest.importorskip(package)
    (tmp_path / "empty").mkdir()
    environment = answers.from_source(tmp_path)
    _, stale = answers.refreshed(text, tmp_path / "empty", environment, {})
    assert stale == []


def test_a_session_keeps_names_and_tells_errors(answers: ModuleType, tmp_path: Path) -> None:
    page = """
```python
import roberta_hub
word = "red"
```

```python
print(word)
# blue
roberta_hub.load_model("roberta.huge")
```
"""
    written, stale = answers.refreshed(page, tmp_path, ENVIRONMENT, {})
    assert len(stale) == 2
    assert 'print(word)\n# red\nroberta_hub.load_model("roberta.huge")\n# Unknown' in written
    assert answers.refreshed(written, tmp_path, ENVIRONMENT, {})[1] == []
    with pytest.raises(ZeroDivisionError):  # no error of ours is no answer
        answers.refreshed("```python\n1 / 0\n```\n", tmp_path, ENVIRONMENT, {})


@pytest.mark.system
@pytest.mark.slow
def test_the_readme_runs_from_the_wheel(answers: ModuleType, tmp_path: Path) -> None:
    """The same, from what `pip install` installs."""
    pip = [sys.executable, "-m", "pip", "-q"]
    flags = ["--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "wheel", *flags, "-w", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    place = tmp_path / "installed"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(place), str(wheel)], check=True)
    (tmp_path / "empty").mkdir()
    environment = answers.environment(place, place / "bin")
    where = [sys.executable, "-c", "import roberta_hub; print(roberta_hub.__file__)"]
    found = subprocess.run(where, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert found.stdout.startswith(str(place)), found.stdout
    _, stale = answers.refreshed(README, tmp_path / "empty", environment)
    assert stale == []


@pytest.mark.system
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_the_examples_of_the_pages_run(
    page: Path, answers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {
        "REPO": str(ROOT),
        "FILE": str(ROOT / "tests/data/fairseq/model.pt"),
        "BERT": str(write_family("bert", tmp_path / "bert", head="pretraining")),
    }
    count, failed = answers.examples(page, names)
    assert count > 1 and failed == 0


@pytest.mark.system
def test_answers_are_cut_compared_and_written(answers: ModuleType, tmp_path: Path) -> None:
    page = """Words.

```python
word = "red"
print(word, 0.51)
# red 0.50
for n in (1, 2):
    print(n)
# 1
# 3
# a comment is an answer too
```

```sh
echo first > file.txt
cat file.txt
# second
echo chatter
```
"""
    written, stale = answers.refreshed(page, tmp_path, ENVIRONMENT)
    assert len(stale) == 2
    assert "# red 0.50\n" in written and "    print(n)\n# 1\n# 2\n```" in written
    assert "cat file.txt\n# first\necho chatter\n```" in written
    assert answers.refreshed(written, tmp_path, ENVIRONMENT)[1] == []
    assert answers.same("red 0.50", "red 0.52", 0.02)
    assert not answers.same("red 0.50", "red 0.53", 0.02)
    assert not answers.same("red 0.5", "blue 0.5", 0.02)
    broken = "```python\nprint(undefined)\n```\n"
    with pytest.raises(RuntimeError, match="undefined"):
        answers.refreshed(broken, tmp_path, ENVIRONMENT)


def test_every_link_of_the_pages_leads_somewhere() -> None:
    for page in (ROOT / "README.md", *PAGES):
        text = page.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", text):
            other = page.parent / target if target else page
            assert other.exists(), f"{page.name}: {target}"
            heads = re.findall(r"^#+ (.+)$", other.read_text("utf-8"), re.M) if anchor else []
            names = [re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads]
            assert not anchor or anchor in names, f"{page.name}: #{anchor}"


def linked(page: Path) -> set[Path]:
    """The files that a page links to."""
    targets = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    return {(page.parent / target).resolve() for target in targets}


def far(root: Path) -> list[str]:
    """The pages of docs/ that are more than two clicks from the README, and what else is far."""
    once = linked(root / "README.md")
    twice = set(itertools.chain(*(linked(p) for p in once if p.suffix == ".md" and p.exists())))
    wrong = [f"{group}/index.md" for group in GROUPS if root / f"docs/{group}/index.md" not in once]
    for page in sorted((root / "docs").rglob("*.md")):
        name = page.relative_to(root / "docs").as_posix()
        if page not in once | twice:
            wrong.append(name)
        if name.split("/")[0] not in GROUPS:
            wrong.append(f"{name} is in no group")
    return wrong


def test_every_page_is_two_clicks_from_the_readme() -> None:
    """README links the first page of each group, and that links the others."""
    assert far(ROOT) == []


def test_a_page_that_is_far_is_seen(tmp_path: Path) -> None:
    pages = {f"docs/{group}/index.md": "[a](a.md)" for group in GROUPS}
    pages |= {f"docs/{group}/a.md": "[b](b.md#x)" for group in GROUPS}
    pages["README.md"] = " ".join(f"[{group}](docs/{group}/index.md)" for group in GROUPS)
    for name, text in pages.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert far(tmp_path) == []
    (tmp_path / "docs/guides/b.md").touch()
    (tmp_path / "docs/lost.md").touch()
    (tmp_path / "README.md").write_text(pages["README.md"].replace("docs/start/index.md", ""))
    assert far(tmp_path) == [
        "start/index.md",
        "guides/b.md",
        "lost.md",
        "lost.md is in no group",
        "start/a.md",
        "start/index.md",
    ]


def results(table: str) -> dict[str, object]:
    return json.loads((ROOT / f"benchmarks/results/{table}.json").read_text())


OURS = ("roberta_hub", "optimize", "plain")
"""Ways of ours in the tables of speed; the others are peers'."""


def times_as_fast(seconds: dict[str, float], ours: str) -> float:
    """How many times as fast as the fastest peer of the same precision."""
    drawing = load_script(TOOLS / "draw_speed.py")
    peers = {n: s for n, s in seconds.items() if drawing.engine_of(n) not in OURS}
    same = [s for n, s in peers.items() if drawing.precision(n) == drawing.precision(ours)]
    return min(same) / seconds[ours]


def test_the_rows_of_speed_are_those_of_the_committed_tables() -> None:
    text = results("speed_text_zen_4")["medians"]["16"]
    corpus = results("speed_corpus_base_zen_4")["medians"]
    avx2 = results("avx2_zen_4")["sizes"]["base"]["seconds a token"]
    wanted = [
        times_as_fast(table, f"roberta_hub{kind}")
        for table in (text, corpus)
        for kind in ("", ", int8")
    ]
    for column in ("16", "corpus"):
        table = {name: own[column] for name, own in avx2.items()}
        wanted += [times_as_fast(table, "optimize"), times_as_fast(table, "optimize, int8")]
    intel = results("compiled_cascade_lake")["numbers"]["base"]
    # There base in float32 is torch's, and in int8 compiled.
    wanted += [
        intel["float32"]["16"]["ONNX Runtime"] / intel["float32"]["16"]["torch"],
        intel["int8"]["16"]["ONNX Runtime"] / intel["int8"]["16"]["compiled"],
    ]
    block = README.split("## Speed", 1)[1].split("\n## ", 1)[0]
    rows = "".join(re.findall(r"^\|.*\|$", block, re.MULTILINE))
    said = re.findall(r"\| ([\d.]+) (?=\|)", rows)
    assert said == [f"{number:.1f}" for number in wanted]
    tokens = (ROOT / "benchmarks/results/tokens.md").read_text()
    trainer = (ROOT / "benchmarks/results/trainer.md").read_text()
    for pattern, table in (
        (r"tokenizers, encode_batch \| [\d.]+ \| ([\d.]+) x", tokens),
        (r"like lengths.* \| ([\d.]+) \|", trainer),
    ):
        assert f"{float(re.search(pattern, table)[1]):.1f} times" in block


@pytest.mark.parametrize("record", RELATIVES, ids=lambda record: record.name)
def test_the_table_of_the_family_says_what_the_records_say(record: Record) -> None:
    rows = [line for line in MODELS.splitlines() if line.startswith("| `")]
    (row,) = [line for line in rows if f"`{record.name}`" in line]
    _, parameters, languages, download, memory, licence = row.strip("| ").split(" | ")
    assert parameters.removesuffix(" ?") == record.parameters
    assert parameters.endswith(" ?") == ("vocab_size" in record.unsure)
    assert (languages, download) == (record.languages, record.download)
    value, unit = record.parameters.split()
    weights = float(value) * (1e6 if unit == "M" else 1e9) * 4
    assert float(memory.removesuffix(" GB")) * 1e9 == pytest.approx(weights, rel=0.1, abs=6e7)
    assert record.licence.split(" ")[0] in licence


def test_the_picture_shows_the_committed_table() -> None:
    """`python tools/draw_speed.py` draws it."""
    drawing = load_script(TOOLS / "draw_speed.py")
    assert drawing.PICTURE.read_text(encoding="utf-8") == drawing.picture()
    corpus = results("speed_corpus_base_zen_4")
    for kind, way in {"float32": "", "bfloat16": ", bfloat16", "int8": ", int8"}.items():
        speed = corpus["tokens"] / corpus["medians"][f"roberta_hub{way}"]
        assert drawing.bars()[kind][0] == ("roberta_hub", speed)


def test_the_pictures_of_answers_are_what_the_model_answers() -> None:
    """`python tools/draw_answers.py` draws them; another CPU may round otherwise."""
    drawing = load_script(TOOLS / "draw_answers.py")
    now = drawing.answered()
    for scheme, path in drawing.PICTURES.items():
        assert f'"docs/images/{path.name}"' in README
        svg = path.read_text(encoding="utf-8")
        held = drawing.numbers_of(svg)
        assert drawing.picture(held, scheme) == svg
        assert held.keys() == now.keys()
        for panel, rows in held.items():
            for row, other in zip(rows, now[panel], strict=True):
                assert row[:-1] == other[:-1], panel
                assert row[-1] == pytest.approx(other[-1], abs=0.02), panel
    said = re.findall(r"^# ([a-z]+) (0\.\d\d)$", README, re.MULTILINE)
    drawn = [(row[0], f"{row[-1]:.2f}") for rows in now.values() for row in rows]
    assert said and set(said) <= set(drawn)  # the block below shows the same


def mapped(readme: str) -> list[str]:
    """Paths, from the repository's root, that a map names; folders end with a slash.

    The map is the indented block under "Where everything is". A line that begins with a folder
    opens it for its own other names and for the deeper lines below.
    """
    block = readme.split("# Where everything is", 1)[1].split("\n## ", 1)[0]
    opened: list[tuple[int, str]] = []
    found = []
    for line in re.findall(r"^ {4}( *\S.*)$", block, re.MULTILINE):
        depth = len(line) - len(line.lstrip())
        opened = [(d, folder) for d, folder in opened if d < depth]
        names = re.findall(r"(?<![\w./`-])(?:\w+/)+(?=\s|$)|[\w-]+\.(?:py|md|txt|toml)\b", line)
        if names and names[0].endswith("/") and line.lstrip().startswith(names[0]):
            folder = (opened[-1][1] if opened else "") + names.pop(0)
            opened.append((depth, folder))
            found.append(folder)
        found += [(opened[-1][1] if opened else "") + name for name in names]
    return found


def faults(readme: str, root: Path) -> list[str]:
    """What is wrong with a map of the tree at root."""
    named = mapped(readme)
    wrong = [f"{name} is named and is not there" for name in named if not (root / name).exists()]
    for path in sorted((root / "roberta_hub").rglob("*.py")):
        name = path.relative_to(root).as_posix()
        times = named.count(name)
        if path.name == "__init__.py" and name != "roberta_hub/__init__.py":
            times = named.count(name.removesuffix("__init__.py"))  # its folder stands for it
        if times != 1:
            wrong.append(f"{name} is named {times} times")
    return wrong


def test_the_map_names_every_module_once_and_nothing_else() -> None:
    assert faults((ROOT / "docs/background/map.md").read_text(encoding="utf-8"), ROOT) == []


MAP = """
# Where everything is

    setup.py                 packaging            notes.txt  what else
    roberta_hub/
      __init__.py            the public API; hub.py beside it
      text/                  TEXT
        config.py tables.py    two, and/or one
        deep/                  more: never.been is no file
      config.py              settings
    tests/                   mirrors the package

Prose about `other.py`.

## Next
    not_there.py
"""


@pytest.mark.parametrize(
    ("change", "missing", "fault"),
    [
        (("", ""), "", ""),
        (("config.py tables.py", "tables.py"), "", "roberta_hub/text/config.py is named 0 times"),
        (("      config.py  ", "      "), "", "roberta_hub/config.py is named 0 times"),
        (("; hub.py", "; hub"), "", "roberta_hub/hub.py is named 0 times"),
        (("tables.py ", "tables.py config.py "), "", "roberta_hub/text/config.py is named 2 times"),
        (("deep/", "deap/"), "", "roberta_hub/text/deap/ is named and is not there"),
        (("deep/", "deep"), "", "roberta_hub/text/deep/__init__.py is named 0 times"),
        (("", ""), "roberta_hub/text/config.py", "text/config.py is named and is not there"),
        (("", ""), "notes.txt", "notes.txt is named and is not there"),
    ],
)
def test_a_wrong_map_is_seen(
    tmp_path: Path, change: tuple[str, str], missing: str, fault: str
) -> None:
    package = ("__init__", "hub", "config", "text/__init__", "text/config", "text/tables")
    package += ("text/deep/__init__",)
    files = [f"roberta_hub/{name}.py" for name in package]
    for name in (*files, "setup.py", "notes.txt", "tests/test.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if name != missing:
            (tmp_path / name).touch()
    found = faults(MAP.replace(*change), tmp_path)
    assert bool(found) == bool(fault)
    assert not fault or any(fault in line for line in found)


def test_the_makefile_runs_what_the_pages_say() -> None:
    makefile = (ROOT / "Makefile").read_text()
    said = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *PAGES))
    for target in set(re.findall(r"(?:`|^    )make ([a-z-]+)", said, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


CUT = """
import sys, warnings, zipfile
from sentence_transformers import SentenceTransformer
zipfile.ZipFile(sys.argv[1]).extractall("minilm")
model = SentenceTransformer("minilm", device="cpu")
with warnings.catch_warnings():
    warnings.simplefilter("error")
    one, other = model.encode(["word " * 300 + "alpha", "word " * 300 + "omega"])
print("the same" if (one == other).all() else "not")
"""


@pytest.mark.system
def test_what_peers_do_silently(tmp_path: Path) -> None:
    """The three sentences of the README, of the peers and of ours."""
    transformers = pytest.importorskip("transformers")
    minilm = pytest.importorskip("all_minilm_l6_v2")
    pytest.importorskip("sentence_transformers")
    import roberta_hub

    model = Path(minilm.__file__).with_name("model.zip")
    done = subprocess.run(
        [sys.executable, "-c", CUT, str(model)], capture_output=True, text=True, cwd=tmp_path
    )
    assert "the same" in done.stdout, done.stderr
    roberta = roberta_hub.load_model()
    with pytest.raises(roberta_hub.RobertaHubError, match=r"texts\[1\]: .* 256"):
        roberta.embed(["short", "word " * 600])
    roberta.save(tmp_path / "saved", format="huggingface")
    theirs = transformers.RobertaTokenizerFast.from_pretrained(tmp_path / "saved")
    assert theirs("a</s>b")["input_ids"].count(2) == 2
    assert roberta.encode("a</s>b").tolist().count(2) == 1
    assert theirs("a", None)["input_ids"] == theirs("a")["input_ids"]
    with pytest.raises(roberta_hub.RobertaHubError, match="1"):
        roberta.encode_batch([("a", "b"), ("a", None)])
