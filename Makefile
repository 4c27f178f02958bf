# Needs CPython 3.11 to 3.14 and a C compiler; everything else goes into a virtual environment.
#     make build   the environment, with this tree installed in it
#     make test    the tests (TESTS=tests/cli ARGS="-x" narrow it and leave none of those out, JOBS=1 is one process)
#     make test-slow  those that `make test` leaves out because they take long, and many of them together longer
#     make demo    an unmodified script of five Hugging Face models, stock and mended
#     make docs    the site made of docs/, in build/site; a warning is an error
#     make lint    ruff, mypy --strict, the import contracts, clang-format, and C without a warning
#     make fuzz    20,000 generated programs against eager Python (COUNT=, SEED=, JOBS=, ARGS="--minutes 30")
#     make fuzz-readers  ten minutes of inputs that atheris finds, for each reader of files (SECONDS=600; Python 3.11 to 3.13)
#     make coverage  which branches the tests come by (half an hour)
#     make orders  all tests, with the calls of each program in every order
#     make sanitize  the C extension's tests under ASan and UBSan
#     make refleaks  the same under a debug build of CPython, where there is one
#     make census  every architecture of transformers, shrunk: whole before and after (hours; ARGS="--sample 60")
#     make census-libs  the same of 258 uses of 78 other libraries (an hour; JOBS=2 ARGS="--sample 20")
#     make library-tests  the own tests of 11 libraries: eager, stock, mended (hours; ARGS="--sample 40 --seed 1")
#     make mutation  weakens each check of legality in turn: which test notices? (hours; ARGS=graphmend_bc/legality/choose.py)
#     make matrix  the tests on each supported pair of Python and torch (hours; ARGS='-s "suite(3.11, 2.15.0)"')
#     make wheels  the distributions of a release in dist, each tried (seven minutes; ARGS="--python /path/to/python3.14")
#     make bench   what mending gives and costs, in half an hour, with tables and pictures (RESULTS=folder)
#     make bench-aimnet  AIMNet2, an interatomic potential, and its fix by hand (ten minutes)
#     make bench-gpu  the same on a GPU, in nine minutes; needs a build of torch for CUDA

PYTHON ?= $(shell python3.11 -c 'print("python3.11")' 2>/dev/null || echo python3)
VENV ?= .venv
BIN := $(VENV)/bin
TESTS ?=
ARGS ?=
COUNT ?= 20000
SEED ?= 0
SECONDS ?= 600
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CLANG_FORMAT ?= $(BIN)/clang-format
RESULTS ?= benchmarks/results
STAMP := .stamps/build$(subst /,_,$(VENV))
DOCS_STAMP := .stamps/docs$(subst /,_,$(VENV))

.PHONY: build test test-slow orders fuzz fuzz-readers coverage demo docs docs-tools lint bench bench-aimnet bench-gpu census census-libs library-tests mutation matrix sanitize refleaks soak wheels clean

build: $(STAMP)

