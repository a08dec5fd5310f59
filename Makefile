# Two commands on a fresh machine with Python 3.11 and pip: `make run` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: run test lint format five_tasks precision recruited dropouts attacks theory exp5 manipulability auctions_exact bench bench_auctions bench_compile bench_scale bench_checkpoints bench_sweeps chaos fuzz clean equal_bounds plan_error laboratory

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

precision: .venv/run.stamp  ## slow: is bf16 as good as float32? two models, three seeds (needs MMFL_DATA)
	@$(BIN)/mmfl compare experiments/precision.toml --vary precision=float32,bf16 --seeds 0-2 --out runs/precision

recruited: .venv/run.stamp  ## slow: five auctions recruit clients for three embedded models, five seeds
	@$(BIN)/mmfl compare experiments/recruited.toml --seeds 0-4 --out runs/recruited \
		--vary 'recruitment.mechanism={kind="max_min_fair",budget=6.0},{kind="gmm_fair",budget=6.0},{kind="budget_fair",budget=6.0},{kind="greedy_within_budget",budget=6.0},{kind="random_within_budget",budget=6.0}'

dropouts: .venv/run.stamp  ## slow: dropouts and stragglers, three allocation rules, five seeds
	@$(BIN)/python scripts/faults.py dropouts

attacks: .venv/run.stamp  ## slow: an attack on one of three models, five aggregators, five seeds
	@$(BIN)/python scripts/faults.py attacks

theory: .venv/run.stamp  ## the picture of docs/theory.md (seconds)
	@$(BIN)/python -c "from mmfl.report.figures import save_theorems; save_theorems('docs/theory.png')"

equal_bounds: .venv/run.stamp  ## slow: convergence bounds made equal, two settings, up to eight rules (needs MMFL_DATA)
	@$(BIN)/mmfl compare experiments/first_run.toml --seeds 0-4 --out runs/equal_bounds/first_run \
		--vary 'allocator=fed_fair,{kind="fed_fair",alpha=8.0},equal_bounds,{kind="equal_bounds",horizon=50},{kind="equal_bounds",learn=false},{kind="equal_bounds",horizon=50,learn=false},uniform,round_robin'
	@$(BIN)/mmfl compare experiments/equal_bounds.toml --seeds 0-4 --out runs/equal_bounds/equal_bounds \
		--vary 'allocator=fed_fair,{kind="fed_fair",alpha=8.0},equal_bounds,{kind="equal_bounds",horizon=50},uniform,round_robin'

plan_error: .venv/run.stamp  ## slow (20 minutes): plans beside runs that were really trained, and how wrong they were
	@$(BIN)/python scripts/plan_error.py

bench: .venv/run.stamp .venv-bench/stamp  ## slow (45 minutes, idle cores): us, Flower, pfl and bare loops side by side
	@$(BIN)/python benchmarks/speed.py --peers .venv-bench/bin/python --out benchmarks/results/speed.json

bench_auctions: .venv/run.stamp  ## a million clients, ten tasks: auctions against a sort of the same table
	@$(BIN)/python benchmarks/auctions.py --out benchmarks/results/auctions.json

bench_checkpoints: .venv/run.stamp  ## what a checkpoint costs: beside a bare write, and as a share of training
	@$(BIN)/python benchmarks/checkpoints.py --out benchmarks/results/checkpoints.json

bench_compile: .venv/run.stamp  ## does torch.compile pay? (two minutes, idle cores, a C++ compiler)
	@$(BIN)/python benchmarks/compiled.py --out benchmarks/results/compiled.json

bench_scale: .venv/run.stamp  ## a million clients against ten thousand, a thousand active: time and memory of a round
	@$(BIN)/python benchmarks/scale.py --out benchmarks/results/scale.json

bench_sweeps: .venv/run.stamp  ## several runs at once against one at a time (six minutes, idle cores)
	@$(BIN)/python benchmarks/sweeps.py --out benchmarks/results/sweeps.json

chaos: fuzz .venv-bench/stamp  ## slow: kills, power cuts, failing calls, mutilated checkpoints, spoilt run directories, mutated inputs, bad replies beside Flower
	@$(BIN)/python chaos/kills.py coordinator --count 100 --out chaos/results/coordinator.json
	@$(BIN)/python chaos/kills.py workers --count 100 --out chaos/results/workers.json
	@$(BIN)/python chaos/mutilations.py --count 1000 --out chaos/results/mutilations.json
	@$(BIN)/python chaos/power/run.py --states 10000 --out chaos/results/power.json
	@$(BIN)/python chaos/calls/run.py --each 1 --out chaos/results/calls.json
	@$(BIN)/python chaos/run_directories.py --count 3000 --out chaos/results/run_directories.json
	@.venv-bench/bin/python chaos/peers/flower_faults.py --out chaos/results/flower.json
	@$(BIN)/python chaos/clients.py --out chaos/results/clients.json

fuzz: .venv/run.stamp  ## slow (12 minutes): 10,000 mutated experiments and 1,000 mutated tables of bids
	@$(BIN)/python chaos/fuzz.py configs --count 10000 --out chaos/results/configs.json
	@$(BIN)/python chaos/fuzz.py bids --count 1000 --out chaos/results/bids.json

auctions_exact: .venv/test.stamp  ## slow: 40,000 auctions against Algorithm 3 in exact rationals
	@PYTHONPATH=tests $(BIN)/python tests/market/auctions_exact.py

exp5: .venv/run.stamp  ## the auctions of the paper's Experiment 5: figures, tables, which claims hold
	@set -e; for market in mu05 mu02; do for seeds in 5 20; do \
		$(BIN)/mmfl auction compare experiments/paper/exp5-$$market.toml --budget 1-60 --threshold 0.4,0.6 \
			--seeds 0-$$((seeds - 1)) --out runs/exp5/$$market-$$seeds.json --force \
			--figure experiments/results/exp5/$$market-$$seeds.png; done; done
	@$(BIN)/python scripts/exp5.py runs/exp5

manipulability: .venv/run.stamp  ## slow (11 minutes of processor time, 2 processes): who gains by lying under which auction
	@$(BIN)/python scripts/manipulability.py --workers 2

laboratory: .venv/run.stamp  ## slow (20 minutes, 2 processes): the convergence bounds beside measured errors
	@$(BIN)/python scripts/laboratory.py --workers 2

.venv/run.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) -e '.[report]'
	@touch $@

.venv/test.stamp: .venv/run.stamp
	$(PIP) -e '.[dev,examples,flower,report]'
	@touch $@

.venv-bench/stamp: benchmarks/peers/requirements.txt constraints.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-r benchmarks/peers/requirements.txt
	@touch $@

clean:
	rm -rf .venv .venv-bench runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
