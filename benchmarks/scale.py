"""The trace in other scenes, precisions and sizes: against Optiland, over threads and batches, memory, many parameters.

Scenes have the same public names on both sides. Optiland traces in float64 throughout; its figures are rays launched
per second of its NumPy backend (forward) or its torch backend (with gradients).
"""

from functools import partial

from benchmarks.timing import measure
from benchmarks.trace import PEER_RAYS, PEER_RAYS_BACKWARD, Peer, backward, child, repeat

THREADS = 2
# long enough that what a trace does once, 10 to 30 ms on one thread, does not count
RAYS, RAYS_BACKWARD = 8_000_000, 4_000_000
# rays of a profile
PROFILED = 2_000_000
# forward in float64, in float32; with gradients in float64, in float32; other scenes; two threads against one
TARGETS = {"forward": (60.0, 100.0), "backward": (50.0, 90.0), "scenes": 40.0, "threads": 1.7, "field": 1.5}
MEMORY_LIMITS = (300.0, 1500.0)
# a height field of this many numbers a side against one number of the same scene
FIELD = 256


def glass(api, n, k=0.0):
    """A medium of constant index in either package."""
    if hasattr(api.NSQMaterial, "constant"):
        return api.NSQMaterial.constant(n, k)
    from optiland.materials import IdealMaterial

    return api.NSQMaterial(IdealMaterial(n, k))


def triplet(api, frame):
    """A Cooke-like triplet with edges and rims: twelve surfaces and a detector."""
    scene = api.NSQScene()
    spectrum = api.Spectrum.monochromatic(0.55)
    scene.add_source("beam", frame(), api.CollimatedSourceConfig(spectrum=spectrum, aperture_radius=6.0))
    numbers = (
        ("L1", 40.0, (22.0, -435.8, 3.3), 1.6204, (9.5, 9.0)),
        ("L2", 49.0, (-22.2, 20.3, 1.5), 1.6200, (6.0, 6.5)),
        ("L3", 55.0, (79.7, -18.4, 3.0), 1.6204, (8.0, 8.5)),
    )
    for name, z, (r1, r2, thickness), n, (front, back) in numbers:
        config = api.LensConfig(
            r1=r1, r2=r2, thickness=thickness, material=glass(api, n), front_aperture_radius=front,
            back_aperture_radius=back,
        )  # fmt: skip
        scene.add_lens(name, frame(z=z), config)
    plate = api.IrradianceDetectorConfig(width=20.0, height=20.0, num_pixels_x=64, num_pixels_y=64)
    scene.add_detector("map", frame(z=100.0), plate)
    return scene


def scattering_mirror(api, frame):
    """A concave mirror that scatters a third of its light, seen by a plate beside the source."""
    scene = api.NSQScene()
    spectrum = api.Spectrum.monochromatic(0.55)
    scene.add_source("beam", frame(), api.CollimatedSourceConfig(spectrum=spectrum, aperture_radius=10.0))
    face = api.SurfaceConfig(bsdf=api.LambertianBSDF(reflectance_value=0.9), scatter_fraction=0.3)
    mirror = api.MirrorConfig(radius=-200.0, reflectance=0.95, aperture_radius=25.0, surface=face)
    scene.add_mirror("M", frame(z=100.0), mirror)
    plate = api.IrradianceDetectorConfig(width=60.0, height=60.0, num_pixels_x=64, num_pixels_y=64)
    scene.add_detector("map", frame(z=-20.0), plate)
    return scene


def absorbing_spectrum(api, frame):
    """Eleven lines through a lens of absorbing glass onto a spectral detector."""
    import numpy as np

    scene = api.NSQScene()
    spectrum = api.Spectrum(np.linspace(0.42, 0.68, 11), np.ones(11))
    scene.add_source("beam", frame(), api.CollimatedSourceConfig(spectrum=spectrum, aperture_radius=5.0))
    config = api.LensConfig(
        r1=60.0, r2=-60.0, thickness=8.0, material=glass(api, 1.52, 2e-6), front_aperture_radius=12.5
    )
    scene.add_lens("L", frame(z=50.0), config)
    plate = api.SpectralDetectorConfig(width=20.0, height=20.0, num_pixels_x=32, num_pixels_y=32, num_bins=30)
    scene.add_detector("map", frame(z=110.0), plate)
    return scene