# Anything that changes what is installed or compiled makes the stamp stale.
$(STAMP): pyproject.toml $(wildcard constraints.txt constraints/*) $(wildcard setup.py csrc/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt -e '.[cli,scan,test,dev]'
	mkdir -p $(@D) && touch $@

# Each file of tests runs in one of as many processes as there are cores, each with one thread.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile

test: build
	$(PYTEST) $(if $(TESTS),,-m "not slow and not nightly") $(ARGS) $(TESTS)

test-slow: build
	$(PYTEST) -m "slow and not nightly" $(ARGS) $(TESTS)

orders: build
	$(PYTEST) --all-orders $(ARGS) $(TESTS)

fuzz: build
	$(PYTEST) -m nightly --all-orders $(TESTS)
	$(BIN)/python -m tests.fuzz --count $(COUNT) --seed $(SEED) --jobs $(JOBS) --out $(RESULTS)/fuzz_found $(ARGS)

fuzz-readers: build
	$(BIN)/python -m pip install -q -c constraints.txt atheris
	for reader in archive bytecode decisions; do \
		$(BIN)/python -m tests.readers --reader $$reader --seconds $(SECONDS) \
			--out $(RESULTS)/fuzz_found || exit 1; done

# Also in the processes that tests start, wherever they do.
COVERAGE := $(BIN)/python -m coverage

coverage: build
	$(COVERAGE) erase
	OMP_NUM_THREADS=1 $(COVERAGE) run -m pytest -n $(JOBS) --dist loadfile -m "not nightly" $(ARGS) $(TESTS)
	$(COVERAGE) combine -q
	$(COVERAGE) report

# The script itself prints one OK line for each model that equals eager.
demo: build
	@echo "== benchmarks/demo.py as it is, then what stock and mended compilation make of it"
	@$(BIN)/python -m graphmend_bc explain benchmarks/demo.py
	@echo "== benchmarks/demo.py, mended"
	@$(BIN)/python -m graphmend_bc run benchmarks/demo.py

docs-tools: build $(DOCS_STAMP)

$(DOCS_STAMP): pyproject.toml $(wildcard constraints.txt constraints/*)
	$(BIN)/python -m pip install -c constraints.txt -e '.[docs]'
	mkdir -p $(@D) && touch $@

# The network is not used. The variable silences a notice of the theme's about another program.
docs: docs-tools
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

lint: build
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy --strict
	$(BIN)/lint-imports
	$(CLANG_FORMAT) --dry-run --Werror csrc/*.c csrc/*.h
	headers=$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('include'))") && \
	for file in csrc/*.c; do \
		$(CC) -std=c11 -O2 -Wall -Wextra -Werror -I "$$headers" -S -o - $$file >/dev/null || exit 1; \
	done

# What it measures is in the docstring of each; docs/results has the results that the docs quote.
bench: build
	mkdir -p $(RESULTS)
	$(BIN)/python -m pip install -q -c constraints.txt 'matplotlib>=3.9'
	$(BIN)/python benchmarks/speed.py --json $(RESULTS)/speed.json $(ARGS)
	$(BIN)/python benchmarks/life_cost.py --repeats 1 --json $(RESULTS)/life_cost.json --lives $(RESULTS)/lives.json
	$(BIN)/python benchmarks/effects.py --json $(RESULTS)/effects.json
	$(BIN)/python benchmarks/growth.py --json $(RESULTS)/growth.json
	$(BIN)/python benchmarks/frame_hooks.py --json $(RESULTS)/frame_hooks.json
	$(BIN)/python benchmarks/tables.py $(RESULTS)
	$(BIN)/python benchmarks/pictures.py $(RESULTS)

# Two hours, on three processors: memory of a process that serves mended functions.
soak: build
	mkdir -p $(RESULTS)
	$(BIN)/python benchmarks/soak.py --minutes 25 --arm stock --json $(RESULTS)/soak_stock.json & \
	$(BIN)/python benchmarks/soak.py --minutes 10 --steady --json $(RESULTS)/soak_steady.json & \
	$(BIN)/python benchmarks/soak.py --json $(RESULTS)/soak_mended.json && wait
	$(BIN)/python -m pip install -q -c constraints.txt 'matplotlib>=3.9'
	$(BIN)/python benchmarks/pictures.py $(RESULTS)

# Each version of the model lies in a folder of its own; torch and numpy are those of the environment.
AIMNET := build/aimnet-0.2.0 build/aimnet-0.2.5
TOOLKIT_0.2.0 := 0.3.1
TOOLKIT_0.2.5 := 0.4.1

build/aimnet-%: | build
	$(BIN)/python -m pip install --no-deps --target $@ aimnet==$* nvalchemi-toolkit-ops==$(TOOLKIT_$*) \
		warp-lang==1.19.0 h5py==3.16.0 click pyyaml

bench-aimnet: build $(AIMNET)
	mkdir -p $(RESULTS)
	$(BIN)/python benchmarks/aimnet.py --package $(word 1,$(AIMNET)) --fixed $(word 2,$(AIMNET)) \
		--json $(RESULTS)/aimnet.json $(ARGS)

bench-gpu: build
	$(BIN)/python benchmarks/gpu.py --out $(RESULTS) $(ARGS)

census: build
	mkdir -p $(RESULTS)
	$(BIN)/python benchmarks/census.py --out $(RESULTS)/census.jsonl --plot $(RESULTS)/census.svg $(ARGS)

# torch and numpy are those of the environment. torchaudio's extension is built for CUDA; without it
# there is its Python.
LIBS := build/libs/.installed

$(LIBS): constraints/libs.txt | build
	rm -rf $(@D)
	$(BIN)/python -m pip install -q --no-deps --target $(@D) -r $<
	rm -f $(@D)/torchaudio/lib/*.so
	touch $@

census-libs: build $(LIBS)
	mkdir -p $(RESULTS)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/census_libs.py --packages $(dir $(LIBS)) --jobs $(JOBS) \
		--out $(RESULTS)/census_libs.jsonl $(ARGS)

library-tests: build $(LIBS)
	$(BIN)/python -m tests.library_suites --packages $(dir $(LIBS)) $(ARGS)

mutation: build
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutation --reach $(ARGS)

matrix: build
	mkdir -p $(RESULTS)
	$(BIN)/python -m nox --report $(RESULTS)/matrix.json $(ARGS)

sanitize: build
	$(BIN)/python tests/sanitize.py $(ARGS)

refleaks: build
	$(BIN)/python tests/refleaks.py $(ARGS)

# What builds and tries distributions has an environment of its own.
RELEASE_TOOLS := build/release-tools/.installed

$(RELEASE_TOOLS): constraints/release.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install -q -r $<
	touch $@

wheels: $(RELEASE_TOOLS)
	$(dir $<)bin/python tests/wheels.py $(ARGS)

clean:
	rm -rf $(VENV) .nox .stamps build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find graphmend_bc tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
	rm -f graphmend_bc/*.so
