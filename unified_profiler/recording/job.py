"""Determines the rank and the job of this process from the environment variables of its launcher."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """Rank of this process and size of the job that it belongs to."""

    rank: int = 0
    world_size: int = 1
    local_rank: int | None = None
    id: str | None = None
    """Shared by all ranks of one start of a job, and unique to it; None without a launcher."""

    def run_name(self) -> str:
        """Return the name of the run directory: the job id, or the current time and the process id."""
        if self.id is None:
            return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}"
        return re.sub(r"[^A-Za-z0-9._-]+", "-", self.id).strip(".-") or "job"


_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("RANK_ID", "RANK_SIZE", "DEVICE_ID"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)
"""Rank, world size and local rank of torchrun, Open MPI, other MPIs, MindSpore's msrun and Slurm, in this order."""


def this_job(environ: Mapping[str, str] = os.environ) -> Job:
    """Read the launcher's variables; a process without a launcher is rank 0 of 1."""
    for rank, size, local in _LAUNCHERS:
        if rank in environ and size in environ:
            world_size = _number(environ, size) or 1
            return Job(
                rank=_number(environ, rank) or 0,
                world_size=world_size,
                local_rank=_number(environ, local),
                id=_job_id(environ) if world_size > 1 or "TORCHELASTIC_RUN_ID" in environ else None,
            )
    return _lightning_job(environ) or _tensorflow_job(environ)


def this_machine(boot_id: Path = Path("/proc/sys/kernel/random/boot_id")) -> str | None:
    """Return the boot id of the system, the same in all its containers; None if it is unknown.

    Containers of one machine share its clock but not its host name, and different machines may have the same name.
    """
    try:
        return boot_id.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def _job_id(environ: Mapping[str, str]) -> str:
    parts = [environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_STEP_ID", "")]
    name = environ.get("TORCHELASTIC_RUN_ID", "")
    if name and name != "none":
        parts.append(name)
    elif environ.get("WORLD_SIZE") and environ.get("WORLD_SIZE") == environ.get("LOCAL_WORLD_SIZE"):
        parts.append(_launcher_id())
    else:
        names = ("OMPI_MCA_ess_base_jobid", "PMI_JOBID", "MASTER_ADDR", "MASTER_PORT", "MS_SCHED_HOST", "MS_SCHED_PORT")
        parts += [environ.get(name, "") for name in names]
    restart = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if restart != "0":
        parts.append(f"restart{restart}")
    return "job-" + "-".join(part for part in parts if part)


def _launcher_id() -> str:
    """Return an id of the launcher process, which all ranks of one machine share and no later job has."""
    import psutil  # only jobs need it

    parent = psutil.Process(os.getppid())
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(parent.create_time()))}-{parent.pid}"


def _lightning_job(environ: Mapping[str, str]) -> Job | None:
    """Read the variables that Lightning sets when it starts the processes itself; the rank is not among them.

    On the first node the local rank is the rank. On other nodes it cannot be computed, since the number of processes
    per node is unknown: there each process is a job of its own.
    """
    local, size = _number(environ, "LOCAL_RANK"), _number(environ, "WORLD_SIZE")
    node = environ.get("NODE_RANK", environ.get("GROUP_RANK", "0"))
    if local is None or size is None or local >= size or node != "0" or not environ.get("MASTER_PORT"):
        return None
    return Job(rank=local, world_size=size, local_rank=local, id=_job_id(environ) if size > 1 else None)


def _tensorflow_job(environ: Mapping[str, str]) -> Job:
    try:
        config = json.loads(environ.get("TF_CONFIG", "{}"))
        task, cluster = config.get("task", {}), config.get("cluster", {})
        workers = [(kind, i) for kind in ("chief", "worker") for i in range(len(cluster.get(kind, ())))]
        rank = workers.index((task.get("type"), int(task.get("index", 0))))
    except (ValueError, TypeError, AttributeError):
        return Job()
    addresses = ",".join(str(address) for kind in ("chief", "worker") for address in cluster.get(kind, ()))
    return Job(rank=rank, world_size=len(workers), id=f"job-{addresses}" if len(workers) > 1 else None)


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isdigit() else None
