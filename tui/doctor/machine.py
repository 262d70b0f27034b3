"""The machine that the engine runs on, as its engine tells it."""

from __future__ import annotations

import platform

from ...engine.models.storage import size
from ...engine.protocol import Machine
from .findings import Finding

GROUP = "machine"
LITTLE = 1_500_000_000  # bytes; the default model and what Python brings take about half of it
_MAIN = ("cutaway", "python", "torch", "transformers", "textual")


def look(machine: Machine) -> list[Finding]:
    """What an engine said of its machine."""
    cores = (
        f"{machine.cores} core{'s' if machine.cores != 1 else ''} to use, {machine.hardware_threads} hardware threads"
    )
    return [
        Finding(GROUP, "system", machine.system),
        Finding(GROUP, "processor", f"{machine.processor}, {cores}"),
        _instructions(machine),
        _memory(machine),
        _device(machine),
        _kernels(machine),
        Finding(GROUP, "precision", f"{machine.precision} where none is asked for"),
        *_versions(machine),
    ]


def _instructions(machine: Machine) -> Finding:
    if machine.instructions:
        return Finding(GROUP, "instructions", machine.instructions)
    return Finding(GROUP, "instructions", "none of those that our kernels know, or not told", "note")


def _memory(machine: Machine) -> Finding:
    told = f"{size(machine.memory_bytes)}, {size(machine.available_bytes)} available"
    if machine.available_bytes < LITTLE:
        return Finding(GROUP, "memory", told, "wrong", "Close what takes it; the default model needs about 1 GB.")
    return Finding(GROUP, "memory", told)


def _device(machine: Machine) -> Finding:
    if machine.device.startswith("cuda"):
        room = f"{size(machine.device_bytes)}, {size(machine.device_free_bytes)} free"
        return Finding(GROUP, "device", f"{machine.device}: {machine.device_name}, {room}")
    if machine.device_problem:
        action = "Install torch for your CUDA: https://pytorch.org/get-started/locally tells the command."
        return Finding(GROUP, "device", f"{machine.device}: {machine.device_problem}", "wrong", action)
    return Finding(GROUP, "device", machine.device)


def _kernels(machine: Machine) -> Finding:
    if machine.kernels:
        by = f"; compiled by {machine.compiler}" if machine.compiler else ""
        return Finding(GROUP, "kernels", f"{machine.kernels}{by}")
    if not machine.device.startswith("cpu"):
        return Finding(GROUP, "kernels", f"not needed on {machine.device}")
    action = "Install a C++ compiler (g++ or clang++): decoding is then several times faster."
    if machine.compiler:
        action = "Set CXX to another C++ compiler, and tell the message above in a bug report."
    return Finding(GROUP, "kernels", f"none: {machine.kernels_problem}", "wrong", action)


def _versions(machine: Machine) -> list[Finding]:
    versions = machine.versions
    first = [f"{name} {versions[name]}" for name in _MAIN if name in versions]
    rest = [f"{name} {version}" for name, version in versions.items() if name not in _MAIN]
    found = [Finding(GROUP, "versions", ", ".join(first)), Finding(GROUP, "libraries", ", ".join(rest))]
    if versions.get("python") and versions["python"] != platform.python_version():
        found.append(Finding(GROUP, "here", f"the screen runs on python {platform.python_version()}"))
    return found
