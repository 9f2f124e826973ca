from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

from unified_profiler.recording.api.module_paths import ModulePaths, Running, leave


class Part:
    def __init__(self, **parts: Part) -> None:
        self.parts = parts


class Model(Part):
    pass


def below(module: Part, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, part in module.parts.items():
        yield f"{prefix}{name}", part
        yield from below(part, f"{prefix}{name}.")


def enter(paths: ModulePaths, running: Running, *modules: Part) -> list[str]:
    found = [paths.enter(running, module) for module in modules]
    running.clear()
    return found


def test_a_module_goes_by_its_path_in_the_outermost_one() -> None:
    leaf = Part()
    layer = Part(leaf=leaf)
    model = Model(encoder=layer)
    assert enter(ModulePaths(below), [], model, layer, leaf) == ["Model", "encoder", "encoder.leaf"]


def test_a_module_that_was_added_later_is_found() -> None:
    paths, model, late = ModulePaths(below), Model(first=Part()), Part()
    enter(paths, [], model, model.parts["first"])
    model.parts["late"] = late
    assert enter(paths, [], model, late) == ["Model", "late"]


def test_a_module_that_belongs_to_no_part_of_the_model_goes_by_its_caller() -> None:
    model = Model(a=Part())
    assert enter(ModulePaths(below), [], model, model.parts["a"], Part()) == ["Model", "a", "a.Part"]


def test_two_models_are_told_apart_and_one_that_is_gone_makes_room() -> None:
    paths, first, second = ModulePaths(below), Model(a=Part()), Model(a=Part())
    assert enter(paths, [], first, first.parts["a"]) == ["Model", "a"]
    assert enter(paths, [], second, second.parts["a"]) == ["Model_2", "Model_2.a"]
    assert enter(paths, [], first, first.parts["a"]) == ["Model", "a"]
    del first
    gc.collect()
    third = Model(a=Part())
    assert enter(paths, [], third, third.parts["a"]) == ["Model", "a"]


def test_leaving_a_module_leaves_what_was_begun_in_it() -> None:
    paths, running, leaf = ModulePaths(below), list[Any](), Part()
    model = Model(a=leaf)
    for module in (model, leaf):
        paths.enter(running, module)
    leave(running, Part())
    assert len(running) == 2
    leave(running, model)
    assert running == []


def test_a_part_of_a_model_that_runs_alone_goes_by_its_path_and_so_does_what_is_in_it() -> None:
    leaf = Part()
    layer = Part(leaf=leaf)
    paths, model = ModulePaths(below), Model(encoder=layer)
    enter(paths, [], model, layer, leaf)
    assert enter(paths, [], layer, leaf) == ["encoder", "encoder.leaf"]
    assert enter(paths, [], model) == ["Model"]


def test_a_module_that_ran_alone_first_keeps_its_name() -> None:
    layer = Part()
    paths, model = ModulePaths(below), Model(encoder=layer)
    assert enter(paths, [], layer) == ["Part"]
    enter(paths, [], model, layer)
    assert enter(paths, [], layer) == ["Part"]
