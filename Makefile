# Two commands on a fresh machine with Python 3.11 and pip: `make run` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: run test lint format five_tasks manipulability clean

run: .venv/run.stamp  ## train three real models fairly, uniformly and by turns; compare; draw
	@$(BIN)/mmfl compare experiments/first_run.toml --vary allocator.kind=fed_fair,uniform,round_robin \
		--seeds 0-4 --target 0.6

test: lint  ## everything that must be true
	@$(BIN)/pytest -n 2

lint: .venv/test.stamp
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

format: .venv/test.stamp
	@$(BIN)/ruff format --quiet
	@$(BIN)/ruff check --fix

five_tasks: .venv/run.stamp  ## slow: five real models, four allocation rules, four seeds (needs MMFL_DATA)
	@$(BIN)/mmfl compare experiments/five_tasks.toml --seeds 0-3 --out runs/five_tasks \
		--vary 'allocator=fed_fair,{kind="fed_fair",sampling="stratified",floor=1},uniform,round_robin'

manipulability: .venv/run.stamp  ## slow (11 minutes of processor time, 2 processes): who gains by lying under which auction
	@$(BIN)/python scripts/manipulability.py --workers 2

.venv/run.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) -e '.[report]'
	@touch $@

.venv/test.stamp: .venv/run.stamp
	$(PIP) -e '.[dev,examples,flower,report]'
	@touch $@

clean:
	rm -rf .venv runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
