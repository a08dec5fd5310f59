# Two commands on a fresh machine with Python 3.11 and pip: `make run` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# The tests of a file share what they set up.
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder
# mypy keeps one processor busy for half a minute: its output comes after that of the tests.
WHILE_MYPY_RUNS = mkdir -p .mypy_cache; $(BIN)/mypy >.venv/mypy.txt 2>&1 & $(1); tests=$$?; \
	wait $$!; types=$$?; cat .venv/mypy.txt; test "$$tests $$types" = "0 0"
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Options for an experiment or a benchmark, such as ARGS="--seeds 0"; a pattern for tests, such as K=auction.
ARGS ?=
K ?=
# Keep bytecode: processes start often and should not recompile their modules.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test test-slow test-browser test-engines test-all lint style format docs theory chaos fuzz help clean

run: .venv/run.stamp  ## train three real models with fair, uniform and round-robin allocation; compare and plot
	@$(BIN)/mmfl compare experiments/first_run/first_run.toml --vary allocator.kind=fed_fair,uniform,round_robin \
		--seeds 0-4 --target 0.6

test: style  ## run all checks and tests; K=pattern runs a part of the tests
	@$(call WHILE_MYPY_RUNS,$(PYTEST) $(if $(K),-k '$(K)'))

test-slow: .venv/test.stamp  ## only the slow tests, which `make test` leaves out
	@$(PYTEST) -m slow $(if $(K),-k '$(K)')

test-browser: .venv/browser.stamp  ## reports and the dashboard in a real browser: Chromium, driven by playwright
	@MMFL_AXE=$(CURDIR)/.venv/axe/package/axe.min.js $(PYTEST) -m browser tests/browser $(if $(K),-k '$(K)')

test-engines: .venv/engines.stamp  ## engines beyond one machine: clusters of Ray and federations of Flower
	@$(BIN)/pytest -m engines $(if $(K),-k '$(K)')

pictures: run .venv/browser.stamp  ## take the documentation's pictures of the dashboard
	@MMFL_PICTURES=$(CURDIR)/docs/pictures $(PYTEST) -m browser tests/browser/test_pictures.py

test-all: lint  ## all tests, with more examples of each property
	@$(PYTEST) -m 'not browser and not engines' --hypothesis-profile long $(if $(K),-k '$(K)')

lint: style  ## ruff, import-linter and mypy
	@$(BIN)/mypy

style: .venv/test.stamp  ## ruff and import-linter
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

format: .venv/test.stamp  ## format the code and fix what ruff can fix
	@$(BIN)/ruff format --quiet
	@$(BIN)/ruff check --fix

docs: .venv/docs.stamp  ## build the documentation site into site/
	@$(BIN)/python -m tools.reference
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "wrote site/index.html"

# An experiment is a folder in experiments/: its run.py, or else `mmfl compare` with these options.
OPTIONS_five_tasks = --seeds 0-3 \
	--vary 'allocator=fed_fair,{kind="fed_fair",sampling="stratified",floor=1},uniform,round_robin'
OPTIONS_precision = --seeds 0-2 --vary precision=float32,bf16
OPTIONS_recruited = --seeds 0-4 \
	--vary 'recruitment.mechanism={kind="max_min_fair",budget=6.0},{kind="gmm_fair",budget=6.0},{kind="budget_fair",budget=6.0},{kind="greedy_within_budget",budget=6.0},{kind="random_within_budget",budget=6.0}'

experiment-%: .venv/run.stamp
	@test -d experiments/$* || { echo "make: there is no experiment '$*'; see 'make help'" >&2; exit 2; }
	@$(if $(wildcard experiments/$*/run.py),$(BIN)/python -m experiments.$*.run,$(BIN)/mmfl compare \
		experiments/$*/$*.toml --out runs/$* $(OPTIONS_$*)) $(ARGS)

experiment-first_run: run
	@true

experiment-paper: .venv/run.stamp
	@$(BIN)/mmfl reproduce all --scale small $(ARGS)

experiment-benchmark: .venv/run.stamp
	@$(BIN)/mmfl benchmark $(ARGS)

