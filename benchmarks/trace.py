"""The trace against Optiland: rays per second, kernel compilation, start-up and peak memory; scenes of many surfaces.

A collimated beam goes through a biconvex singlet onto a map of 16 x 16 pixels, in float64 on two threads, Fresnel
splitting on. Rates are rays launched per second, medians of undisturbed runs, each side at a number of rays that suits
it. The gradient is that of the second moment of the map with respect to the front radius.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from benchmarks import crowds
from benchmarks.timing import measure, require

ROOT = Path(__file__).parents[1]
THREADS = 2
RAYS = 2_000_000
RAYS_BACKWARD = 1_000_000
PEER_RAYS = 200_000  # in batches of its default 16,384, its fastest
PEER_RAYS_BACKWARD = 100_000  # in one batch, its fastest
TARGETS = SimpleNamespace(forward=40.0, backward=30.0, compilation=25.0, start_up=1.5, memory=300.0)


def build(api, frame, medium, r1=100.0):
    """The scene, from the public names of either package: ``api`` with the classes, its frame class and its glass."""
    scene = api.NSQScene()
    beam = api.CollimatedSourceConfig(spectrum=api.Spectrum.monochromatic(0.55), total_flux=1.0, aperture_radius=5.0)
    scene.add_source("beam", frame(), beam)
    lens = api.LensConfig(r1=r1, r2=-100.0, thickness=5.0, material=medium, front_aperture_radius=12.5)
    scene.add_lens("lens", frame(z=50.0), lens)
    screen = api.IrradianceDetectorConfig(width=20.0, height=20.0, num_pixels_x=16, num_pixels_y=16)
    scene.add_detector("map", frame(z=150.0), screen)
    return scene


def singlet(r1=100.0):
    import nsq

    return build(nsq, nsq.CoordinateSystem, nsq.NSQMaterial.constant(1.5187, 0.0), r1)


def forward(num_rays, seed=42):
    return singlet().trace(num_rays, seed=seed).detectors["map"]


def backward(num_rays, trace=None):
    """Gradient of the second moment of the map with respect to the front radius; ``trace(r1)`` gives the map's data."""
    import torch

    r1 = torch.tensor(100.0, dtype=torch.float64, requires_grad=True)
    if trace is None:
        data = singlet(r1).trace(num_rays, seed=42).detectors["map"].data
    else:
        data = trace(r1)
    square = torch.linspace(-1.0, 1.0, 16, dtype=torch.float64) ** 2
    torch.sum(data * (square[:, None] + square).reshape(data.shape)).backward()
    return r1.grad.item()


class Peer:
    """Optiland's two backends on the same scene."""

    def __init__(self):
        require("optiland")
        self.backend = require("optiland.backend")
        self.api = require("optiland.nonsequential")
        frame = require("optiland.coordinate_system").CoordinateSystem
        ideal = require("optiland.materials").IdealMaterial
        backends = "optiland.nonsequential.backends"
        self.numpy_backend = require(f"{backends}.numpy_backend").NumpyBackend
        self.torch_backend = require(f"{backends}.torch_backend").TorchBackend
        self.scene = lambda r1=100.0: build(self.api, frame, self.api.NSQMaterial(ideal(1.5187, 0.0)), r1)

    def forward(self, num_rays, seed=42):
        self.backend.set_backend("numpy")
        return self.scene().trace(num_rays, seed=seed, backend=self.numpy_backend(seed=seed)).detectors["map"]

    def backward(self, num_rays):
        self.backend.set_backend("torch")
        self.backend.set_device("cpu")
        self.backend.set_precision("float64")
        self.backend.grad_mode.enable()

        def trace(r1):
            scene, backend = self.scene(r1), self.torch_backend(seed=42)
            return scene.trace(num_rays, seed=42, backend=backend, batch_size=num_rays).detectors["map"].data

        return backward(num_rays, trace)


def repeat(function, num_rays):
    """Call for the time it takes."""
    function(num_rays)