SCENES = {
    "triplet, 13 surfaces": triplet,
    "scattering mirror": scattering_mirror,
    "absorbing, 11 lines": absorbing_spectrum,
}


def table_row(name, num, function, peer_num, peer_function, target):
    """Measure both sides in turn and print their rates."""
    function(num)
    peer_function(peer_num)
    mine, other = measure(partial(repeat, function, num), partial(repeat, peer_function, peer_num))
    rate, peer_rate = num / mine.median, peer_num / other.median
    print(f"{name:40} {rate:12.4g} {peer_rate:12.4g} {rate / peer_rate:8.1f}   (at least {target:g})")


def against_optiland():
    import nsq
    from benchmarks.trace import singlet

    peer = Peer()
    frame = __import__("optiland.coordinate_system", fromlist=["CoordinateSystem"]).CoordinateSystem

    def forward(precision, num):
        return singlet().trace(num, seed=42, backend=nsq.TorchBackend(precision=precision)).detectors["map"]

    def gradient(precision, num):
        backend = nsq.TorchBackend(precision=precision)
        return backward(num, lambda r1: singlet(r1).trace(num, seed=42, backend=backend).detectors["map"].data)

    def peer_scene(build, num):
        peer.backend.set_backend("numpy")
        return build(peer.api, frame).trace(num, seed=42, backend=peer.numpy_backend(seed=42))

    print(f"{'rays per second':40} {'nsq':>12} {'Optiland':>12} {'ratio':>8}")
    for precision, target in zip(("float64", "float32"), TARGETS["forward"], strict=True):
        name = f"singlet forward, {precision}"
        table_row(name, RAYS, partial(forward, precision), PEER_RAYS, peer.forward, target)
    for precision, target in zip(("float64", "float32"), TARGETS["backward"], strict=True):
        name = f"singlet forward + backward, {precision}"
        table_row(name, RAYS_BACKWARD, partial(gradient, precision), PEER_RAYS_BACKWARD, peer.backward, target)
    for name, build in SCENES.items():

        def ours(num, build=build):
            return build(nsq, nsq.CoordinateSystem).trace(num, seed=42)

        table_row(name, RAYS_BACKWARD, ours, PEER_RAYS, partial(peer_scene, build), TARGETS["scenes"])


def threads_and_batches():
    import nsq
    from benchmarks.trace import forward, singlet

    def on(threads, function, num):
        nsq.set_num_threads(threads)
        function(num)

    for name, function, num in (("forward", forward, RAYS), ("forward + backward", backward, RAYS_BACKWARD)):
        one, two = measure(*(partial(on, threads, function, num) for threads in (1, 2)))
        ratio = one.median / two.median
        print(f"two threads against one, singlet {name}: {ratio:.2f}   (at least {TARGETS['threads']:g})")
    nsq.set_num_threads(THREADS)
    print("batch size, singlet forward, float64, rays per second:")
    sizes = (4096, 8192, 16384, 32768)
    runs = [partial(repeat, partial(singlet().trace, seed=42, batch_size=size), RAYS) for size in sizes]
    for size, timing in zip(sizes, measure(*runs), strict=True):
        print(f"    {size:6d} {RAYS / timing.median:10.4g}")


