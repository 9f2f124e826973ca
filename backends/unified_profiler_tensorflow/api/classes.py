"""The methods of TensorFlow's and Keras's classes that do work, and the names they go by.

Methods go by the public class that has them, those of private classes behind it included: an eager tensor's are those
of `tf.Tensor`. Keras's losses, metrics, optimizers and the like share methods; those go by the class of the object.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from unified_profiler.model.api_names import public_names
from unified_profiler_tensorflow.api.functions import PACKAGES, begins_later, home, innermost, public_things

_CLASSES = """
tf.Tensor  tf.Variable  tf.RaggedTensor  tf.sparse.SparseTensor  tf.TensorArray  tf.CriticalSection
tf.GradientTape  tf.autodiff.ForwardAccumulator
tf.types.experimental.PolymorphicFunction  tf.types.experimental.ConcreteFunction
tf.data.*Dataset  tf.data.*Iterator  tf.compat.v1.data.*Dataset  tf.compat.v1.data.Iterator
tf.random.Generator  tf.*_initializer  tf.lookup.*  tf.queue.*  tf.linalg.LinearOperator*
tf.io.TFRecordWriter  tf.io.gfile.GFile  tf.summary.SummaryWriter
tf.train.Checkpoint  tf.train.CheckpointManager  tf.train.ExponentialMovingAverage
tf.distribute.*Strategy  tf.distribute.ReplicaContext
tf.compat.v1.Session  tf.compat.v1.InteractiveSession  tf.compat.v1.train.*Optimizer  tf.compat.v1.train.Saver
keras.Variable  keras.random.SeedGenerator
"""
_IS_AT_WORK = re.compile("|".join(fnmatch.translate(pattern) for pattern in _CLASSES.split())).match

_OPERATORS = """
    __abs__ __add__ __and__ __array__ __bool__ __call__ __complex__ __div__ __eq__ __float__ __floordiv__ __ge__
    __getitem__ __gt__ __iadd__ __idiv__ __imul__ __index__ __int__ __invert__ __ipow__ __isub__ __iter__ __itruediv__
    __le__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __next__ __or__ __pow__ __radd__ __rand__ __rdiv__
    __rfloordiv__ __rmatmul__ __rmod__ __rmul__ __ror__ __round__ __rpow__ __rsub__ __rtruediv__ __rxor__ __sub__
    __truediv__ __xor__
"""
_NO_WORK = """
    as_default consumers experimental_ref from_config from_proto get_config get_shape is_compatible_with options ref
    scope set_shape to_proto watched_variables with_options
"""
"""Methods that describe or set up rather than compute."""

_IS_OPERATOR, _IS_NO_WORK = frozenset(_OPERATORS.split()), frozenset(_NO_WORK.split())
_ONLY_EAGER = frozenset({"numpy"})
"""What public classes lack, because not all of their tensors have it."""

_KERAS = ("keras", "tf_keras")

_BY_OBJECT = {
    "Loss": ("__call__",),
    "Metric": ("__call__", "update_state", "result", "reset_state"),
    "Optimizer": ("apply_gradients", "apply", "minimize"),
    "Initializer": ("__call__",),
    "Regularizer": ("__call__",),
    "Constraint": ("__call__",),
    "LearningRateSchedule": ("__call__",),
}
"""Of Keras: the class that all of a family have in common, and their methods."""

_LAYERS = {
    "Layer": ("get_weights", "set_weights", "stateless_call", "quantize"),
    "Model": (
        *("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"),
        *("train_step", "test_step", "predict_step", "compute_loss", "compute_metrics"),
        *("compile", "export", "load_weights", "quantize", "save", "save_weights"),
    ),
}
"""Of Keras: methods of layers and models besides their calls, and besides `build`, which every class has its own of."""

_MADE_BY_WORK = frozenset({"tf.Variable"})
"""Classes whose objects are made by operators: making one is a call of the class itself."""

_REPLACED = "unified_profiler."
"""Where a method comes from that is replaced already, because another tracer is at work."""

_OTHER_NAMES = {"tf.types.experimental.PolymorphicFunction": "tf.function"}


@dataclass(frozen=True)
class Method:
    """A method and the name it goes by."""

    owner: type
    attribute: str
    name: str
    function: FunctionType | None
    """None if it has to be replaced in its class: the function is public and goes by a name of its own."""


def class_name(kind: type, among: tuple[type, ...] = (object,)) -> str | None:
    """Return the name of a class, or else of the first public class that it is made from, among those of some kinds."""
    parents = (parent for parent in kind.__mro__ if _package(parent) in PACKAGES and issubclass(parent, among))
    found = (public_names(_package(parent)).of(parent) for parent in parents)
    return next((name for name in found if name is not None), None)


def methods(functions: Collection[FunctionType]) -> Iterator[Method]:
    """Yield the methods of classes, each once; some operators are public functions at the same time."""
    seen: set[Any] = set()
    for owner, attribute, member, name in _members():
        function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        if not isinstance(function, FunctionType) or begins_later(function):
            continue
        function = innermost(function)
        public = function in functions or home(function).startswith(_REPLACED)
        key = (owner, attribute) if public else function
        if key not in seen and (not public or attribute in _IS_OPERATOR):
            seen.add(key)
            yield Method(owner, attribute, name, None if public else function)


def named_by_object() -> Iterator[tuple[FunctionType, str]]:
    """Yield the methods whose calls go by the class of their object, with the attributes that they are."""
    found = {vars(owner)[attribute]: attribute for _, kind in _public_classes() for owner, attribute in _family(kind)}
    for member, attribute in found.items():
        if isinstance(member, FunctionType):
            yield innermost(member), attribute


def names_by_object() -> Iterator[str]:
    """Yield the names that those calls can have."""
    for name, kind in _public_classes():
        yield from sorted({method_name(name, attribute) for _, attribute in _family(kind)})


def method_name(owner: str, attribute: str) -> str:
    """Return the name of a method; to call an object is to call its class's."""
    owner = _OTHER_NAMES.get(owner, owner)
    return owner if attribute == "__call__" else f"{owner}.{attribute}"


