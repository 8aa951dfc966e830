"""One trace on several processes: the same bits forward, the same gradients, errors instead of hanging."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import nsq

from . import scenes
from .test_longrun import RAYS, everything, kept_rays

ROOT = Path(__file__).parents[2]
WEIGHTS = torch.linspace(-1.0, 1.0, 12 * 8, dtype=torch.float64)


def lens(values):
    """A doublet's scene whose radius, index and flux are tensors, with rays kept and two detectors."""
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=scenes.FDC, total_flux=values["flux"], aperture_radius=8.0)
    scene.add_source("S", nsq.CoordinateSystem(z=-20.0), beam)
    glass = nsq.NSQMaterial.constant(values["n"], 1e-7)
    scene.add_lens("L", nsq.CoordinateSystem(), nsq.LensConfig(values["radius"], -80.0, 5.0, glass, 12.0))
    scene.add_detector("rays", nsq.CoordinateSystem(z=40.0), nsq.RayDatabaseConfig(30.0, 30.0, absorb=False))
    scene.add_detector("D", nsq.CoordinateSystem(z=80.0), nsq.IrradianceDetectorConfig(8.0, 8.0, 12, 8))
    return scene


def gradients(backend, mode, num_rays=30_000):
    """Of a loss of a map and of the rays kept, with respect to three numbers."""
    values = {"radius": 60.0, "n": 1.5168, "flux": 2.0}
    values = {name: torch.tensor(v, dtype=torch.float64, requires_grad=True) for name, v in values.items()}
    result = lens(values).trace(num_rays, seed=5, backend=backend(gradient_mode=mode))
    rays = result.detectors["rays"]
    loss = torch.dot(WEIGHTS, result.detectors["D"].data) + (rays.flux * (rays.x**2 + rays.M)).sum()
    loss.backward()
    return everything_told(result), {name: v.grad.item() for name, v in values.items()}


def everything_told(result):
    """`everything` of a result, as something that JSON holds."""
    detached = {name: np.asarray(v).tolist() for name, v in vars(result).items() if isinstance(v, int | float)}
    detached.pop("trace_time_sec")
    for name, detector in result.detectors.items():
        for column in ("data", "total_flux", "x", "M", "flux", "ray_id"):
            if hasattr(detector, column):
                detached[f"{name}.{column}"] = getattr(detector, column).detach().numpy().tobytes().hex()
    return detached


PROGRAM = """
    import json, os, signal, sys, threading
    from pathlib import Path

    import torch
    import torch.distributed as dist

    import nsq
    import nsq.distributed
    from tests.nsq import scenes, test_distributed as here
    from tests.nsq.test_longrun import RAYS, kept_rays

    folder = Path(sys.argv[1])
    nsq.distributed.init("gloo", timeout_seconds=60.0)
    Backend = nsq.distributed.DistributedBackend
    backend = Backend()
    scene = kept_rays(scenes.gauss_point_doublet())
    told = {"rank": backend.rank, "size": backend.size}
    told["plain"] = here.everything_told(scene.trace(RAYS, seed=3, backend=backend))
    told["few"] = here.everything_told(scene.trace(2, seed=3, backend=backend))
    for mode in ("prb", "autograd"):
        told[mode] = here.gradients(Backend, mode)
        told["one " + mode] = here.gradients(Backend, mode, 1)
    # a run that stops by time and goes on, and one that stops by error
    stops = 0
    options = {"seed": 3, "backend": backend, "checkpoint": folder / "run.nsq", "checkpoint_every": 0.0}
    while scene.trace(RAYS, max_seconds=1e-6, **options).partial:
        stops += 1
    told["stops"], told["resumed"] = stops, here.everything_told(scene.trace(RAYS, **options))
    told["aimed"] = here.everything_told(scene.trace(2 * 10**6, seed=3, target_error={"D": 3e-3}, backend=backend))
    try:
        scene.trace(RAYS + backend.rank, seed=3, backend=backend)
    except ValueError as error:
        told["differ"] = str(error)
    try:
        scene.trace(RAYS, seed=3, backend=backend, checkpoint=folder / "missing" / "run.nsq")
    except (OSError, RuntimeError) as error:
        told["unwritable"] = type(error).__name__
    (folder / f"{backend.rank}.json").write_text(json.dumps(told))
    if "die" in sys.argv:
        path = folder / "dead.nsq"
        if backend.rank == backend.size - 1:
            threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGKILL)).start()
        try:
            scene.trace(10**9, seed=3, backend=backend, checkpoint=path, checkpoint_every=0.05)
        except RuntimeError as error:
            (folder / f"{backend.rank}.error").write_text(str(error))
            os._exit(1)
    dist.destroy_process_group()
"""


