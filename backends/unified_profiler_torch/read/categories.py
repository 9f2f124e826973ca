"""Maps Kineto's categories to layer, kind and device of the event schema.

Collectives, steps, modules, compilation and torch's own annotations are recognized by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from unified_profiler.model.schema import Kind, Layer
from unified_profiler_torch.canonical.table import LAYER


class NameClass(IntEnum):
    """Class of an event by its name, which refines its category."""

    PLAIN = 0
    COLLECTIVE = 1
    TORCH_ANNOTATION = 2
    STEP = 3
    MODULE = 4
    MEMORY = 5
    COMPILED_GRAPH = 6
    COMPILE = 7
    LAYER = 8
    MTIA_COPY = 9
    MTIA_SYNCHRONIZATION = 10


@dataclass(frozen=True)
class EventClass:
    """Layer and kind of an event, and whether it ran on an accelerator."""

    layer: Layer
    kind: Kind
    on_device: bool = False


_RUNTIME = EventClass(Layer.RUNTIME, Kind.RUNTIME)
_KERNEL = EventClass(Layer.RUNTIME, Kind.KERNEL, on_device=True)
_COPY = EventClass(Layer.RUNTIME, Kind.COPY, on_device=True)
_SYNCHRONIZATION = EventClass(Layer.RUNTIME, Kind.RUNTIME, on_device=True)
_OP = EventClass(Layer.FRAMEWORK, Kind.OP)
_REGION = EventClass(Layer.APPLICATION, Kind.REGION)

_BY_CATEGORY: dict[str, EventClass] = {
    **dict.fromkeys(("", "overhead", "python_function", "cpu_instant_event", "runtime", "glow_runtime"), _RUNTIME),
    **dict.fromkeys(("cuda_runtime", "xpu_runtime", "mtia_runtime", "privateuse1_runtime"), _RUNTIME),
    **dict.fromkeys(("cuda_driver", "xpu_driver", "privateuse1_driver"), _RUNTIME),
    **dict.fromkeys(("cpu_op", "operator"), _OP),
    **dict.fromkeys(("kernel", "hpu_op", "mtia_ccp_events"), _KERNEL),
    # a memset computes nothing; its name distinguishes it from a copy
    **dict.fromkeys(("gpu_memcpy", "gpu_memset", "memcpy", "memset"), _COPY),
    "cuda_sync": _SYNCHRONIZATION,
    "user_annotation": _REGION,
    # the span of the work that an annotation launched; the user's region is the annotation on the host
    "gpu_user_annotation": EventClass(Layer.RUNTIME, Kind.REGION, on_device=True),
}

_MTIA = {NameClass.MTIA_COPY: _COPY, NameClass.MTIA_SYNCHRONIZATION: _SYNCHRONIZATION}
"""What is not a kernel among the events of MTIA, which all have one category."""

_ANNOTATIONS = {
    NameClass.STEP: EventClass(Layer.APPLICATION, Kind.STEP),
    NameClass.LAYER: EventClass(Layer.FRAMEWORK, Kind.MODULE),
    NameClass.TORCH_ANNOTATION: EventClass(Layer.FRAMEWORK, Kind.REGION),
    NameClass.COMPILED_GRAPH: _OP,
}

_ACCELERATORS = {"xpu_runtime": "xpu", "mtia_runtime": "mtia", "hpu_op": "hpu", "privateuse1_runtime": "privateuse1"}

CPU, HIP = 0, 6
DEVICE_TYPES = {
    CPU: "cpu",
    1: "cuda",
    HIP: "hip",
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
_COMPILE_PHASE = re.compile(r"(?P<phase>.+) \(dynamo_timed\)$")
_ENCLOSING_PHASES = frozenset({"dynamo", "entire_frame_compile", "entire_backward_compile", "compiled_autograd"})
"""Phases of torch.compile that enclose phases of other names."""
_STEP = re.compile(r"ProfilerStep#(\d{1,9})$")

_NAME_PATTERNS = {
    NameClass.MEMORY: re.compile(r"\[memory\]\Z"),
    NameClass.STEP: _STEP,
    NameClass.LAYER: re.compile(re.escape(LAYER)),
    NameClass.MODULE: re.compile(r"nn\.Module: "),
    NameClass.COLLECTIVE: _COLLECTIVE,
    NameClass.COMPILED_GRAPH: re.compile(r"## Call CompiledFxGraph"),
    NameClass.TORCH_ANNOTATION: _TORCH_ANNOTATION,
    NameClass.MTIA_COPY: re.compile(r"dma_request\Z"),
    NameClass.MTIA_SYNCHRONIZATION: re.compile(r"event_(record|wait)\Z"),
}
"""The first pattern that matches decides."""


def is_known(category: str) -> bool:
    """Return whether the event schema has a class for this category; old versions of Kineto capitalize them."""
    return category.lower() in _BY_CATEGORY


def compile_phases(names: Iterable[str]) -> frozenset[str]:
    """Return the phases of torch.compile among names: most are recorded twice, with and without `(dynamo_timed)`."""
    matches = filter(None, map(_COMPILE_PHASE.match, names))
    return _ENCLOSING_PHASES.union(*((match.group(), match["phase"]) for match in matches))


def classify_name(name: str, phases: frozenset[str] = frozenset()) -> NameClass:
    """Return the class of a name.

    Args:
        name: The name.
        phases: The names of phases of torch.compile.
    """
    if name in phases:
        return NameClass.COMPILE
    return next((name_class for name_class, pattern in _NAME_PATTERNS.items() if pattern.match(name)), NameClass.PLAIN)


def classify_event(phase: str, category: str, name_class: NameClass) -> EventClass:
    """Return the class of an event; one of an unknown category is a runtime event.

    Annotations are regions: the user's in the application layer, torch's own (optimizer steps, data loader) in the
    framework layer. Their counterparts on a device are regions of the runtime layer. A compiled graph is an operator,
    since it does the work of many.
    """
    by_category = _BY_CATEGORY.get(category.lower(), _RUNTIME)
    if category == "mtia_ccp_events":
        return _MTIA.get(name_class, by_category)
    if name_class is NameClass.MEMORY and phase == "i":
        return EventClass(Layer.RUNTIME, Kind.MEMORY)
    if name_class is NameClass.COLLECTIVE and (by_category.kind in {Kind.OP, Kind.KERNEL} or by_category == _REGION):
        layer = by_category.layer if by_category.on_device else Layer.FRAMEWORK
        return EventClass(layer, Kind.COLLECTIVE, on_device=by_category.on_device)
    if by_category == _REGION:
        return _ANNOTATIONS.get(name_class, _REGION)
    if by_category == _OP and name_class is NameClass.COMPILE:
        return EventClass(Layer.FRAMEWORK, Kind.COMPILE)
    if category == "python_function" and name_class is NameClass.MODULE:
        return EventClass(Layer.APPLICATION, Kind.MODULE)
    return by_category


def step_number(name: str) -> int | None:
    """Return the number in `ProfilerStep#N`, or None for any other name."""
    match = _STEP.match(name)
    return int(match.group(1)) if match else None


def accelerator(categories: set[str]) -> str:
    """Return torch's name of the accelerator that recorded these categories; ROCm, too, is called cuda."""
    return next((name for category, name in _ACCELERATORS.items() if category in categories), "cuda")
