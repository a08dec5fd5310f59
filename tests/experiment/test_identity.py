"""Is it the same experiment?"""

from __future__ import annotations

from mmfl.experiment import differences


def test_differences_are_by_key_and_by_task_name():
    was = {"a": 1, "t": [{"name": "x", "k": 1}, {"name": "y"}], "l": [1, 2], "gone": {"z": 0}}
    now = {"a": 1, "t": [{"name": "y"}, {"name": "x", "k": 2}], "l": [1, 3], "new": True}
    assert differences(was, now) == {
        "t.x.k": (1, 2),
        "l": ([1, 2], [1, 3]),
        "gone.z": (0, None),
        "new": (None, True),
    }
    assert differences(was, was) == {}


def test_the_engine_and_checkpoints_make_no_difference():
    was = {"seed": 0, "engine": {"kind": "local"}, "checkpoints": {"keep": 2}}
    assert differences(was, {"seed": 0, "engine": {"kind": "inline"}}) == {}


def test_the_order_of_tasks_makes_a_difference():
    one, other = {"name": "x", "k": 1}, {"name": "y"}
    was, now = {"tasks": [one, other]}, {"tasks": [other, one]}
    assert differences(was, now) == {"order of tasks": (["x", "y"], ["y", "x"])}


def test_nan_is_no_difference():
    one, other = ({"allocator": {"x": [float("nan")], "y": float("nan")}} for _ in range(2))
    assert differences(one, other) == {}
    assert differences(one, {"allocator": {"x": [1.0], "y": float("nan")}}).keys() == {
        "allocator.x"
    }