def speed():
    import numpy as np
    import torch

    import nsq

    torch.set_num_threads(THREADS)
    nsq.set_num_threads(THREADS)
    peer = Peer()
    ours, theirs = forward(4000).irradiance, np.asarray(peer.forward(4000).irradiance)
    gap = np.abs(ours - theirs).max() / theirs.max()
    print(f"the same 4000 rays in both: maps differ by {gap:.1e} of their maximum")
    a, b = backward(20_000), peer.backward(20_000)
    print(f"the same 20,000 rays in both: gradients {a:.6e} and {b:.6e}\n")
    rows = (
        ("forward, Optiland's NumPy backend", RAYS, forward, PEER_RAYS, peer.forward, TARGETS.forward),
        (
            "forward + backward, its torch backend",
            RAYS_BACKWARD, backward, PEER_RAYS_BACKWARD, peer.backward, TARGETS.backward,
        ),
    )  # fmt: skip
    print(f"{'rays per second':40} {'nsq':>12} {'Optiland':>12} {'ratio':>8}")
    for name, num, function, peer_num, peer_function, target in rows:
        function(num)
        peer_function(peer_num)
        mine, other = measure(partial(repeat, function, num), partial(repeat, peer_function, peer_num))
        rate, peer_rate = num / mine.median, peer_num / other.median
        print(f"{name:40} {rate:12.4g} {peer_rate:12.4g} {rate / peer_rate:8.1f}   (at least {target:g})")
        print(f"    nsq {num} rays {mine}; Optiland {peer_num} rays {other}")


def child(statement, **environment):
    """Run a statement of this module in a process of its own; returns (seconds until it printed, what it printed)."""
    start = time.time()
    done = subprocess.run(
        [sys.executable, "-c", statement],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    line = done.stdout.splitlines()[-1].split()
    return float(line[0]) - start, line[1:]


FIRST_TRACE = """
import time
start = time.perf_counter()
from benchmarks import trace
trace.forward(1000)
forward = time.perf_counter() - start
trace.backward(1000)
both = time.perf_counter() - start
print(time.time(), forward, both)
"""
ONLY_IMPORTS = """
import time
import torch, warp
warp.init()
torch.zeros(1)
print(time.time())
"""
FIRST_MAP = """
import time
from benchmarks import trace
trace.forward(1000).irradiance
print(time.time())
"""
MEMORY = """
import time
from benchmarks import timing, trace
trace.backward({num_rays})
print(time.time(), timing.peak_memory())
"""


def compilation():
    """Cold minus warm, so that what the imports and the traces themselves take is not counted."""
    with tempfile.TemporaryDirectory() as cache:
        _, cold = child(FIRST_TRACE, WARP_CACHE_PATH=cache)
        _, warm = child(FIRST_TRACE, WARP_CACHE_PATH=cache)
    first, both = (float(c) - float(w) for c, w in zip(cold, warm, strict=True))
    print(f"kernel compilation, empty cache: {first:.1f} s for a first trace (at most {TARGETS.compilation:g}),")
    print(f"    {both:.1f} s with a first gradient")


def start_up():
    child(FIRST_MAP)
    bare, full = measure(lambda: child(ONLY_IMPORTS)[0], lambda: child(FIRST_MAP)[0], repeats=5)
    extra = full.median - bare.median
    print(f"process start to first map, warm cache: {full}; only imports {bare}")
    print(f"    {extra:.2f} s more (at most {TARGETS.start_up:g})")


def memory():
    peaks = {}
    for num_rays in (1_000_000, 10_000_000):
        runs = [float(child(MEMORY.format(num_rays=num_rays))[1][0]) for _ in range(3 if num_rays < 2_000_000 else 1)]
        peaks[num_rays] = statistics.median(runs)
    small, large = peaks.values()
    print(
        f"peak memory, forward + backward, depth 16, mode prb: {small:.0f} MB at 1e6 rays, {large:.0f} MB at 1e7 rays"
    )
    print(f"    {large - small:+.0f} MB (at most {TARGETS.memory:g})")


def main():
    print(__doc__.splitlines()[0])
    speed()
    print()
    compilation()
    start_up()
    memory()
    print()
    crowds.report()


if __name__ == "__main__":
    main()
