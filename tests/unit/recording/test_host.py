from __future__ import annotations

import sys
from pathlib import Path

import pytest

import unified_profiler as up
from unified_profiler.recording.host import command_line, processor_name

CPUINFO = {
    "x86": (
        "processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\n\nprocessor\t: 1\nmodel name\t: b\n",
        "Some CPU @ 2.00GHz",
    ),
    "ARM": ("processor\t: 0\nCPU implementer\t: 0x48\nCPU part\t: 0xd01\n\n", "CPU implementer 0x48, CPU part 0xd01"),
    "POWER": ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported"),
    "nothing": ("", None),
    "no name": ("processor\t: 0\n", None),
}


@pytest.mark.parametrize(("text", "name"), CPUINFO.values(), ids=CPUINFO)
def test_the_processor_goes_by_its_model(text: str, name: str | None, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert processor_name(tmp_path / "cpuinfo") == name


def test_a_processor_that_cannot_be_found_out_is_not_known(tmp_path: Path) -> None:
    assert processor_name(tmp_path / "missing") is None


def test_a_run_says_its_processor(tmp_path: Path) -> None:
    with up.Profiler(level=1, output_dir=tmp_path) as prof:
        prof.step()
    assert up.read(tmp_path).manifests[0].processor == processor_name()


@pytest.mark.parametrize("launcher", ["ipykernel_launcher.py", "colab_kernel_launcher.py"])
def test_the_command_of_a_kernel_is_not_that_of_its_notebook(launcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [f"/site-packages/{launcher}", "-f", "kernel-1.json"])
    assert command_line() == ()
    monkeypatch.setattr(sys, "argv", ["train.py", "-f", "kernel_launcher.py"])
    assert command_line() == ("train.py", "-f", "kernel_launcher.py")
