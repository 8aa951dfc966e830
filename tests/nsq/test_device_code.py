"""What every kernel promises: it compiles for a GPU without one, and its adjoint is not silently wrong."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
import warp as wp

import kernels

from . import scenes
from .gradient_scenes import CASES

ROOT = Path(__file__).parents[2]
COMPLAINT = "may not be a differentiable operation"

LOOP = """
    import warp as wp

    @wp.kernel
    def count(n: wp.array(dtype=int), x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        s = float(0.0)
        for k in range(n[i]):
            s = s * x[i] + 1.0
        y[i] = s

    MODULES = [count.module]
"""
OURS = """
    import kernels

    MODULES = kernels.all_modules()
"""
# Compiles MODULES to PTX, with a line before each that says whether anything in it has an adjoint
COMPILE = """
    import json
    import sys
    from pathlib import Path

    import warp as wp

    wp.config.log_level = wp.LOG_DEBUG
    report = {}
    for module in MODULES:
        backward = module.options["enable_backward"]
        adjoint = any(k.options.get("enable_backward", backward) for k in module.kernels.values())
        print(f"== {module.name} {'differentiated' if adjoint else 'plain'}", flush=True)
        out = Path(sys.argv[1]) / module.name
        paths = wp.compile_aot_module(module, device=None, arch=86, module_dir=out, use_ptx=True)
        report[module.name] = {
            "ptx": [str(path) for path in paths],
            "kernels": [kernel.get_mangled_name() for kernel in module.kernels.values()],
        }
    # a function with an adjoint written by hand may loop as it likes; the registry holds that adjoint under its key
    report["by hand"] = [
        key.split("__")[-1]
        for name, module in wp.get_module.__globals__["user_modules"].items()
        if name.startswith("kernels.")
        for key, function in module.functions.items()
        if function.adj.custom_reverse_mode
    ]
    (Path(sys.argv[1]) / "report.json").write_text(json.dumps(report))
"""


def compile_to_ptx(folder, modules):
    """({module: its PTX files and kernels}, lines of the code generator about loops in differentiated modules)."""
    program = folder / "program.py"
    program.write_text(textwrap.dedent(modules) + textwrap.dedent(COMPILE))
    done = subprocess.run(
        [sys.executable, str(program), str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    differentiated, complaints = False, []
    for line in done.stdout.splitlines():
        if line.startswith("== "):
            differentiated = line.endswith(" differentiated")
        elif COMPLAINT in line and differentiated:
            complaints.append(line)
    report = json.loads((folder / "report.json").read_text())
    by_hand = report.pop("by hand")
    return report, [line for line in complaints if not any(f'in function "{name}"' in line for name in by_hand)]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return compile_to_ptx(tmp_path_factory.mktemp("ptx"), OURS)


def test_the_generator_does_say_when_a_loop_is_not_differentiable(tmp_path):
    _, complaints = compile_to_ptx(tmp_path, LOOP)
    assert len(complaints) == 1


def test_no_differentiated_kernel_changes_a_variable_in_a_dynamic_loop(compiled):
    assert compiled[1] == []


def test_every_kernel_compiles_to_ptx_without_a_gpu(compiled):
    modules = compiled[0]
    assert len(modules) >= 4
    for name, module in modules.items():
        assert len(module["ptx"]) == 1, name
        assembly = Path(module["ptx"][0]).read_text()
        assert len(module["kernels"]) > 0, name
        for kernel in module["kernels"]:
            assert f".entry {kernel}_cuda_kernel_forward" in assembly, name


def kernels_of_the_trace():
    """{module: {name: kernel}} of all that is there by now."""
    modules = wp.get_module.__globals__["user_modules"]
    made = {name: dict(module.kernels) for name, module in modules.items() if name.startswith("kernels.trace.")}
    return {name: own for name, own in made.items() if own}


def test_a_trace_makes_no_kernel_that_was_not_listed():
    """A kernel made by a trace would join a loaded module, and two lanes would make it twice."""
    listed = {module.name for module in kernels.all_modules()}
    before = kernels_of_the_trace()
    assert len(before) >= 4
    assert set(before) <= listed
    for precision in ("float32", "float64"):
        for build in (scenes.singlet, scenes.gauss_point_doublet):
            build().trace(100, precision=precision)
        for name in CASES:
            number = next(iter(CASES[name][0]))
            values = {**CASES[name][0], number: torch.tensor(CASES[name][0][number], requires_grad=True)}
            CASES[name][1](values).trace(100, precision=precision).detectors["D"].data.sum().backward()
    after = kernels_of_the_trace()
    assert set(after) == set(before)
    for module, made in before.items():
        assert after[module] == made, module
