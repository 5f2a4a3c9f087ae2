"""What guards the speed: its limits are below what was measured, and nothing missing passes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import speed  # noqa: E402
import threads_safety  # noqa: E402
import tiny  # noqa: E402
from lib import answers, costs, engines, guard  # noqa: E402
from lib.demands import AS_IT_COMES  # noqa: E402
from lib.timing import Samples, sampled, sampled_by_turns  # noqa: E402

RESULTS = ROOT / "benchmarks/results"
ZEN_4 = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nflags\t\t: fpu avx2 avx512_vnni\n"
LINEAR = {torch.ops.aten.mm, torch.ops.aten.addmm}
KINDS = [*guard.MEASURED, "Intel with AMX", None]


def medians(table: str) -> Any:
    return json.loads((RESULTS / f"{table}.json").read_text())["medians"]


def best(seconds: dict[str, float], *names: str) -> float:
    return min(s for n, s in seconds.items() if n.startswith(names) and AS_IT_COMES not in n)


def test_limits_are_below_what_the_committed_tables_measured() -> None:
    corpus, measured = medians("speed_corpus_base_zen_4"), guard.MEASURED["AMD Zen 4"]
    slots = json.loads((RESULTS / "speed_corpus_base_zen_4.json").read_text())["padding"]["sorted"]
    ours, int8 = corpus["roberta_hub"], corpus["roberta_hub, int8"]
    said = {
        "corpus: transformers, a slot": best(corpus, "transformers, sdpa") / ours / slots,
        "corpus: ONNX Runtime": best(corpus, "ONNX Runtime, by", "ONNX Runtime, one") / ours,
        "corpus: ONNX Runtime, int8": best(corpus, "ONNX Runtime, int8") / int8,
        "corpus: our float32, int8": ours / int8,
        "corpus: our plain": corpus["roberta_hub, plain"] / ours,
    }
    for length, found in medians("speed_text_zen_4").items():
        said[f"{length} tokens: our plain"] = found["roberta_hub, plain"] / found["roberta_hub"]
        for kind in ("", ", int8"):
            said[f"{length} tokens: ONNX Runtime{kind}"] = (
                found[f"ONNX Runtime{kind}"] / found[f"roberta_hub{kind}"]
            )
    for what, ratio in measured.items():
        assert ratio == pytest.approx(said[what], rel=0.01), what
        for kind in KINDS:
            assert guard.limits(kind)[what] < said[what], (what, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_as_fast_as_measured_passes(kind: str | None) -> None:
    found: dict[str, float | None] = dict(guard.MEASURED["AMD Zen 4"])
    lines, faults = guard.judge(found, kind)
    assert faults == []
    assert ("No measurement of this CPU" in lines[-1]) == (kind not in guard.MEASURED)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", guard.MEASURED["AMD Zen 4"])
def test_one_slow_ratio_or_one_missing_peer_fails(what: str, kind: str | None) -> None:
    least = guard.limits(kind)[what]
    for ratio, word in ((0.99 * least, "is the least"), (None, "did not run")):
        found = {**guard.MEASURED["AMD Zen 4"], what: ratio}
        (fault,) = guard.judge(found, kind)[1]
        assert fault.startswith(f"{what}: ") and word in fault
    del found[what]
    assert len(guard.judge(found, kind)[1]) == 1
    assert len(guard.judge({}, kind)[1]) == len(guard.MEASURED["AMD Zen 4"])


@pytest.mark.system
def test_peers_get_their_files_from_a_process_of_its_own(
    small: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """As in a fresh clone: no $PYTHONPATH says where `lib` is."""
    pytest.importorskip("onnxruntime")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with pytest.raises(RuntimeError, match=r"no ONNX file: .*model\.safetensors"):
        engines.export(tmp_path)
    small[0].save(tmp_path / "theirs", format="huggingface")
    assert engines.export(tmp_path / "theirs").is_file()
    ids = [torch.tensor([0, 31414, 232, 2])]
    (wanted,) = engines.ours(small[0])(ids)
    for dtype, near in (("float32", 1e-4), ("int8", 0.3)):
        (found,) = engines.onnxruntime(tmp_path / "theirs", dtype)(ids)
        assert (found - wanted).abs().max() < near


@pytest.mark.system
@pytest.mark.parametrize("slow", [False, True])
def test_the_command_fails_where_a_ratio_is_below_its_floor(
    slow: bool, small: Any, monkeypatch: Any
) -> None:
    """With clocks of our own in place of the engines, of which one may be slow."""
    times = dict.fromkeys(speed.QUICK, 1.0)
    times |= {"roberta_hub": 0.1, "roberta_hub, int8": 0.01}
    if slow:
        times["roberta_hub, int8"] = 1.5

    class Engine:
        def __init__(self, name: str, size: str, folder: Path) -> None:
            self.seconds = times[name]

        def time(self, ids: Any, call: Any) -> Any:
            return self.seconds * sum(map(len, ids)), True

        def close(self) -> None:
            pass

    monkeypatch.setattr(speed, "Alone", Engine)
    monkeypatch.setattr(speed, "export", lambda folder: folder)
    monkeypatch.setattr(speed, "random_model", lambda size: small[0])
    monkeypatch.setattr(speed, "PAUSE", 0)
    monkeypatch.setattr(sys, "argv", ["speed.py", "quick"])
    assert speed.main() == int(slow)


@pytest.mark.parametrize(
    ("cpuinfo", "kind"),
    [
        (ZEN_4, "AMD Zen 4"),
        (ZEN_4.replace(" avx512_vnni", ""), None),
        ("vendor_id : GenuineIntel\nflags : avx512_vnni amx_int8\n", "Intel with AMX"),
        ("vendor_id : GenuineIntel\nflags : avx512_vnni\n", "Intel with AVX-512 VNNI"),
        ("vendor_id : GenuineIntel\nflags : avx2\n", None),
        ("processor : 0\nFeatures : neon\n", None),
        ("", None),
    ],
)
def test_kinds_of_cpu(cpuinfo: str, kind: str | None) -> None:
    assert guard.kind_of_cpu(cpuinfo) == kind


def test_results_say_how_many_rounds_they_are_of() -> None:
    assert "single sample" in sampled(1) and "no medians" in sampled(1)
    assert "no medians" in sampled(2)
    assert "medians of 3 rounds" in sampled(3)
    for name in ("base_zen_4", "large_zen_4"):
        page = (RESULTS / f"speed_corpus_{name}.md").read_text()
        rounds = {len(s) for s in seconds_of(name).values()}
        assert [sampled(n) in page for n in rounds] == [True]
    assert sampled(15) in (RESULTS / "speed_text_zen_4.md").read_text()


def seconds_of(name: str) -> Any:
    return json.loads((RESULTS / f"speed_corpus_{name}.json").read_text())["seconds"]


def test_turns_are_interleaved() -> None:
    order = ""

    def way(name: str) -> Any:
        def run() -> tuple[float, bool]:
            nonlocal order
            order += name
            return float(len(order)), name == "a"

        return run

    found = sampled_by_turns({"a": way("a"), "b": way("b")}, 3)
    assert order == "ababab"
    assert found["a"] == Samples([1.0, 3.0, 5.0], [1.0, 3.0, 5.0]) and found["a"].median == 3
    assert found["b"] == Samples([2.0, 4.0, 6.0], []) and found["b"].median == 4


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model of 2 layers with a head for pairs, and its folder."""
    import roberta_hub
    from roberta_hub import RobertaHubInterface, RobertaModel
    from roberta_hub.config import RobertaConfig

    config = RobertaConfig(embed_dim=32, ffn_dim=64, num_layers=2, num_heads=2, embedding_dim=16)
    torch.manual_seed(0)
    model = RobertaModel(config)
    model.register_classification_head("mnli", 3)
    labels = {"mnli": ("contradiction", "neutral", "entailment")}
    folder = tmp_path_factory.mktemp("small") / "small"
    task = roberta_hub.load_model("roberta.base", pretrained=False, device="meta").task
    RobertaHubInterface(model.config, task, model, labels=labels).save(folder)
    return roberta_hub.load_model(folder).eval(), folder


