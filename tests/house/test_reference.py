"""The pages of docs/reference/ are what the code says: options, settings, variables, errors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from scripts import TOOLS, load_script

from roberta_hub import errors
from roberta_hub.errors import RobertaHubError
from roberta_hub.shell.main import VERBS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "roberta_hub"
REFERENCE = ROOT / "docs/reference"
ENVIRONMENT = (REFERENCE / "environment.md").read_text(encoding="utf-8")
ERRORS = (REFERENCE / "errors.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """tools/reference.py, which writes the pages."""
    pytest.importorskip("hydra", reason="no hydra; pip install '.[train]' in the clone")
    return load_script(TOOLS / "reference.py")


# ---- pages that are written ----


@pytest.mark.system
def test_the_pages_are_what_the_code_says(reference: ModuleType) -> None:
    """Else: `python tools/reference.py`."""
    for path, text in reference.pages().items():
        assert path.is_file(), f"{path.name}: run python tools/reference.py"
        assert path.read_text(encoding="utf-8") == text, path
    for folder, names in (("shell", VERBS), ("api", reference.API)):
        assert {page.stem for page in (REFERENCE / folder).glob("*.md")} == set(names)


def test_every_option_is_on_its_verbs_page(reference: ModuleType) -> None:
    """By another way than the one that writes them: what --help says."""
    for name in VERBS:
        command = reference.verb(name)
        page = (REFERENCE / f"shell/{name}.md").read_text(encoding="utf-8")
        for option in command.params:
            for flag in option.opts if option.param_type_name == "option" else ():
                assert re.search(rf"^\| .*`{flag}[` ]", page, re.M), (name, flag)


def test_every_setting_says_what_it_is(reference: ModuleType) -> None:
    for title, prefix, kind, _ in reference.SECTIONS:
        for own in reference.fields_of(kind):
            assert own.says, f"{title}: {prefix}{own.name}"


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("Of --head and -m: `a|b`.", "Of `--head` and `-m`: `a\\|b`."),
        ("words for <mask>, a_b*", "words for `<mask>`, a_b\\*"),
        ("_a [b]", "\\_a \\[b\\]"),
        ("a folder or 'in/*.parquet' as FILE", "a folder or `'in/*.parquet'` as FILE"),
        ("well-known, a - b", "well-known, a - b"),
    ],
)
def test_a_help_is_no_markup(reference: ModuleType, text: str, markdown: str) -> None:
    assert reference.prose(text) == markdown


@pytest.mark.system
@pytest.mark.timeout(2400)  # six small models are trained first
def test_the_examples_print_what_the_pages_say(tmp_path: Path) -> None:
    """New weights? `python tools/reference.py --answers`."""
    pytest.importorskip("accelerate")
    pytest.importorskip("onnxscript")
    tool = load_script(TOOLS / "shell_examples.py")
    for page, _, stale in tool.examples_run(tmp_path):
        assert page.stem in tool.VARIES or stale == [], page


# ---- environment variables ----


def constants(trees: dict[Path, ast.Module]) -> dict[str, list[str]]:
    """Text constants of modules by name, and tuples of such."""
    found: dict[str, list[str]] = {}
    for tree in trees.values():
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found.setdefault(node.targets[0].id, []).extend(texts(node.value, found))
    return found


def texts(node: ast.expr, known: dict[str, list[str]]) -> list[str]:
    """The texts that an expression means: itself, a constant's, those of a tuple."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.Tuple):
        return [text for item in node.elts for text in texts(item, known)]
    name = getattr(node, "attr", None) or getattr(node, "id", None)
    return known.get(str(name), [])


