"""What Kineto's categories mean in the event schema: layer, kind and device.

Names refine them: collectives, steps, modules, compilation and torch's own annotations are told by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from unified_profiler.model.schema import Kind, Layer
from unified_profiler_torch.canonical.table import LAYER


class NameClass(IntEnum):
    """What the name of an event tells beyond its category."""

    PLAIN = 0
    COLLECTIVE = 1
    TORCH_ANNOTATION = 2
    STEP = 3
    MODULE = 4
    MEMORY = 5
    COMPILED_GRAPH = 6
    COMPILE = 7
    LAYER = 8


@dataclass(frozen=True)
class Meaning:
    """Layer and kind of an event, and whether it ran on an accelerator."""

    layer: Layer
    kind: Kind
    on_device: bool = False


_RUNTIME = Meaning(Layer.RUNTIME, Kind.RUNTIME)
_OP = Meaning(Layer.FRAMEWORK, Kind.OP)
_COMPILE = Meaning(Layer.FRAMEWORK, Kind.COMPILE)
_REGION = Meaning(Layer.APPLICATION, Kind.REGION)
_ON_DEVICE = Meaning(Layer.RUNTIME, Kind.RUNTIME, on_device=True)
_COPY = Meaning(Layer.RUNTIME, Kind.COPY, on_device=True)

_BY_CATEGORY: dict[str, Meaning] = {
    "": _RUNTIME,
    "cpu_op": _OP,
    "operator": _OP,
    "user_annotation": _REGION,
    "python_function": _RUNTIME,
    "cpu_instant_event": _RUNTIME,
    "cuda_runtime": _RUNTIME,
    "cuda_driver": _RUNTIME,
    "runtime": _RUNTIME,
    "xpu_runtime": _RUNTIME,
    "xpu_driver": _RUNTIME,
    "mtia_runtime": _RUNTIME,
    "glow_runtime": _RUNTIME,
    "privateuse1_runtime": _RUNTIME,
    "privateuse1_driver": _RUNTIME,
    "overhead": _RUNTIME,
    "kernel": Meaning(Layer.RUNTIME, Kind.KERNEL, on_device=True),
    "gpu_memcpy": _COPY,
    "gpu_memset": _COPY,  # it fills memory and computes nothing; its name tells it from a copy
    "memcpy": _COPY,
    "memset": _COPY,
    "gpu_user_annotation": Meaning(Layer.APPLICATION, Kind.REGION, on_device=True),
    "cuda_sync": _ON_DEVICE,
    "mtia_ccp_events": _ON_DEVICE,
    "hpu_op": Meaning(Layer.RUNTIME, Kind.KERNEL, on_device=True),
}

_ACCELERATORS = {"xpu_runtime": "xpu", "mtia_runtime": "mtia", "hpu_op": "hpu", "privateuse1_runtime": "privateuse1"}

CPU = 0
DEVICE_TYPES = {
    CPU: "cpu",
    1: "cuda",
    6: "hip",
    9: "xla",
    12: "xpu",
    13: "mps",
    14: "meta",
    15: "hpu",
    19: "mtia",
    20: "privateuse1",
}
"""Names of the `Device Type` numbers in memory events (c10::DeviceType)."""

_COLLECTIVE = re.compile(
    r"_?c10d(_functional)?::|record_param_comms|(nccl|gloo|mpi|ucc|xccl|hccl):|(nccl|rccl|mscclKernel)\w*[Kk]ernel"
)
_TORCH_ANNOTATION = re.compile(
    r"Optimizer\.(step|zero_grad)#|Torch-Compiled Region|TorchDynamo|enumerate\(DataLoader\)#"
    r"|torch\.utils\.checkpoint\.recompute$|DistributedDataParallel\.|FullyShardedDataParallel\.|FSDP::"
)
_COMPILED_GRAPH = re.compile(r"## Call CompiledFxGraph")
_COMPILE_PHASE = re.compile(r"(?P<phase>.+) \(dynamo_timed\)$")
_COMPILES = frozenset({"dynamo", "entire_frame_compile", "entire_backward_compile", "compiled_autograd"})
"""Phases of torch.compile that enclose phases of other names."""
_STEP = re.compile(r"ProfilerStep#(\d{1,9})$")


def is_known(category: str) -> bool:
    """Say whether this category has a meaning here."""
    return category in _BY_CATEGORY


def compile_phases(names: Iterable[str]) -> frozenset[str]:
    """Return the phases of torch.compile among names: most are recorded twice, with and without `(dynamo_timed)`."""
    found = [match for match in map(_COMPILE_PHASE.match, names) if match]
    return _COMPILES.union(*((match.group(), match["phase"]) for match in found))


def classify_name(name: str, phases: frozenset[str] = frozenset()) -> NameClass:
    """Say what a name tells beyond its category.

    Args:
        name: The name.
        phases: The names of phases of torch.compile.
    """
    if name in phases:
        return NameClass.COMPILE
    if name == "[memory]":
        return NameClass.MEMORY
    if _STEP.match(name):
        return NameClass.STEP
    if name.startswith(LAYER):
        return NameClass.LAYER
    if name.startswith("nn.Module: "):
        return NameClass.MODULE
    if _COLLECTIVE.match(name):
        return NameClass.COLLECTIVE
    if _COMPILED_GRAPH.match(name):
        return NameClass.COMPILED_GRAPH
    return NameClass.TORCH_ANNOTATION if _TORCH_ANNOTATION.match(name) else NameClass.PLAIN


def meaning(phase: str, category: str, name_class: NameClass) -> Meaning:
    """Return what an event of that category is; unknown ones are runtime events.

    Annotations are regions: those of the user of the application layer, torch's own (optimizer steps, data loader) of
    the framework layer. A compiled graph is an operator, since it does the work of many.
    """
    plain = _BY_CATEGORY.get(category, _RUNTIME)
    if name_class is NameClass.MEMORY and phase == "i":
        return Meaning(Layer.RUNTIME, Kind.MEMORY)
    if name_class is NameClass.COLLECTIVE and (plain.kind in {Kind.OP, Kind.KERNEL} or plain == _REGION):
        layer = plain.layer if plain.on_device else Layer.FRAMEWORK
        return Meaning(layer, Kind.COLLECTIVE, on_device=plain.on_device)
    if plain == _REGION and name_class is NameClass.STEP:
        return Meaning(Layer.APPLICATION, Kind.STEP)
    if plain == _REGION and name_class is NameClass.LAYER:
        return Meaning(Layer.FRAMEWORK, Kind.MODULE)
    if plain == _REGION and name_class is NameClass.TORCH_ANNOTATION:
        return Meaning(Layer.FRAMEWORK, Kind.REGION)
    if plain == _REGION and name_class is NameClass.COMPILED_GRAPH:
        return _OP
    if plain == _OP and name_class is NameClass.COMPILE:
        return _COMPILE
    if category == "python_function" and name_class is NameClass.MODULE:
        return Meaning(Layer.APPLICATION, Kind.MODULE)
    return plain


def step_number(name: str) -> int | None:
    """Return the number in `ProfilerStep#N`, or None for any other name."""
    found = _STEP.match(name)
    return int(found.group(1)) if found else None


def accelerator(categories: set[str]) -> str:
    """Return torch's name of the kind of device, told from the categories of a trace; ROCm calls itself cuda, too."""
    return next((name for category, name in _ACCELERATORS.items() if category in categories), "cuda")
