"""Checks that a Spark query only reads its tables, by Spark's own parser and analyzer and without executing it.

Every table, file or service is a leaf of the resolved plan, and every Java or user function an expression in it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from unified_profiler.engine.contract import not_single_select
from unified_profiler.errors import QueryError

_CATALYST = "org.apache.spark.sql.catalyst."
_STATEMENTS = ("plans.logical.Command", "plans.logical.ParsedStatement", "plans.logical.CompoundPlanStatement")
_LITERALS = frozenset({"LocalRelation", "OneRowRelation", "Range", "CTERelationRef", "UnionLoopRef", "EmptyRelation"})
"""Leaves with data from the query itself."""
_FORBIDDEN = frozenset(
    {"CallMethodViaReflection", "TryReflect", "PythonUDF", "PythonUDAF", "PythonUDTF", "ScalaUDF", "ScalaAggregator"}
    | {"UnresolvedPolymorphicPythonUDTF", "InputFileName", "InputFileBlockStart", "InputFileBlockLength"}
    | {"FromProtobuf", "ToProtobuf", "ApplyFunctionExpression", "ScriptTransformation"}
)
"""Expressions that run code or access files."""


def check_query(session: Any, sql: str, names: Collection[str]) -> None:
    """Check the resolved plan of a query before it is executed.

    Args:
        session: The Spark session, in which the tables are views.
        sql: The query.
        names: The tables.

    Raises:
        QueryError: It is not a single SELECT, or accesses anything but the tables.
    """
    state = session._jsparkSession.sessionState()
    parsed = state.sqlParser().parsePlan(sql)
    _check_statement(session, parsed)
    skip = session._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    resolved = state.executePlan(parsed, skip).analyzed()
    _check_statement(session, resolved)
    rejected = ", ".join(sorted(set(_forbidden_nodes(json.loads(resolved.toJSON()), {name.lower() for name in names}))))
    if rejected:
        msg = f"A query may not use {rejected}: it sees the tables {', '.join(names)} and nothing outside them."
        raise QueryError(msg)


def _check_statement(session: Any, plan: Any) -> None:
    """Reject anything but a SELECT; EXECUTE IMMEDIATE would be executed by the analyzer."""
    from py4j.java_gateway import is_instance_of

    gateway, name = session.sparkContext._gateway, plan.getClass().getSimpleName()
    if "ExecuteImmediate" in name or any(is_instance_of(gateway, plan, _CATALYST + kind) for kind in _STATEMENTS):
        raise not_single_select(name)


def _forbidden_nodes(value: Any, names: Collection[str]) -> Iterator[str]:
    """Yield the nodes of a JSON plan that access anything but the tables; each tree is a list, parents first."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return
    if not (value and isinstance(value[0], dict) and "class" in value[0]):
        for part in value:
            yield from _forbidden_nodes(part, names)
        return
    index = 0
    while index < len(value):
        node = value[index]
        if _is_table(value[index : index + 2], names):
            index = _end_of_subtree(value, index)
            continue
        if _is_forbidden(node):
            yield node["class"].rpartition(".")[2]
        yield from _forbidden_nodes([part for key, part in node.items() if key != "class"], names)
        index += 1


def _is_forbidden(node: dict[str, Any]) -> bool:
    package, _, name = node["class"].rpartition(".")
    is_leaf = package.startswith(f"{_CATALYST}plans.") and not node["num-children"]
    is_source = is_leaf and name not in _LITERALS
    return is_source or name in _FORBIDDEN or name == "View" or not package.startswith(_CATALYST)


def _is_table(nodes: list[dict[str, Any]], names: Collection[str]) -> bool:
    """Return whether this is one of our views; views of databases, and global ones, have a qualifier."""
    if [node["class"].rpartition(".")[2] for node in nodes] != ["SubqueryAlias", "View"]:
        return False
    alias = nodes[0]["identifier"]
    return not alias["qualifier"] and alias["name"].lower() in names


def _end_of_subtree(nodes: list[dict[str, Any]], index: int) -> int:
    """Return the index after a node and all of its descendants."""
    open_nodes = 1
    while open_nodes:
        open_nodes += nodes[index]["num-children"] - 1
        index += 1
    return index