experiment-equal_bounds: .venv/run.stamp
	@$(BIN)/mmfl compare experiments/first_run/first_run.toml --seeds 0-4 --out runs/equal_bounds/first_run \
		--vary 'allocator=fed_fair,{kind="fed_fair",alpha=8.0},equal_bounds,{kind="equal_bounds",horizon=50},{kind="equal_bounds",learn=false},{kind="equal_bounds",horizon=50,learn=false},uniform,round_robin' $(ARGS)
	@$(BIN)/mmfl compare experiments/equal_bounds/equal_bounds.toml --seeds 0-4 --out runs/equal_bounds/equal_bounds \
		--vary 'allocator=fed_fair,{kind="fed_fair",alpha=8.0},equal_bounds,{kind="equal_bounds",horizon=50},uniform,round_robin' $(ARGS)

# A benchmark is a folder in benchmarks/; its results are written there.
bench-%: .venv/run.stamp
	@test -d benchmarks/$* || { echo "make: there is no benchmark '$*'; see 'make help'" >&2; exit 2; }
	@$(BIN)/python -m benchmarks.$*.run --out benchmarks/$*/results/$*.json $(ARGS)

bench-speed: .venv-bench/stamp

theory: .venv/run.stamp  ## draw the figure of docs/explanation/theory.md (seconds)
	@$(BIN)/python -c "from mmfl.report.figures import save_theorems; save_theorems('docs/pictures/theory.png')"

chaos: fuzz .venv-bench/stamp  ## slow (hours): kills, power cuts, failing calls, odd surroundings, damage, bad replies
	@$(BIN)/python -m chaos.kills coordinator --count 100 --out chaos/results/coordinator.json
	@$(BIN)/python -m chaos.kills workers --count 100 --out chaos/results/workers.json
	@$(BIN)/python -m chaos.damaged_checkpoints --count 1000 --out chaos/results/damaged_checkpoints.json
	@$(BIN)/python -m chaos.power.run --states 2500 --out chaos/results/power.json
	@$(BIN)/python -m chaos.calls.run --each 1 --out chaos/results/calls.json \
		--only run --only "run, from files" --only resume --only comparison
	@$(BIN)/python -m chaos.calls.run --each 1 --few 3 --out chaos/results/calls_processes.json \
		--only "run, with workers" --only "resume, with workers" --only "run in a thread, with workers" \
		--only "comparison, two at a time" --only "in a worker" --only "in a sweeper"
	@$(BIN)/python -m chaos.surroundings --count 400 --out chaos/results/surroundings.json
	@$(BIN)/python -m chaos.run_directories --count 3000 --out chaos/results/run_directories.json
	@.venv-bench/bin/python chaos/peers/flower_faults.py --out chaos/results/flower.json
	@$(BIN)/python -m chaos.clients --out chaos/results/clients.json

fuzz: .venv/run.stamp  ## slow (22 minutes): 10,000 mutated experiments and 1,000 mutated tables of bids
	@$(BIN)/python -m chaos.fuzz configs --count 10000 --out chaos/results/configs.json
	@$(BIN)/python -m chaos.fuzz bids --count 1000 --out chaos/results/bids.json

help:  ## list all targets
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/\1\t\2/p' Makefile | while IFS='	' read -r name text; do \
		printf '%-28s %s\n' "$$name" "$$text"; done
	@for kind in experiment bench; do for page in $$kind*/*/README.md; do \
		folder=$$(dirname "$$page"); \
		printf '%-28s %s\n' "$$kind-$$(basename "$$folder")" "$$(sed -n '1s/^# *//p' "$$page")"; done; done

.venv/run.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) -e '.[dashboard,report]'
	@touch $@

.venv/test.stamp: .venv/run.stamp
	$(PIP) -e '.[dashboard,dev,examples,flower,report]'
	@touch $@

# Chromium from Debian's packages where that is allowed, else one of playwright's own. axe-core (MPL)
# is only for the tests, so it is not part of the repository.
.venv/browser.stamp: .venv/test.stamp
	$(PIP) -e '.[browser]'
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && apt-get update -q && apt-get install -y -q chromium; } \
		|| $(BIN)/playwright install chromium
	@mkdir -p .venv/axe && cd .venv/axe && tar -xzf "$$(npm pack --silent axe-core@4.14.1)"
	@touch $@

.venv/engines.stamp: .venv/test.stamp
	$(PIP) -e '.[flower,ray]'
	@touch $@

.venv/docs.stamp: .venv/run.stamp
	$(PIP) -e '.[docs,report]'
	@touch $@

.venv-bench/stamp: benchmarks/speed/peers/requirements.txt constraints.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-r benchmarks/speed/peers/requirements.txt
	@touch $@

clean:  ## remove environments, runs and caches
	rm -rf .venv .venv-bench runs site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
