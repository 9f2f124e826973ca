"""What a query may do in Spark, which is to read its tables. Spark itself reads and resolves it, and executes nothing.

Any table, file or service is a leaf of the resolved plan, and any function of the user's or of Java an expression.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from unified_profiler.engine.contract import no_single_select
from unified_profiler.errors import QueryError

_CATALYST = "org.apache.spark.sql.catalyst."
_STATEMENTS = ("plans.logical.Command", "plans.logical.ParsedStatement", "plans.logical.CompoundPlanStatement")
_EXECUTED_WHILE_RESOLVED = ("ExecuteImmediate",)
_SOURCES = frozenset({"LocalRelation", "OneRowRelation", "Range", "CTERelationRef", "UnionLoopRef", "EmptyRelation"})
"""Leaves that hold what stands in the query itself."""
_OUTWARD_NODES = frozenset({"ScriptTransformation"})
_OUTWARD_EXPRESSIONS = frozenset(
    {"CallMethodViaReflection", "TryReflect", "PythonUDF", "PythonUDAF", "PythonUDTF", "ScalaUDF", "ScalaAggregator"}
    | {"UnresolvedPolymorphicPythonUDTF", "InputFileName", "InputFileBlockStart", "InputFileBlockLength"}
    | {"FromProtobuf", "ToProtobuf", "ApplyFunctionExpression"}
)
_PLAIN_LEAVES = frozenset({"AttributeReference", "Literal"})


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
    _Plan(session, parsed).check_statement()
    skip = session._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    refused = sorted(set(_Plan(session, state.executePlan(parsed, skip).analyzed()).outward(names)))
    if refused:
        msg = (
            f"A query may not use {', '.join(refused)}: it sees the tables {', '.join(names)} and nothing outside them."
        )
        raise QueryError(msg)


class _Plan:
    """A plan in the Java process, walked node by node."""

    def __init__(self, session: Any, root: Any) -> None:
        self._gateway = session.sparkContext._gateway
        self._as_list = session._jvm.scala.jdk.javaapi.CollectionConverters.asJava
        self._root = root

    def check_statement(self) -> None:
        name = self._root.getClass().getSimpleName()
        if self._is_statement(self._root) or any(part in name for part in _EXECUTED_WHILE_RESOLVED):
            raise no_single_select(name)

    def outward(self, names: Collection[str]) -> Iterator[str]:
        """Yield the names of everything that leads out of the tables."""
        yield from self._nodes(self._root, {name.lower() for name in names})

    def _nodes(self, node: Any, names: Collection[str]) -> Iterator[str]:
        kind = node.getClass().getSimpleName()
        if kind == "View":
            yield from _foreign_view(node, names)
            return
        children = [*self._as_list(node.children()), *self._as_list(node.innerChildren())]
        if (not children and kind not in _SOURCES) or kind in _OUTWARD_NODES or self._is_statement(node):
            yield kind
        for expression in self._as_list(node.expressions()):
            yield from self._expressions(expression)
        for child in children:
            yield from self._nodes(child, names)

    def _expressions(self, expression: Any) -> Iterator[str]:
        kind = expression.getClass()
        name = kind.getSimpleName()
        if name in _PLAIN_LEAVES:
            return
        if name in _OUTWARD_EXPRESSIONS or not kind.getName().startswith(_CATALYST):
            yield expression.prettyName()
        for child in self._as_list(expression.children()):
            yield from self._expressions(child)

    def _is_statement(self, node: Any) -> bool:
        from py4j.java_gateway import is_instance_of

        return any(is_instance_of(self._gateway, node, _CATALYST + name) for name in _STATEMENTS)


def _foreign_view(view: Any, names: Collection[str]) -> Iterator[str]:
    identifier = view.desc().identifier()
    if identifier.database().isDefined() or identifier.table().lower() not in names:
        yield str(identifier.unquotedString())
