"""Lists the methods of TensorFlow's and Keras's classes whose calls are traced, with their public names.

Methods are named after the public class that has them, including those of private classes behind it: an eager tensor's
methods are those of `tf.Tensor`. Methods that Keras's losses, metrics, optimizers and the like share are named after
the class of the object.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from unified_profiler.model.api_names import public_names
from unified_profiler_tensorflow.api.functions import PACKAGES, defining_module, is_generator, public_callables, unwrap

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
_is_traced_class = re.compile("|".join(fnmatch.translate(pattern) for pattern in _CLASSES.split())).match

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
"""Methods that describe or configure rather than compute."""
_OPERATOR_METHODS, _NO_WORK_METHODS = frozenset(_OPERATORS.split()), frozenset(_NO_WORK.split())
_EAGER_ONLY = frozenset({"numpy"})
"""Methods that public classes lack, because not all of their tensors have them."""

_KERAS = ("keras", "tf_keras")

_SHARED_METHODS = {
    "Loss": ("__call__",),
    "Metric": ("__call__", "update_state", "result", "reset_state"),
    "Optimizer": ("apply_gradients", "apply", "minimize"),
    "Initializer": ("__call__",),
    "Regularizer": ("__call__",),
    "Constraint": ("__call__",),
    "LearningRateSchedule": ("__call__",),
}
"""Keras base classes, and the methods that their subclasses share."""

_LAYER_METHODS = {
    "Layer": ("get_weights", "set_weights", "stateless_call", "quantize"),
    "Model": (
        *("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"),
        *("train_step", "test_step", "predict_step", "compute_loss", "compute_metrics"),
        *("compile", "export", "load_weights", "quantize", "save", "save_weights"),
    ),
}
"""Methods of Keras layers and models, other than `__call__` and `build`, which every class defines itself."""

_TRACED_CONSTRUCTORS = frozenset({"tf.Variable"})
"""Classes whose objects are created by operators: creating one is recorded as a call of the class."""

_OUR_PACKAGE = "unified_profiler."
"""Prefix of the module of methods that another active tracer has already replaced."""

_OTHER_NAMES = {"tf.types.experimental.PolymorphicFunction": "tf.function"}


@dataclass(frozen=True)
class Method:
    """A method and its public name."""

    owner: type
    attribute: str
    name: str
    function: FunctionType | None
    """None if it has to be replaced in its class, because the function is also public under another name."""


def class_name(kind: type, among: tuple[type, ...] = (object,)) -> str | None:
    """Return the public name of a class or of its nearest public base class that is a subclass of `among`."""
    parents = (parent for parent in kind.__mro__ if _package(parent) in PACKAGES and issubclass(parent, among))
    names = (public_names(_package(parent)).of(parent) for parent in parents)
    return next((name for name in names if name is not None), None)


def methods(functions: Collection[FunctionType]) -> Iterator[Method]:
    """Yield the methods of classes, each once; some operators are also public functions."""
    seen: set[Any] = set()
    for owner, attribute, member, name in _members():
        function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        if not isinstance(function, FunctionType) or is_generator(function):
            continue
        function = unwrap(function)
        is_public = function in functions or defining_module(function).startswith(_OUR_PACKAGE)
        key = (owner, attribute) if is_public else function
        if key not in seen and (not is_public or attribute in _OPERATOR_METHODS):
            seen.add(key)
            yield Method(owner, attribute, name, None if is_public else function)


def shared_methods() -> Iterator[tuple[FunctionType, str]]:
    """Yield the methods whose calls are named after the class of their object, with their attribute names."""
    members = {
        vars(owner)[attribute]: attribute for _, kind in _public_classes() for owner, attribute in _definitions(kind)
    }
    for member, attribute in members.items():
        if isinstance(member, FunctionType):
            yield unwrap(member), attribute


def shared_method_names() -> Iterator[str]:
    """Yield the names that calls of shared methods can have."""
    for name, kind in _public_classes():
        yield from sorted({method_name(name, attribute) for _, attribute in _definitions(kind)})


def method_name(owner: str, attribute: str) -> str:
    """Return the public name of a method; a call of an object is named after its class."""
    owner = _OTHER_NAMES.get(owner, owner)
    return owner if attribute == "__call__" else f"{owner}.{attribute}"


def _definitions(kind: type) -> Iterator[tuple[type, str]]:
    """Yield where the shared methods of a class are defined, except in `Layer`, the base of tf_keras metrics."""
    parents = [parent for parent in kind.__mro__ if _package(parent) in _KERAS and parent.__name__ != "Layer"]
    for attribute in (attribute for parent in parents for attribute in _SHARED_METHODS.get(parent.__name__, ())):
        yield from ((parent, attribute) for parent in parents if attribute in vars(parent))


def _members() -> Iterator[tuple[type, str, Any, str]]:
    """Yield the class, attribute name, value and public name of all class members that may be traced methods."""
    classes = _public_classes()
    public = {kind for _, kind in classes}
    for name, kind in classes:
        attributes = _traced_attributes(kind) if _is_traced_class(name) else frozenset()
        for owner in (kind, *_private_relatives(kind, public)) if attributes else ():
            for attribute, member in vars(owner).items():
                if attribute in attributes:
                    yield owner, attribute, member, method_name(name, attribute)
        if name in _TRACED_CONSTRUCTORS:
            yield type(kind), "__call__", vars(type(kind))["__call__"], name
        for attribute in _layer_attributes(name, kind):
            owner = next(parent for parent in kind.__mro__ if attribute in vars(parent))
            yield owner, attribute, vars(owner)[attribute], method_name(name, attribute)


def _traced_attributes(kind: type) -> frozenset[str]:
    public = {attribute for attribute in dir(kind) if not attribute.startswith("_")}
    return _OPERATOR_METHODS | _EAGER_ONLY | public - _NO_WORK_METHODS


def _layer_attributes(name: str, kind: type) -> tuple[str, ...]:
    if name.partition(".")[0] not in _KERAS:
        return ()
    build = ("build",) if "build" in vars(kind) else ()
    attributes = _LAYER_METHODS.get(name.rpartition(".")[2], ())
    return (*build, *(attribute for attribute in attributes if hasattr(kind, attribute)))


def _private_relatives(kind: type, public: Collection[type]) -> Iterator[type]:
    """Yield the private base classes and subclasses of a public class."""
    for parent in kind.__mro__:
        if parent not in public and _package(parent) in PACKAGES:
            yield parent
    children: list[type] = kind.__subclasses__()
    for child in children:
        if child not in public and _package(child) in PACKAGES:
            yield child
            yield from _private_relatives(child, public)


def _public_classes() -> list[tuple[str, type]]:
    """Return all public classes with their names; base classes come before their subclasses."""
    classes = [(name, value) for name, value in public_callables() if isinstance(value, type)]
    return sorted(classes, key=lambda pair: len(pair[1].__mro__))


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]
