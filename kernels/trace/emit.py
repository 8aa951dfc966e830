"""Birth of rays: position, direction and flux from the source's numbers, the spectral line from its weights."""

import functools

import warp as wp

from kernels import sources
from kernels.modules import kernel_module
from kernels.precision import DOUBLES, INT, bundle, sti
from kernels.rng import uniform_of
from kernels.sobol import bits_of
from kernels.trace import layout as at


def _without_gradient(variates, real, in_space):
    """Random numbers carry no gradient, whatever their sampler loops over: give it an adjoint that does nothing."""
    if in_space:

        @wp.func_grad(variates)
        def adj_variates(
            id: wp.uint64, init: wp.uint64, table: DOUBLES, block: int, p0: real, p1: real, p2: real, p3: real,
            a0: real, a1: real, a2: real, a3: real, a4: real, a5: real, a6: real,
        ):  # fmt: skip
            pass

    else:

        @wp.func_grad(variates)
        def adj_variates(
            id: wp.uint64, init: wp.uint64, table: DOUBLES, block: int, p0: real, p1: real, p2: real, p3: real,
            a0: real, a1: real, a2: real, a3: real, a4: real,
        ):  # fmt: skip
            pass

    return variates


@functools.cache
def emit_kernel(precision, kind, backward, sobol):
    """The kernel that emits rays of the source row ``kind``; ``first`` is the batch's number of the first one.

    ``line`` is the spectral line of all rays, or -1 where each brings the number of its own, counted from ``start`` in
    ``lines``.
    """
    b = bundle(precision)
    real, array, st, st_plain, ld_number = b.real, b.array, b.st, b.st_plain, b.ld_number
    sampler, place = sources.ROWS[kind].build(precision, sobol)
    in_space = sources.is_in_space(kind)
    variates = _without_gradient(sampler, real, in_space)
    name = f"emit_{sources.ROWS[kind].NAME}" + ("_sobol" if sobol else "")
    # adjoints are slow to compile, so each source has a module of its own and a scene loads what it uses; so has each
    # row with a table
    plain = f"kernels.trace.{precision}" + (".sobol" if sobol else "")
    plain = f"kernels.trace.{precision}.{name}" if sources.has_table(kind) else plain
    module = kernel_module(f"kernels.trace.{precision}.{name}.adjoint" if backward else plain, backward=backward)

    def emit(
        floats: array, ints: INT, numbers: array, acc: array, table: DOUBLES, lines: INT, source: int, block: int,
        base: wp.uint64, init: wp.uint64, first: int, medium: int, line: int, start: int, n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        s = source * wp.static(at.NUM_SOURCE)
        xx = ld_number(numbers, s, acc, 0, n, i)
        xy = ld_number(numbers, s + 1, acc, 1, n, i)
        xz = ld_number(numbers, s + 2, acc, 2, n, i)
        yx = ld_number(numbers, s + 3, acc, 3, n, i)
        yy = ld_number(numbers, s + 4, acc, 4, n, i)
        yz = ld_number(numbers, s + 5, acc, 5, n, i)
        zx = ld_number(numbers, s + 6, acc, 6, n, i)
        zy = ld_number(numbers, s + 7, acc, 7, n, i)
        zz = ld_number(numbers, s + 8, acc, 8, n, i)
        tx = ld_number(numbers, s + 9, acc, 9, n, i)
        ty = ld_number(numbers, s + 10, acc, 10, n, i)
        tz = ld_number(numbers, s + 11, acc, 11, n, i)
        flux = ld_number(numbers, s + 12, acc, 12, n, i)
        p0 = ld_number(numbers, s + 13, acc, 13, n, i)
        p1 = ld_number(numbers, s + 14, acc, 14, n, i)
        p2 = ld_number(numbers, s + 15, acc, 15, n, i)
        p3 = ld_number(numbers, s + 16, acc, 16, n, i)
        slot = first + i
        if wp.static(in_space):
            x, y, z, u, v, w, own = variates(base + wp.uint64(slot), init, table, block, p0, p1, p2, p3)
            st(floats, wp.static(at.X), n, i, xx * x + xy * y + xz * z + tx)
            st(floats, wp.static(at.Y), n, i, yx * x + yy * y + yz * z + ty)
            st(floats, wp.static(at.Z), n, i, zx * x + zy * y + zz * z + tz)
            own_line = line
            if line < 0:
                own_line = lines[start + int(own)]
            sti(ints, wp.static(at.WAVELENGTH), n, i, own_line)
        else:
            v0, v1, v2, v3, v4 = variates(base + wp.uint64(slot), init, table, block, p0, p1, p2, p3)
            x, y, u, v, w = place(v0, v1, v2, v3, v4, p0, p1, p2, p3)
            st(floats, wp.static(at.X), n, i, xx * x + xy * y + tx)
            st(floats, wp.static(at.Y), n, i, yx * x + yy * y + ty)
            st(floats, wp.static(at.Z), n, i, zx * x + zy * y + tz)
            sti(ints, wp.static(at.WAVELENGTH), n, i, line)
        st(floats, wp.static(at.L), n, i, xx * u + xy * v + xz * w)
        st(floats, wp.static(at.M), n, i, yx * u + yy * v + yz * w)
        st(floats, wp.static(at.N), n, i, zx * u + zy * v + zz * w)
        st(floats, wp.static(at.FLUX), n, i, flux)
        st_plain(floats, wp.static(at.PATH), n, i, real(0.0))
        sti(ints, wp.static(at.SLOT), n, i, slot)
        sti(ints, wp.static(at.MEDIUM), n, i, medium)
        sti(ints, wp.static(at.LAST), n, i, -1)
        sti(ints, wp.static(at.STATE), n, i, wp.static(at.ALIVE))

    return wp.kernel(emit, name=name, module=module, enable_backward=backward)


@functools.cache
def line_kernel(precision, sobol):
    """Spectral lines of a source that has several: the first whose cumulative weight reaches the random number."""
    b = bundle(precision)
    array = b.array
    uniform = uniform_of("float64")
    bits = bits_of(4, sobol)
    module = kernel_module(f"kernels.trace.{precision}" + (".sobol" if sobol else ""))

    @wp.kernel(module=module, enable_backward=False)
    def choose_line(
        floats: array, ints: INT, cumulative: wp.array(dtype=wp.float64), lines: INT, start: int, count: int,
        base: wp.uint64, init: wp.uint64, first: int, n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        id = base + wp.uint64(first + i)
        u = uniform(bits(id, init))
        k = int(0)
        while k < count - 1 and cumulative[start + k] < u:
            k += 1
        sti(ints, wp.static(at.WAVELENGTH), n, i, lines[start + k])

    return choose_line
