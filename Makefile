# Two commands on a fresh machine with Python 3.11 and pip: `make run` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: run test lint format clean

run: .venv/run.stamp  ## train three models fairly, then uniformly, on generated data
	@$(BIN)/mmfl run experiments/three_tasks.toml
	@$(BIN)/mmfl run experiments/three_tasks.toml --set allocator.kind=uniform --quiet --json \
		| $(BIN)/python -c 'import json, sys; r = json.load(sys.stdin); \
		print("\nfor comparison, uniform allocation: worst {worst:.4f}, mean {mean:.4f}, stored in {run_dir}".format(**r))'

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

.venv/run.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) -e .
	@touch $@

.venv/test.stamp: .venv/run.stamp
	$(PIP) -e '.[dev,examples,flower,report]'
	@touch $@

clean:
	rm -rf .venv runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
