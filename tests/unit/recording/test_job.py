from __future__ import annotations

import json
from pathlib import Path

import pytest

from unified_profiler.recording.job import Job, this_job, this_machine

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "abc/1"}


def test_without_a_launcher_it_is_the_only_rank() -> None:
    assert this_job({}) == Job(rank=0, world_size=1)


def test_torchrun() -> None:
    assert this_job(TORCHRUN) == Job(rank=3, world_size=8, local_rank=1, id="job-abc/1")


def test_a_restart_is_another_run() -> None:
    assert this_job({**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "2"}).id == "job-abc/1-restart2"


def test_ranks_of_one_machine_meet_without_a_run_id() -> None:
    base = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}
    first, second = (this_job({**base, "RANK": rank, "LOCAL_RANK": rank}) for rank in "01")
    assert first.id == second.id
    assert first.id is not None


def test_ranks_of_several_machines_meet_at_the_master() -> None:
    base = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "box", "MASTER_PORT": "29500"}
    assert this_job({**base, "RANK": "3"}).id == "job-box-29500"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_MCA_ess_base_jobid": "77"}, (1, 4, "job-77")),
        ({"PMI_RANK": "2", "PMI_SIZE": "4", "PMI_JOBID": "9"}, (2, 4, "job-9")),
        ({"RANK_ID": "5", "RANK_SIZE": "8", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, (5, 8, "job-a-1")),
        (
            {"RANK_ID": "1", "RANK_SIZE": "2", "MS_SCHED_HOST": "127.0.0.1", "MS_SCHED_PORT": "8118"},
            (1, 2, "job-127.0.0.1-8118"),
        ),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "42", "SLURM_STEP_ID": "0"}, (1, 2, "job-42-0")),
    ],
)
def test_other_launchers(environ: dict[str, str], expected: tuple[int, int, str]) -> None:
    job = this_job(environ)
    assert (job.rank, job.world_size, job.id) == expected


def test_tensorflow_workers() -> None:
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    job = this_job({"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}})})
    assert (job.rank, job.world_size) == (2, 3)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"cluster": {}, "task": {"type": "ps", "index": 0}}'])
def test_a_tensorflow_configuration_without_workers_is_one_rank(text: str) -> None:
    assert this_job({"TF_CONFIG": text}) == Job()


LIGHTNING = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "4711", "NODE_RANK": "0", "WORLD_SIZE": "2"}
"""What Lightning's launcher sets, besides LOCAL_RANK."""


def test_processes_that_lightning_starts_meet_in_one_run() -> None:
    first, second = (this_job({**LIGHTNING, "LOCAL_RANK": rank}) for rank in "01")
    assert first == Job(rank=0, world_size=2, local_rank=0, id="job-127.0.0.1-4711")
    assert second == Job(rank=1, world_size=2, local_rank=1, id="job-127.0.0.1-4711")


@pytest.mark.parametrize(
    "different",
    [
        pytest.param({"NODE_RANK": "1"}, id="how many processes a node has is not said"),
        pytest.param({"LOCAL_RANK": "2"}, id="not one of two"),
        pytest.param({"MASTER_PORT": ""}, id="nowhere to meet"),
        pytest.param({"WORLD_SIZE": "two"}, id="no number"),
    ],
)
def test_without_a_sure_rank_a_process_stays_alone(different: dict[str, str]) -> None:
    assert this_job({**LIGHTNING, "LOCAL_RANK": "1", **different}) == Job()


def test_a_rank_that_is_said_comes_before_the_local_one() -> None:
    assert this_job({**LIGHTNING, "LOCAL_RANK": "0", "RANK": "1"}).rank == 1


def test_a_machine_is_told_by_its_boot(tmp_path: Path) -> None:
    file = tmp_path / "boot_id"
    assert this_machine(file) is None
    file.write_bytes(b"\xff\n")
    assert this_machine(file) is None
    file.write_text("\n")
    assert this_machine(file) is None
    file.write_text("0f1e-2d3c\n")
    assert this_machine(file) == "0f1e-2d3c"


def test_a_run_name_is_a_file_name() -> None:
    assert Job(id="job-abc/1 ü").run_name() == "job-abc-1"
