"""Ray next to the local engine on one machine, and sums of chunks next to single updates.

    make bench-ray

Both engines run one after the other in every repeat, each in its own process, on the workloads A
and B of `benchmarks/speed`. The sums are those of a round of many short turns.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from benchmarks.harness import arguments, machine, module, run_json, save, spread
from benchmarks.speed.run import rate
from mmfl import Experiment
from mmfl.aggregate import partial_sums
from mmfl.engines import WorkersEngine
from mmfl.exchange import ClientFailure, ClientUpdate, Job, Params
from mmfl.experiment import Engine
from mmfl.loop import set_up

Found = dict[str, Any]
ROUNDS = {"A": 4, "B": 100}


def measure_speed(workload: str, repeats: int) -> Found:
    """Both engines on a workload."""
    rates: dict[str, list[float]] = {"local": [], "ray": []}
    for repeat in range(repeats):
        for engine in sorted(rates, reverse=bool(repeat % 2)):
            options = ("--engine", engine, "--rounds", str(ROUNDS[workload]))
            rates[engine].append(
                rate(run_json(module("benchmarks.speed.ours", workload, *options)))
            )
            print(f"{workload} {repeat + 1}: {engine} {rates[engine][-1]:,.0f} /s", flush=True)
    ratios = [ray / local for ray, local in zip(rates["ray"], rates["local"], strict=True)]
    return {name: spread(found) for name, found in rates.items()} | {"ray / local": spread(ratios)}


def make_experiment(hidden: int, clients: int) -> Experiment:
    """Many clients with short turns at a large model."""
    return Experiment.from_dict(
        {
            "rounds": 1,
            "clients": {"count": clients},
            "local": {"steps": 1, "batch_size": 8, "momentum": 0.0},
            "allocator": "uniform",
            "engine": {"kind": "ray", "workers": 2},
            "tasks": [
                {
                    "name": "large",
                    "dataset": {"kind": "synthetic", "shape": [784], "train": 20 * clients},
                    "model": {"kind": "mlp", "hidden": [hidden]},
                }
            ],
        }
    )


def first_jobs(engine: Engine, experiment: Experiment) -> tuple[list[Job], dict[str, Params]]:
    """All jobs of round one, and the weights before it."""
    with set_up(experiment, engine=engine) as ready:
        state, active = ready.first_state(), ready.population.active(1)
        view, assignments, _ = ready.allocation.allocate(1, active, state)
        return ready.allocation.make_jobs(view, assignments, state), dict(state.params)


def measure_sums(repeats: int, clients: int = 200) -> list[Found]:
    """What reaches the coordinator, and how long it takes, for models of several sizes."""
    table = []
    for hidden in (64, 1000, 10_000):
        todo = make_experiment(hidden, clients)
        with closing(todo.engine.open(todo, data_dir=None)) as engine:
            assert isinstance(engine, WorkersEngine)
            jobs, params = first_jobs(engine, todo)
            seconds: dict[str, list[float]] = {"sums": [], "updates": []}
            bytes_: dict[str, int] = {}
            for repeat in range(-1, repeats):
                for name in sorted(seconds, reverse=bool(repeat % 2)):
                    # A new object, so that weights are put in as in every round.
                    now = {task: replace_weights(weights) for task, weights in params.items()}
                    spent, bytes_[name] = measure_round(engine, jobs, now, merge=name == "sums")
                    seconds[name] += [spent] if repeat >= 0 else []
        ratios = [a / b for a, b in zip(seconds["updates"], seconds["sums"], strict=True)]
        found = {"weights": params["large"].layout.size, "clients": clients, "bytes": bytes_}
        found["seconds"] = {name: spread(some) for name, some in seconds.items()}
        found["sums are faster by"] = spread(ratios)
        print(found, flush=True)
        table.append(found)
    return table


def replace_weights(weights: Params) -> Params:
    """The same weights, elsewhere."""
    return Params(weights.layout, weights.flat.copy())


def measure_round(
    engine: WorkersEngine, jobs: list[Job], params: dict[str, Params], *, merge: bool
) -> tuple[float, int]:
    """Seconds from the jobs to their sum, and the bytes of all results."""
    arrived = 0

    def count(result: ClientUpdate | ClientFailure) -> ClientUpdate | ClientFailure:
        nonlocal arrived
        assert isinstance(result, ClientUpdate)
        arrived += 0 if result.delta is None else 4 * sum(a.size for a in result.delta.values())
        arrived += 0 if result.partial is None else result.partial.total.nbytes
        return result

    start = time.perf_counter()
    for part in partial_sums(map(count, engine.train(jobs, params, merge=merge))):
        part.release()
    return time.perf_counter() - start, arrived


def main() -> None:
    parser = arguments(__doc__, repeats=5)
    parser.add_argument("--only", default="ABS", help="A and B: workloads; S: sums")
    given = parser.parse_args()
    found: Found = {}
    if "S" in given.only:
        found["sums"] = measure_sums(given.repeats)
    for workload in sorted(set(given.only) & set(ROUNDS)):
        found[workload] = measure_speed(workload, given.repeats)
        print(found[workload], flush=True)
    save(machine("make bench-ray", "mmfl", "torch", "numpy", "ray") | found, given.out)


if __name__ == "__main__":
    main()
