"""Numbers the distinct labels of Kineto events: phase, category, process, thread and name.

Each label determines whether its events are kept, and by which layout their args are read.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from unified_profiler.model.columns import Index
from unified_profiler_torch.read.args import Codes
from unified_profiler_torch.read.args_layouts import LAYOUTS
from unified_profiler_torch.read.categories import is_known

REDUNDANT_FLOWS = frozenset({"ac2g", "fwdbwd", "async_cpu_to_gpu", "async_gpu", "forward_backward"})
"""Categories of arrows for viewers; correlation_id and sequence_id contain the same links."""

WINDOW = "Trace"
"""Category of the span that covers the whole recording."""

WINDOW_PROCESSES = frozenset({"Traces", ""})
"""Processes of the two instants, without a category, that mark where the recording begins and ends."""

COMMON_PHASES = frozenset({"X", "i"})
"""Complete and instant events."""

DROP, KEEP, KEEP_UNKNOWN, METADATA = range(4)
"""What to do with the events of a label; those of an unknown phase or category keep these as attributes."""

OTHER_LAYOUT, CPU_LAYOUT = -1, 0
"""Numbers of the events that are read as dictionaries and by `CPU_ARGS`; those of `LAYOUTS` follow."""

_NAMING = frozenset({"process_name", "process_labels", "thread_name"})
"""Metadata that is read; the others order processes and threads in viewers."""
_FLOW_PHASES = frozenset({"s", "f", "t"})
_LAYOUT_NUMBERS = dict.fromkeys(("cpu_op", "user_annotation", "python_function"), CPU_LAYOUT) | {
    category: number for number, category in enumerate(LAYOUTS, CPU_LAYOUT + 1)
}


_NUMBER_TEXT = rb"-?\d+"
_QUOTED = rb'"(?:[^"\\\n]|\\.)*"'
_LABEL_TEXT = re.compile(
    rb'\n    "ph": "X",\n    "cat": %b,\n    "name": %b,\n    "pid": %b,\n    "tid": %b,'
    % (_QUOTED, _QUOTED, _NUMBER_TEXT, _NUMBER_TEXT)
)


class _Label(msgspec.Struct):
    ph: str
    cat: str
    pid: int
    tid: int
    name: str


_LABELS = msgspec.json.Decoder(_Label)


class EventGroup(NamedTuple):
    """Phase, category, process and thread, which many events share."""

    phase: str
    category: str
    pid: int | str
    tid: int | str


class MetadataEvent(NamedTuple):
    """An event that names or labels a process or thread."""

    name: str
    pid: int | str
    tid: int | str
    args: dict[str, Any]


class LabelIndex(dict[tuple[str, str, int | str, int | str, str], int]):
    """Numbers the distinct combinations of group and name, and describes each."""

    def __init__(self) -> None:
        super().__init__()
        self.names, self.groups = Index(), Index()
        self.name, self.group = array("i"), array("i")
        self.action, self.layout = array("b"), array("b")
        self._texts: dict[bytes, int | None] = {}

    def __missing__(self, label: tuple[str, str, int | str, int | str, str]) -> int:
        """Assign the next number to a new label."""
        self[label] = number = len(self)
        phase, category, pid, _, name = label
        self.name.append(self.names[name])
        self.group.append(self.groups[label[:4]])
        self.action.append(_action(phase, category, pid, name))
        self.layout.append(_layout_number(phase, category))
        return number

    def code_of_text(self, text: bytes) -> int | None:
        """Return the label of an operator by its lines from phase to thread; None for other events and layouts."""
        if text not in self._texts:
            self._texts[text] = self._read(text)
        return self._texts[text]

    def _read(self, text: bytes) -> int | None:
        if not _LABEL_TEXT.fullmatch(text):
            return None
        try:
            label = self[msgspec.structs.astuple(_LABELS.decode(b"{%b}" % text[:-1]))]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return label if self.action[label] == KEEP and self.layout[label] == CPU_LAYOUT else None

    def look_up(self, events: Sequence[Any]) -> tuple[Codes, Codes, Codes]:
        """Return for each event its label, whether to keep it, drop it or read it as metadata, and its layout."""
        labels = [(event.ph, event.cat, event.pid, event.tid, event.name) for event in events]
        label = np.fromiter(map(self.__getitem__, labels), np.int32, len(events))
        return label, np.frombuffer(self.action, np.int8)[label], np.frombuffer(self.layout, np.int8)[label]


def _layout_number(phase: str, category: str) -> int:
    return _LAYOUT_NUMBERS.get(category, OTHER_LAYOUT) if phase in COMMON_PHASES else OTHER_LAYOUT


def _action(phase: str, category: str, pid: int | str, name: str) -> int:
    if phase == "M":
        return METADATA if name in _NAMING else DROP
    if category == WINDOW or (phase == "i" and not category and pid in WINDOW_PROCESSES):
        return DROP
    if phase in _FLOW_PHASES and category in REDUNDANT_FLOWS:
        return DROP
    return KEEP if phase in COMMON_PHASES and is_known(category) else KEEP_UNKNOWN