FIELD_SCENE = """
import statistics, time, torch, nsq
nsq.set_num_threads({threads})

def run(parameters):
    side = {side}
    x = torch.linspace(-8.0, 8.0, side, dtype=torch.float64)
    grid = torch.meshgrid(x, x, indexing="ij")
    bump = 0.002 * (grid[0] ** 2 + grid[1] ** 2)
    if parameters == 1:
        number = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        heights = number * bump
    else:
        number = heights = bump.requires_grad_()
    vertices = torch.stack([grid[0], grid[1], heights], dim=-1).reshape(-1, 3)
    index = torch.arange(side * side).reshape(side, side)
    a, b, c, d = (i.reshape(-1) for i in (index[:-1, :-1], index[1:, :-1], index[1:, 1:], index[:-1, 1:]))
    faces = torch.cat([torch.stack([a, b, c], dim=1), torch.stack([a, c, d], dim=1)])
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=nsq.Spectrum.monochromatic(0.55), aperture_radius=5.0)
    scene.add_source("S", nsq.CoordinateSystem(z=-20.0), beam)
    mesh = nsq.MeshGeometry((vertices, faces.numpy()))
    mirror = nsq.ReflectiveComponent(nsq.CoordinateSystem(), mesh, reflectance=1.0)
    scene.add_component("M", mirror)
    plate = nsq.IrradianceDetectorConfig(width=40.0, height=40.0, num_pixels_x=32, num_pixels_y=32)
    scene.add_detector("D", nsq.CoordinateSystem(z=-30.0), plate)
    data = scene.trace(20_000, seed=1, backend=nsq.TorchBackend()).detectors["D"].data
    loss = (data * torch.linspace(0.0, 1.0, data.numel(), dtype=torch.float64)).sum()
    start = time.perf_counter()
    loss.backward()
    return time.perf_counter() - start

run(1), run(2)
runs = [(run(1), run(2)) for _ in range(5)]
one, many = (statistics.median(times) for times in zip(*runs))
print(time.time(), one, many)
"""

MEMORY = """
import time
from benchmarks.timing import peak_memory
from benchmarks.trace import backward
backward({num_rays})
print(time.time(), peak_memory())
"""


def parameters():
    _, words = child(FIELD_SCENE.format(threads=THREADS, side=FIELD))
    one, many = map(float, words)
    ratio = many / one
    print(f"backward of a mesh mirror: {FIELD} x {FIELD} heights {many:.3f} s, one number {one:.3f} s")
    print(f"    {ratio:.2f} times   (at most {TARGETS['field']:g})")


def launches():
    """Processor time of each kernel, on one thread, a ray born and a cell of its launches: forward, then both ways."""
    import time
    from collections import defaultdict

    import nsq
    from benchmarks.trace import singlet
    from kernels.trace.command import Command

    spent = defaultdict(lambda: [0.0, 0])
    plain = Command.run

    def timed(self, dim, changed=None):
        start = time.thread_time()
        plain(self, dim, changed)
        row = spent[self._launch.kernel.key.split("__")[-1] + " adjoint" * self._launch.adjoint]
        row[0] += time.thread_time() - start
        row[1] += dim

    def profile(title, function):
        function()
        spent.clear()
        Command.run = timed
        try:
            function()
        finally:
            Command.run = plain
        print(f"one thread, {title}: ns a ray born, ns a ray of a launch")
        for name, (seconds, cells) in sorted(spent.items(), key=lambda item: -item[1][0]):
            print(f"    {name:20} {1e9 * seconds / PROFILED:8.1f} {1e9 * seconds / cells:8.1f}")

    nsq.set_num_threads(1)
    for precision in ("float64", "float32"):
        backend = nsq.TorchBackend(precision=precision)

        def trace(r1=100.0, backend=backend):
            return singlet(r1).trace(PROFILED, seed=42, backend=backend).detectors["map"].data

        profile(f"forward, {precision}", trace)
        profile(f"forward + backward, {precision}", lambda trace=trace: backward(PROFILED, trace))
    nsq.set_num_threads(THREADS)


def memory():
    peaks = [float(child(MEMORY.format(num_rays=10**power))[1][0]) for power in (6, 7, 8)]
    words = ", ".join(f"{peak:.0f} MB at 1e{power}" for power, peak in zip((6, 7, 8), peaks, strict=True))
    print(f"peak memory, forward + backward, mode prb: {words}")
    spread, most = max(peaks) - min(peaks), max(peaks)
    print(
        f"    within {spread:.0f} MB (at most {MEMORY_LIMITS[0]:g}), under {most:.0f} MB (at most {MEMORY_LIMITS[1]:g})"
    )


def main():
    import torch

    import nsq

    print(__doc__.splitlines()[0])
    torch.set_num_threads(THREADS)
    nsq.set_num_threads(THREADS)
    against_optiland()
    print()
    threads_and_batches()
    launches()
    print()
    parameters()
    memory()


if __name__ == "__main__":
    main()
