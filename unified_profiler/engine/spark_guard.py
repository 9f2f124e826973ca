"""What a query may do in Spark, which is to read its tables. Spark itself reads and resolves it, and executes nothing.

Any table, file or service is a leaf of the resolved plan, and any function of Java's or a user's an expression in it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from unified_profiler.engine.contract import no_single_select
from unified_profiler.errors import QueryError

_CATALYST = "org.apache.spark.sql.catalyst."
_STATEMENTS = ("plans.logical.Command", "plans.logical.ParsedStatement", "plans.logical.CompoundPlanStatement")
_SOURCES = frozenset({"LocalRelation", "OneRowRelation", "Range", "CTERelationRef", "UnionLoopRef", "EmptyRelation"})
"""Leaves that hold what stands in the query itself."""
_OUTWARD = frozenset(
    {"CallMethodViaReflection", "TryReflect", "PythonUDF", "PythonUDAF", "PythonUDTF", "ScalaUDF", "ScalaAggregator"}
    | {"UnresolvedPolymorphicPythonUDTF", "InputFileName", "InputFileBlockStart", "InputFileBlockLength"}
    | {"FromProtobuf", "ToProtobuf", "ApplyFunctionExpression", "ScriptTransformation"}
)
"""What runs code or looks at files."""


def check_query(session: Any, sql: str, names: Collection[str]) -> None:
    """Look at what a query means before anything is done.

    Args:
        session: The Spark session, in which the tables are views.
        sql: The query.
        names: The tables.

    Raises:
        QueryError: It is no single SELECT, or reaches for something else than the tables.
    """
    state = session._jsparkSession.sessionState()
    parsed = state.sqlParser().parsePlan(sql)
    _check_statement(session, parsed)
    skip = session._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    resolved = state.executePlan(parsed, skip).analyzed()
    _check_statement(session, resolved)
    refused = sorted(set(_outward(json.loads(resolved.toJSON()), {name.lower() for name in names})))
    if refused:
        msg = (
            f"A query may not use {', '.join(refused)}: it sees the tables {', '.join(names)} and nothing outside them."
        )
        raise QueryError(msg)


def _check_statement(session: Any, plan: Any) -> None:
    """Refuse anything but a SELECT; EXECUTE IMMEDIATE would be carried out while it is resolved."""
    from py4j.java_gateway import is_instance_of

    gateway, name = session.sparkContext._gateway, plan.getClass().getSimpleName()
    if "ExecuteImmediate" in name or any(is_instance_of(gateway, plan, _CATALYST + kind) for kind in _STATEMENTS):
        raise no_single_select(name)


def _outward(value: Any, names: Collection[str]) -> Iterator[str]:
    """Yield what leads out of the tables, from a plan as Spark writes it: each tree is a list, parents first."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return
    if not (value and isinstance(value[0], dict) and "class" in value[0]):
        for part in value:
            yield from _outward(part, names)
        return
    place = 0
    while place < len(value):
        node = value[place]
        if _is_table(value[place : place + 2], names):
            place = _end(value, place)
            continue
        yield from _refused(node)
        yield from _outward([part for key, part in node.items() if key != "class"], names)
        place += 1


def _refused(node: dict[str, Any]) -> Iterator[str]:
    package, _, name = node["class"].rpartition(".")
    is_plan = package.startswith(f"{_CATALYST}plans.")
    leaf = is_plan and not node["num-children"] and name not in _SOURCES
    if leaf or name in _OUTWARD or name == "View" or not package.startswith(_CATALYST):
        yield name


def _is_table(nodes: list[dict[str, Any]], names: Collection[str]) -> bool:
    """Say whether this is one of our views: those of databases, and global ones, have a qualifier."""
    if [node["class"].rpartition(".")[2] for node in nodes] != ["SubqueryAlias", "View"]:
        return False
    alias = nodes[0]["identifier"]
    return not alias["qualifier"] and alias["name"].lower() in names


def _end(nodes: list[dict[str, Any]], place: int) -> int:
    """Return the place behind a node and everything below it."""
    open_nodes = 1
    while open_nodes:
        open_nodes += nodes[place]["num-children"] - 1
        place += 1
    return place