def _family(kind: type) -> Iterator[tuple[type, str]]:
    """Yield where a class has the methods of its family; a metric of tf_keras is a layer, too, called as a module."""
    parents = [parent for parent in kind.__mro__ if _package(parent) in _KERAS and parent.__name__ != "Layer"]
    for attribute in (attribute for parent in parents for attribute in _BY_OBJECT.get(parent.__name__, ())):
        yield from ((parent, attribute) for parent in parents if attribute in vars(parent))


def _members() -> Iterator[tuple[type, str, Any, str]]:
    """Yield what classes hold: the class that has it, the attribute, what it is, and its name."""
    classes = _public_classes()
    public = {kind for _, kind in classes}
    for name, kind in classes:
        attributes = _working(kind) if _IS_AT_WORK(name) else frozenset()
        for owner in (kind, *_behind(kind, public)) if attributes else ():
            for attribute, member in vars(owner).items():
                if attribute in attributes:
                    yield owner, attribute, member, method_name(name, attribute)
        if name in _MADE_BY_WORK:
            yield type(kind), "__call__", vars(type(kind))["__call__"], name
        for attribute in _of_layers(name, kind):
            owner = next(parent for parent in kind.__mro__ if attribute in vars(parent))
            yield owner, attribute, vars(owner)[attribute], method_name(name, attribute)


def _working(kind: type) -> frozenset[str]:
    """Return the attributes of a class, and of private classes behind it, that may be methods at work."""
    public = {attribute for attribute in dir(kind) if not attribute.startswith("_")}
    return _IS_OPERATOR | _ONLY_EAGER | public - _IS_NO_WORK


def _of_layers(name: str, kind: type) -> tuple[str, ...]:
    package, _, short = name.partition(".")
    if package not in _KERAS:
        return ()
    build = ("build",) if "build" in vars(kind) else ()
    named = _LAYERS.get(short.rpartition(".")[2], ())
    return (*build, *(attribute for attribute in named if hasattr(kind, attribute)))


def _behind(kind: type, public: Collection[type]) -> Iterator[type]:
    """Yield the private classes that a public one is made of, and those that are made of it."""
    for parent in kind.__mro__:
        if parent not in public and _package(parent) in PACKAGES:
            yield parent
    children: list[type] = kind.__subclasses__()
    for child in children:
        if child not in public and _package(child) in PACKAGES:
            yield child
            yield from _behind(child, public)


def _public_classes() -> list[tuple[str, type]]:
    """Return all public classes with their names; a class comes before those derived from it."""
    classes = [(name, thing) for name, thing in public_things() if isinstance(thing, type)]
    return sorted(classes, key=lambda pair: len(pair[1].__mro__))


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]