def is_environment(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "environ"


def reads(tree: ast.Module) -> Iterator[ast.expr]:
    """The names that are looked up in os.environ."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_environment = is_environment(node.func.value) and node.args
            if of_environment or node.func.attr in ("getenv", "putenv", "unsetenv"):
                yield node.args[0]
        elif isinstance(node, ast.Subscript) and is_environment(node.value):
            yield node.slice
        elif isinstance(node, ast.Compare) and is_environment(node.comparators[0]):
            yield node.left


def variables(package: Path) -> tuple[set[str], set[str]]:
    """The environment variables that a package reads, and the names that could not be followed."""
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py"))
    }
    known, found, lost = constants(trees), set[str](), set[str]()
    for path, tree in trees.items():
        loops = {
            node.target.id: texts(node.iter, known)
            for node in ast.walk(tree)
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name)
        }
        for read in reads(tree):
            names = texts(read, {**known, **loops})
            found |= set(names)
            lost |= set() if names else {f"{path.name}: {ast.unparse(read)}"}
    for path in [*package.rglob("*.cpp"), *package.rglob("*.h")]:
        found |= set(re.findall(r'getenv\("(\w+)"\)', path.read_text(encoding="utf-8")))
    for path in trees:  # what a message or a docstring tells people to set
        found |= set(re.findall(r"\$([A-Z][A-Z0-9_]{3,})\b", path.read_text(encoding="utf-8")))
    for name, values in known.items():
        if name.endswith(("_ENV", "_VARIABLE", "_VARIABLES")):
            found |= set(values)
    return found, lost


def on_the_page() -> set[str]:
    rows = re.findall(r"^\| (`.+?`) \|", ENVIRONMENT, re.M)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


@pytest.mark.system
def test_every_variable_that_the_code_reads_is_on_the_page() -> None:
    found, lost = variables(PACKAGE)
    assert lost <= {"download.py: variable", "doctor.py: name"}  # which loop over the constants
    assert len(found) > 20
    assert found - on_the_page() == set()
    assert on_the_page() - found == {"HF_TOKEN"}  # huggingface_hub's own


def test_a_new_variable_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import os\nNEW_ENV = 'FIRST'\nKNOWN = 'SECOND'\n"
        "a = os.environ.get(KNOWN)\nb = os.environ['THIRD']\nc = 'FOURTH' in os.environ\n"
        "d = os.getenv('FIFTH')\nfor e in ('SIXTH', 'SEVENTH'):\n    os.environ.setdefault(e, '')\n"
        "f = 'set $EIGHTH'\ng = os.environ.get(unknown)\n"
    )
    (tmp_path / "b.cpp").write_text('auto x = getenv("NINTH");')
    found, lost = variables(tmp_path)
    names = "FIRST SECOND THIRD FOURTH FIFTH SIXTH SEVENTH EIGHTH NINTH"
    assert found == set(names.split()) and lost == {"a.py: unknown"}


def test_doctor_prints_what_the_page_says_it_does() -> None:
    from roberta_hub.shell.doctor import ENVIRONMENT_VARIABLES

    silent = set(re.findall(r"`(\w+)`", ENVIRONMENT.partition("# Environment")[2].split("\n\n")[1]))
    assert set(ENVIRONMENT_VARIABLES) == on_the_page() - silent


# ---- errors ----


def test_every_class_of_errors_is_on_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) ?\| (.+?) \|$", ERRORS, re.M)
    found = {name: (set(re.findall(r"`(\w+)`", also)), says) for name, also, says in rows}
    kinds = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, (RobertaHubError, UserWarning))
    }
    assert found.keys() == kinds.keys()
    for name, kind in kinds.items():
        also, says = found[name]
        bases = {base.__name__ for base in kind.__bases__ if base is not RobertaHubError}
        assert also == bases - {"Exception"}, name
        assert says == (kind.__doc__ or "").split("\n\n")[0].rstrip(".").replace("\n   ", ""), name


def test_the_messages_are_those_that_code_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each section's block, its message in a quote, and what a shell says instead."""
    monkeypatch.chdir(tmp_path)
    first, *sections = re.split(r"^### ", ERRORS.partition("\n## The parts")[0], flags=re.M)
    names: dict[str, object] = {}
    for line in re.findall(r"^>>> (.+)$", first, re.M):
        exec(line, names)
    assert len(sections) >= 12
    for section in sections:
        title, said = section.splitlines()[0], None
        for line in re.findall(r"^>>> (.+)$", section, re.M):
            try:
                exec(line, names)
            except RobertaHubError as error:
                said = error
        assert said is not None, title
        quote = re.search(r"^> (.+)$", section, re.M)
        shown = quote[1].replace("\\<", "<") if quote else str(said)
        pattern = re.escape(shown).replace(re.escape("Searched: ..."), "Searched: .+")
        assert re.fullmatch(pattern, str(said)), title
        if said.remedy is not None and said.remedy.shell:
            assert said.remedy.shell.replace("`", "") in section.replace("`", ""), title
