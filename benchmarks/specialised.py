"""The singlet of `trace` as a program written for this one scene in Dr.Jit: how far a general tracer is from the limit.

Two spheres and a plate are all that it knows: no edge, no media, no books, random numbers that need not be replayed by
key. Its gradient is a derivative in forward mode with respect to the one number that it has. It needs LLVM's shared
library, which Dr.Jit looks for by itself or at DRJIT_LIBLLVM_PATH, and is left out where there is none.
"""

import math
from functools import partial

from benchmarks.timing import measure
from benchmarks.trace import RAYS, RAYS_BACKWARD, THREADS, backward, repeat, singlet

FRONT, BACK, PLATE = 50.0, 55.0, 150.0  # vertices and plate on the axis, mm
RADIUS, BEAM, APERTURE, HALF, INDEX, PIXELS = 100.0, 5.0, 12.5, 10.0, 1.5187, 16
DEPTH = 16


def load():
    """Dr.Jit if it is installed and finds LLVM, otherwise None."""
    try:
        import drjit as dr
    except ModuleNotFoundError:
        return None
    return dr if dr.has_backend(dr.JitBackend.LLVM) else None


class Program:
    """The scene in one precision."""

    def __init__(self, dr, precision):
        import drjit.llvm.ad as ad

        self.dr, self.real = dr, ad.Float64 if precision == "float64" else ad.Float32
        self.index, self.random, self.wide = ad.UInt32, ad.PCG32, ad.Float64
        square = dr.linspace(self.wide, -1.0, 1.0, PIXELS) ** 2
        columns = dr.arange(ad.UInt32, PIXELS * PIXELS)
        # of the second moment with respect to each pixel
        self.slope = self.real(
            dr.gather(self.wide, square, columns % PIXELS) + dr.gather(self.wide, square, columns // PIXELS)
        )

    def sphere(self, p, d, z, radius):
        """Distance to the sheet next to the vertex, infinite where it is missed."""
        dr = self.dr
        w = p[2] - z
        c = 1.0 / radius
        a = c
        b = d[2] - c * (p[0] * d[0] + p[1] * d[1] + w * d[2])
        e = c * (p[0] * p[0] + p[1] * p[1] + w * w) - 2.0 * w
        under = b * b - a * e
        # the root that stays finite for a plane
        t = e / (b + dr.mulsign(dr.sqrt(dr.select(under > 0.0, under, 0.0)), b))
        x, y = dr.fma(t, d[0], p[0]), dr.fma(t, d[1], p[1])
        met = (under >= 0.0) & (t > 1e-4) & (x * x + y * y <= APERTURE**2)
        return dr.select(met, t, math.inf)

    def trace(self, num_rays, front, deposit, seed=42):
        """Trace rays through a lens of this front radius; returns what ``deposit(x, y, active)`` gave each ray."""
        dr, real = self.dr, self.real
        rng = self.random(size=num_rays, initstate=seed)
        uniform = rng.next_float64 if real is self.wide else rng.next_float32
        r, phi = BEAM * dr.sqrt(real(uniform())), 2.0 * math.pi * real(uniform())
        sine, cosine = dr.sincos(phi)
        zero = dr.zeros(real, num_rays)
        state = (r * cosine, r * sine, zero, +zero, +zero, zero + 1.0, rng, dr.full(dr.mask_t(real), True, num_rays))
        # what is differentiated must be among the states of a loop
        state = (*state, dr.zeros(self.index, num_rays), front, zero + 1.0, +zero)

        def body(x, y, z, u, v, w, rng, active, depth, front, weight, read):
            p, d = (x, y, z), (u, v, w)
            t1, t2 = self.sphere(p, d, FRONT, front), self.sphere(p, d, BACK, -RADIUS)
            t3 = (PLATE - z) / w
            px, py = dr.fma(t3, u, x), dr.fma(t3, v, y)
            t3 = dr.select((t3 > 0.0) & (abs(px) < HALF) & (abs(py) < HALF), t3, math.inf)
            first = t1 < t2  # comparisons, since LLVM before 16 has no vector minimum
            t = dr.select(first, t1, t2)
            arrives = active & (t3 < t)
            read = read + weight * deposit(px, py, arrives)
            active = active & (t < t3)
            t = dr.select(active, t, 0.0)
            x, y, z = (dr.fma(t, b, a) for a, b in zip(p, d, strict=True))
            c = dr.select(first, 1.0 / front, -1.0 / RADIUS)
            # a normal that points along the axis
            nx, ny, nz = -c * x, -c * y, 1.0 - c * (z - dr.select(first, FRONT, BACK))
            cos_i = u * nx + v * ny + w * nz
            # forwards through the front face, backwards through the back face: into the glass
            enters = (cos_i > 0.0) == first
            eta = dr.select(enters, 1.0 / INDEX, INDEX)
            side = dr.sign(cos_i)
            cos_i = abs(cos_i)
            under = 1.0 - eta * eta * (1.0 - cos_i * cos_i)
            cos_t = dr.sqrt(dr.select(under > 0.0, under, 1.0))
            s = (eta * cos_i - cos_t) / (eta * cos_i + cos_t)
            q = (cos_i - eta * cos_t) / (cos_i + eta * cos_t)
            share = dr.select(under > 0.0, 0.5 * (s * s + q * q), 1.0)
            chance = real(rng.next_float64() if real is self.wide else rng.next_float32())
            reflects = chance < dr.detach(share)
            # a choice is detached, the weight of what was chosen keeps its derivative
            chosen = dr.select(reflects, share, 1.0 - share)
            weight = weight * dr.select(active, chosen / dr.detach(chosen), 1.0)
            along = dr.select(reflects, -2.0 * cos_i * side, (cos_t - eta * cos_i) * side)
            eta = dr.select(reflects, 1.0, eta)
            u, v, w = dr.fma(along, nx, eta * u), dr.fma(along, ny, eta * v), dr.fma(along, nz, eta * w)
            depth = depth + 1
            return x, y, z, u, v, w, rng, active & (depth < DEPTH), depth, front, weight, read

        return dr.while_loop(state, lambda *s: s[7], body, label="bounces")[-1]

    def splat(self, x, y):
        """The four pixels around a point and their shares."""
        dr, scale = self.dr, PIXELS / (2.0 * HALF)
        x, y = (x + HALF) * scale - 0.5, (y + HALF) * scale - 0.5
        column, row = dr.floor(x), dr.floor(y)
        a, b = x - dr.detach(column), y - dr.detach(row)
        for i, j, share in ((0, 0, (1 - a) * (1 - b)), (1, 0, a * (1 - b)), (0, 1, (1 - a) * b), (1, 1, a * b)):
            at, up = (dr.select(k < 0, 0, dr.select(k >= PIXELS, PIXELS - 1, k)) for k in (column + i, row + j))
            yield self.index(up) * PIXELS + self.index(at), share

    def forward(self, num_rays):
        """The map of a watt, row by row."""
        dr = self.dr
        pixels = dr.zeros(self.real, PIXELS * PIXELS)

        def deposit(x, y, active):
            for pixel, share in self.splat(x, y):
                dr.scatter_add(pixels, share, pixel, active)
            return 0.0

        self.trace(num_rays, self.real(RADIUS), deposit)
        pixels /= num_rays
        dr.eval(pixels)
        dr.sync_thread()
        return pixels

    def backward(self, num_rays):
        """The derivative of the second moment with respect to the front radius."""
        dr = self.dr
        front = self.real(RADIUS)
        dr.enable_grad(front)

        def deposit(x, y, active):
            slopes = (share * dr.gather(self.real, self.slope, pixel, active) for pixel, share in self.splat(x, y))
            return dr.select(active, sum(slopes), 0.0)

        # the map comes first, as for any loss that is not a sum over pixels
        self.forward(num_rays)
        read = self.trace(num_rays, front, deposit)
        dr.forward_from(front)
        return float(dr.sum(self.wide(dr.grad(read)))[0]) / num_rays


def check(program, num_rays=1_000_000):
    """Print what program and tracer find, which must agree to their noise; the program knows no visibility."""
    import numpy as np

    import nsq

    plain = nsq.TorchBackend(visibility="off")
    flux = float(np.asarray(program.forward(num_rays)).sum())
    our_flux = singlet().trace(num_rays, seed=1).detectors["map"].total_flux_float
    slope = program.backward(num_rays)

    def gradient(seed):
        return backward(
            num_rays, lambda r1: singlet(r1).trace(num_rays, seed=seed, backend=plain).detectors["map"].data
        )

    ours = [gradient(seed) for seed in range(1, 5)]
    noise = math.sqrt(2.0 * flux * (1.0 - flux) / num_rays)
    print(f"flux on the map {flux:.4f} and {our_flux:.4f} W, standard error {noise:.4f}")
    error = np.std(ours, ddof=1) * math.sqrt(1.25)
    print(f"gradient, visibility off: {slope:.2e} and {np.mean(ours):.2e}, standard error {error:.1e}\n")


def main():
    import torch

    import nsq

    print(__doc__.splitlines()[0])
    dr = load()
    if dr is None:
        print("Dr.Jit or LLVM's shared library is missing: left out (pip install drjit; DRJIT_LIBLLVM_PATH)")
        return
    torch.set_num_threads(THREADS)
    nsq.set_num_threads(THREADS)
    dr.set_thread_count(THREADS)
    print(f"{'rays per second':40} {'nsq':>12} {'Dr.Jit':>12} {'ratio':>8}")
    for precision in ("float64", "float32"):
        program = Program(dr, precision)
        backend = nsq.TorchBackend(precision=precision)

        def forward(num, backend=backend):
            return singlet().trace(num, seed=42, backend=backend)

        def gradient(num, backend=backend):
            return backward(num, lambda r1: singlet(r1).trace(num, seed=42, backend=backend).detectors["map"].data)

        if precision == "float64":
            check(program)
        for name, num, mine, other in (
            (f"forward, {precision}", 4 * RAYS, forward, program.forward),
            (f"forward + backward, {precision}", 4 * RAYS_BACKWARD, gradient, program.backward),
        ):
            mine(num), other(num)
            a, b = measure(partial(repeat, mine, num), partial(repeat, other, num))
            print(f"{name:40} {num / a.median:12.4g} {num / b.median:12.4g} {b.median / a.median:8.2f}")


if __name__ == "__main__":
    main()
