"""Lists the public functions of TensorFlow and Keras whose calls are traced, with their public names."""

from __future__ import annotations

import fnmatch
import inspect
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from unified_profiler.model.api_names import public_names

PACKAGES = ("tensorflow", "keras", "tf_keras")

_NO_WORK = """
    *.enable_*  *.disable_*  *_enabled  *.register_*  *.unregister_*  *.executing_eagerly*

    tf.autograph.*  tf.config.*  tf.distribute.*  tf.dtensor.*  tf.errors.*  tf.feature_column.*  tf.mlir.*  tf.nest.*
    tf.profiler.*  tf.security.*  tf.sysconfig.*  tf.test.*  tf.tools.*  tf.tpu.*  tf.types.*
    tf.function  tf.custom_gradient  tf.recompute_grad  tf.grad_pass_through  tf.nondifferentiable_batch_function
    tf.control_dependencies  tf.device  tf.get_current_name_scope  tf.get_logger  tf.get_static_value
    tf.inside_function  tf.is_tensor  tf.is_symbolic_tensor  tf.load_library  tf.load_op_library  tf.no_gradient
    tf.broadcast_static_shape  tf.type_spec_from_value  tf.dtypes.as_dtype  tf.random.set_*  tf.random.get_*
    tf.debugging.*_placement  tf.data.experimental.get_structure  tf.experimental.dispatch_*  tf.summary.should_*

    tf.compat.as_*  tf.compat.dimension_*  tf.compat.forward_*  tf.compat.path_to_str
    tf.compat.v1.app.*  tf.compat.v1.autograph.*  tf.compat.v1.distribute.*  tf.compat.v1.errors.*
    tf.compat.v1.logging.*  tf.compat.v1.resource_loader.*  tf.compat.v1.test.*  tf.compat.v1.get_default_*
    tf.compat.v1.*_scope  tf.compat.v1.colocate_with  tf.compat.v1.container  tf.compat.v1.device
    tf.compat.v1.make_template  tf.compat.v1.*_collection*  tf.compat.v1.*_seed

    keras.backend.*  *keras.config.*  *keras.distribution.*  *keras.dtype_policies.*  *keras.mixed_precision.*
    *keras.tree.*  *keras.*serialize  *keras.*serialize_keras_object  *keras.*.get
    *keras.*.get_custom_objects  *keras.*.get_registered_*  *keras.*.custom_object_scope
    *keras.device  *keras.remat  *keras.version  *keras.utils.clear_session  *keras.utils.get_source_inputs
    *keras.utils.is_*  *keras.utils.*pack_x_y_sample_weight  *keras.utils.set_random_seed
    *keras.utils.standardize_dtype  keras.ops.custom_gradient  keras.ops.dtype
    keras.ops.is_tensor  keras.ops.ndim  keras.ops.shape
"""
"""Functions that configure, query, describe or test rather than compute, decorate a function, or walk structures."""

_does_no_work = re.compile("|".join(fnmatch.translate(pattern) for pattern in _NO_WORK.split())).match
_WRAPPERS = ("tensorflow.python.ops.weak_tensor_ops", "unified_profiler_tensorflow.")


def functions() -> dict[FunctionType, str]:
    """Return all public functions to trace, with their names.

    Functions that do no work of their own (`_NO_WORK`) or only create a context manager or a generator are left out.
    """
    names: dict[FunctionType, str] = {}
    for name, function in public_callables():
        if isinstance(function, FunctionType) and not _does_no_work(name) and not is_generator(function):
            names.setdefault(unwrap(function), name)
    return names


def public_callables() -> Iterator[tuple[str, Any]]:
    """Yield all public functions and classes, with their names."""
    for package in PACKAGES:
        for name, value in public_names(package).paths.items():
            if not name.startswith(f"{package}.src."):
                yield name, value


def unwrap(function: FunctionType) -> FunctionType:
    """Return the function that all aliases share and that stays the same while calls are traced.

    TensorFlow wraps many functions again if parts of its API, such as `tf.compat.v1.math`, were populated before; and
    this package has wrappers of its own, which come and go.
    """
    while defining_module(function).startswith(_WRAPPERS) and hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def defining_module(function: FunctionType) -> str:
    """Return the module that a function was defined in; `__module__` may have been changed."""
    return str(function.__globals__.get("__name__", ""))


def is_generator(function: FunctionType) -> bool:
    """Return whether calling a function only creates a generator, or a context manager made from one."""
    return inspect.isgeneratorfunction(inspect.unwrap(function))