def test_a_model_is_asked_every_set(small: Any, shared: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(answers, "SHARED", shared)
    roberta, folder = small
    only = [name for name in answers.SETS if name != "topics"]  # its text takes 20 s to find
    numbers, scores = tiny.measure(str(folder), only, 1, 12)
    assert set(scores) == set(only)
    for score in scores.values():
        assert score.rows == 12 and -1 <= score.value <= 1
        if score.chance is not None:
            assert score.value == pytest.approx(1 - len(score.mistakes) / 12)
            assert all(m.wanted != m.given and 0 < m.sure <= 1 for m in score.mistakes)
    page = tiny.table({**numbers, "before": numbers})
    assert page.count("| small | small |") == 1
    assert page.count("\n| ") == len(only) + 3  # masked words have two rows more, and a header
    right = roberta.classify([("It rains.", "It is wet.")], head="mnli")[0].label
    assert right in ("contradiction", "neutral", "entailment")


def test_a_model_is_evaluated(small: Any, shared: Path, monkeypatch: Any) -> None:
    pytest.importorskip("pytrec_eval")
    monkeypatch.setattr(answers, "SHARED", shared)
    numbers, _ = tiny.measure(str(small[1]), list(tiny.worth.TASKS), 1, 12)
    assert {name: own["rows"] for name, own in numbers.items() if name != "model"} == {
        "blimp": 13,  # without a header
        "mnli_calibration": 12,
        "snli_calibration": 12,
        "xquad_search": 12,
        "boolq_search": 12,
    }
    page = tiny.table({**numbers, "before": {"model": "older"}})
    assert "| what | older | small |" in page
    assert re.search(r"\| BLiMP, .*: 13 minimal pairs.* \|  \| \d+\.\d % \|", page)
    assert "XQuAD's questions to their paragraphs (12 in" in page
    assert str(small[1]) not in json.dumps(numbers)
    assert tiny.table({**numbers, "before": numbers}).count("log loss") == 2


def test_what_is_measured_by_itself_keeps_its_own_date(
    small: Any, shared: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(answers, "SHARED", shared)
    for module in (tiny, sys.modules["lib.report"]):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    for part in ("mnli_calibration", "blimp"):
        words = ["tiny.py", "--model", str(small[1]), "--only", part, "--limit", "3", "--name", "x"]
        monkeypatch.setattr(sys, "argv", words)
        tiny.main()
        told = json.loads((tmp_path / "x.json").read_text())
        told["about"]["date"] = "2020-01-01"
        (tmp_path / "x.json").write_text(json.dumps(told))
    assert list(told["later"]) == ["blimp"] and {"mnli_calibration", "blimp"} < told.keys()
    page = (tmp_path / "x.md").read_text()
    assert "Measured by itself: blimp. 20" in page and page.count("2020-01-01") == 1


def test_a_folder_of_questions_and_passages(shared: Path, tmp_path: Path) -> None:
    path = tiny.worth.beir([("a?", "T", "x"), ("b?", "", "y"), ("c?", "T", "x")], tmp_path, None)
    judged = (path / "qrels/test.tsv").read_text().splitlines()[1:]
    assert [line.split("\t")[:2] for line in judged] == [["q0", "d0"], ["q1", "d1"], ["q2", "d0"]]
    assert (path / "corpus.jsonl").read_text().count("\n") == 2


def test_texts_of_sets_without_a_licence_are_not_written(small: Any) -> None:
    mistake = answers.Mistake(7, "neutral", "entailment", 0.9, "a secret | sentence")
    score = answers.Score(0.5, 0.3, 2, [mistake], {})
    page = tiny.wrong("small", {"sst2_dev": score, "books": score, "rte_dev": score})
    assert "secret" not in page and page.count("| 7 | 0.90 | entailment | neutral |") == 3
    assert "| a secret / sentence |" in tiny.wrong("small", {"snli_dev": score})
    assert set(answers.MAY_BE_SHOWN) == {"mnli_dev_matched", "snli_dev", "topics"}


def test_mistakes_of_some_sets_leave_the_others_in_their_place() -> None:
    def page(**sets: str) -> str:
        wrong = {n: [answers.Mistake(1, "a", b, 0.9, "")] for n, b in sets.items()}
        scores = {n: answers.Score(0.5, None, 2, m, {}) for n, m in wrong.items()}
        return tiny.wrong("small", scores)

    before = page(snli_dev="b", rte_dev="c", books="d")
    after = tiny.replaced(before, page(rte_dev="e"))
    assert after == page(snli_dev="b", rte_dev="e", books="d")
    assert tiny.replaced(before, before) == before


def test_the_ceiling_counts_what_the_head_needs(small: Any) -> None:
    """The FLOPs of all products against torch's own count of a real `classify`."""
    from torch.utils.flop_counter import FlopCounterMode

    roberta, _ = small
    pairs = [("A dog runs in the park.", "It is outside."), ("He left.", "He is still here now.")]
    lengths = [len(ids) for ids in roberta.encode_batch(pairs)]
    config = roberta.model.config
    counted = sum(2 * m * k * n for m, k, n in costs.shapes(config, lengths))
    with FlopCounterMode(display=False) as counter:
        roberta.classify(pairs, head="mnli")
    found = counter.get_flop_counts()["Global"]
    linear = sum(n for name, n in found.items() if name in LINEAR)
    head = 2 * len(pairs) * config.embed_dim * 3
    assert counted + head == linear
    roberta.eval()
    share = costs.shares(roberta, pairs, 9)  # the median: a busy machine delays single rounds
    assert share["pairs"] == 2 and 0 < share["plain"]["share_of_ceiling"] < 2


def test_the_older_model_is_committed() -> None:
    said = json.loads((RESULTS / "tiny_0.1.0.json").read_text())
    assert said["mnli_dev_matched"][0] == pytest.approx(0.586, abs=5e-4)
    assert {*answers.SETS, "bytes", "wheel"} <= set(said)


def test_bytes_are_those_of_the_files(small: Any) -> None:
    _, folder = small
    assert costs.folder_of("roberta.tiny").name == "tiny" and costs.folder_of(str(folder)) == folder
    assert costs.file_bytes(folder) == sum(p.stat().st_size for p in folder.iterdir())


# ---- threads ----


def test_answers_that_leak_from_thread_to_thread_are_counted() -> None:
    import time

    limit = [0]

    def leaking(texts: list[str], number: int) -> list[list[int]]:
        limit[0] = 2 + number % 3  # as a tokenizer that keeps the truncation of a call
        time.sleep(0.001)
        return [list(range(limit[0])) for _ in texts]

    def failing(texts: list[str], number: int) -> list[list[int]]:
        if sys._getframe(1).f_code.co_name == "ask":
            raise RuntimeError("Already borrowed")
        return [[1] for _ in texts]

    calls = [["a", "b"]] * 60
    counts = threads_safety.counted(calls, leaking, threads_safety.is_same)
    assert counts["wrong"] > 0 and counts["wrong"] + counts["right"] == 120
    counts = threads_safety.counted(calls, failing, threads_safety.is_same)
    assert counts == {"RuntimeError: Already borrowed": 120}
    counts = threads_safety.counted(calls, lambda texts, _: [[1], [2]], threads_safety.is_same)
    assert counts == {"right": 120}


def test_the_pages_say_what_was_counted() -> None:
    counts = json.loads((RESULTS / "threads_safety.json").read_text())["counts"]
    for name, found in counts.items():
        if name.startswith("roberta_hub"):
            assert found == {"right": 20_000}
    (theirs,) = (found for name, found in counts.items() if name.startswith("transformers"))
    for page in ("README.md", "SECURITY.md"):
        assert f"{theirs['wrong']:,} of 20,000" in (ROOT / page).read_text(encoding="utf-8"), page