def launch(command, **environment):
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def torchrun(folder, size):
    """The program under torchrun; its output on failure."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
    process = launch([*command, str(folder / "program.py"), str(folder)])
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output


def by_hand(folder, size):
    """The program in processes that are told about each other as torchrun does, so that nobody ends the others."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, str(folder / "program.py"), str(folder), "die"]
    processes = [launch(command, RANK=str(k), LOCAL_RANK=str(k), **shared) for k in range(size)]
    started = time.monotonic()
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    codes = [process.returncode for process in processes]
    assert codes == [1] * (size - 1) + [-signal.SIGKILL], outputs
    assert time.monotonic() - started < 200.0


@pytest.fixture(scope="module")
def alone():
    """What one process makes of the same scenes."""
    scene = kept_rays(scenes.gauss_point_doublet())
    told = {
        "plain": everything_told(scene.trace(RAYS, seed=3)),
        "few": everything_told(scene.trace(2, seed=3)),
        "aimed": everything_told(scene.trace(2 * 10**6, seed=3, target_error={"D": 3e-3})),
    }
    for mode in ("prb", "autograd"):
        told[mode] = list(gradients(nsq.TorchBackend, mode))
        told["one " + mode] = list(gradients(nsq.TorchBackend, mode, 1))
    return told


@pytest.mark.parametrize(("run", "size"), [(torchrun, 2), (by_hand, 4)], ids=["2 by torchrun", "4 by hand"])
def test_processes_agree_with_one_alone(run, size, alone, tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    run(tmp_path, size)
    for rank in range(size):
        told = json.loads((tmp_path / f"{rank}.json").read_text())
        assert (told["rank"], told["size"]) == (rank, size)
        assert told["plain"] == alone["plain"]
        assert told["few"] == alone["few"]
        assert told["aimed"] == alone["aimed"]
        assert told["resumed"] == alone["plain"]
        assert told["stops"] >= 2
        for mode in ("prb", "autograd", "one prb", "one autograd"):
            forward, gradient = told[mode]
            assert forward == alone[mode][0]
            for name, value in alone[mode][1].items():
                assert abs(gradient[name] / value - 1.0) < 1e-12, name
        assert f"process {rank} of {size}" in told["differ"]
        assert "not the same on all processes" in told["differ"]
        assert told["unwritable"] == ("FileNotFoundError" if rank == 0 else "RuntimeError")
    # the file of several processes is that of one
    scene = kept_rays(scenes.gauss_point_doublet())
    assert everything(scene.trace(RAYS, seed=3, checkpoint=tmp_path / "run.nsq")) == everything(
        scene.trace(RAYS, seed=3)
    )
    if run is by_hand:
        for rank in range(size - 1):
            assert "has ended or does not answer" in (tmp_path / f"{rank}.error").read_text()
        survived = scene.trace(10**9, seed=3, checkpoint=tmp_path / "dead.nsq", max_seconds=1e-6)
        assert survived.partial
        assert survived.num_rays_total > 0
        assert survived.flux_conservation_error < 1e-12


def test_without_a_group_there_is_no_backend():
    with pytest.raises(RuntimeError, match=r"nsq.distributed.init\(\).*torchrun"):
        nsq.distributed.DistributedBackend()
    with pytest.raises(RuntimeError, match="RANK"):
        nsq.distributed.init()
    with pytest.raises(ValueError, match="backend got 'glo'.*Did you mean 'gloo'"):
        nsq.distributed.init("glo")
