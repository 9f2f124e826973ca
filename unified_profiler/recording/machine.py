"""The state machine of the profiler: one pure function from a change of slot to commands.

Saving is not a phase: it happens when a cycle is left while recording.
"""

from __future__ import annotations

from enum import Enum

from unified_profiler.schedule import Phase, Slot


class Command(Enum):
    """An action on the recorders of a cycle."""

    ARM = "arm"
    START = "start"
    STOP = "stop"
    DELIVER = "deliver"
    DISCARD = "discard"


OUTSIDE = Slot(Phase.IDLE, 0)
"""The slot before start and after stop."""


def transition(previous: Slot, following: Slot) -> tuple[Command, ...]:
    """Return the commands that lead from one slot to the next, in order.

    Every ARM is followed by exactly one STOP (with its DELIVER) or one DISCARD, whatever the sequence of slots.
    """
    armed = previous.phase is not Phase.IDLE
    recording = previous.phase is Phase.RECORD
    commands: list[Command] = []
    if armed and _leaves_cycle(previous, following):
        commands += [Command.STOP, Command.DELIVER] if recording else [Command.DISCARD]
        armed = recording = False
    if following.phase is not Phase.IDLE:
        if not armed:
            commands.append(Command.ARM)
        if following.phase is Phase.RECORD and not recording:
            commands.append(Command.START)
    return tuple(commands)


def _leaves_cycle(previous: Slot, following: Slot) -> bool:
    return (
        following.phase is Phase.IDLE
        or following.cycle != previous.cycle
        or (previous.phase is Phase.RECORD and following.phase is Phase.WARMUP)
    )
