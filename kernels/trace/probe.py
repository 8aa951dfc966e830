"""The trace's own rows on small arrays: nearest surface, point and normal there, and a source's rays.

These serve methods of single objects. They launch the kernels of the wavefront, so there is no second implementation.
"""

import functools
from dataclasses import dataclass

import numpy as np
import warp as wp

from kernels.bsdfs.frames import frames
from kernels.modules import kernel_module
from kernels.precision import INT, bundle, ldi, select_int
from kernels.rng import pcg32, slot_key, uniform_of
from kernels.shapes.quadric import ANY, NUM_NUMBERS, quadric
from kernels.trace import layout as at
from kernels.trace.boxes import BoxTree
from kernels.trace.command import Command
from kernels.trace.emit import emit_kernel, line_kernel
from kernels.trace.sags import locate_sag_kernel, search_sag_kernel
from kernels.trace.scatter import lobe_of
from kernels.trace.search import FAR, search_kernel
from kernels.trace.state import State
from kernels.trace.tree import ray_lists, tree_kernels

PRECISION = "float64"
# rows of what `locate` gives: distance and geometric normal
NUM_LOCATED = 4


@functools.cache
def locate_kernel(backward=False):
    """Distance to the surface hit, by the detached root and one Newton step, and its unit normal."""
    b = bundle(PRECISION)
    real, array = b.real, b.array
    ld, st, ld_fixed, ld_number, select, sqrt, detach = (
        b.ld, b.st, b.ld_fixed, b.ld_number, b.select, b.sqrt, b.detach,
    )  # fmt: skip
    implicit = quadric(PRECISION).implicit
    module = kernel_module("kernels.trace.probe.adjoint" if backward else "kernels.trace.probe", backward=backward)

    @wp.kernel(module=module, enable_backward=backward)
    def locate(floats: array, distance: array, row_hit: INT, numbers: array, acc: array, out: array, n: wp.int64):
        i = wp.tid()
        x = ld(floats, wp.static(at.X), n, i)
        y = ld(floats, wp.static(at.Y), n, i)
        z = ld(floats, wp.static(at.Z), n, i)
        u = ld(floats, wp.static(at.L), n, i)
        v = ld(floats, wp.static(at.M), n, i)
        w = ld(floats, wp.static(at.N), n, i)
        found = ldi(row_hit, 0, n, i)
        valid = found >= 0
        r = select_int(valid, found, 0) * wp.static(NUM_NUMBERS)
        tx = ld_number(numbers, r, acc, 0, n, i)
        ty = ld_number(numbers, r + 1, acc, 1, n, i)
        tz = ld_number(numbers, r + 2, acc, 2, n, i)
        ax = ld_number(numbers, r + 3, acc, 3, n, i)
        ay = ld_number(numbers, r + 4, acc, 4, n, i)
        az = ld_number(numbers, r + 5, acc, 5, n, i)
        a = ld_number(numbers, r + 6, acc, 6, n, i)
        d = ld_number(numbers, r + 7, acc, 7, n, i)
        g = ld_number(numbers, r + 8, acc, 8, n, i)
        e = ld_number(numbers, r + 9, acc, 9, n, i)
        zero = real(0.0)
        one = real(1.0)
        t0 = select(valid, ld_fixed(distance, i), zero)
        qx = x + t0 * u - tx
        qy = y + t0 * v - ty
        qz = z + t0 * w - tz
        s = ax * qx + ay * qy + az * qz
        slope = d * s + g
        toward = (a * qx + slope * ax) * u + (a * qy + slope * ay) * v + (a * qz + slope * az) * w
        toward = detach(real(2.0) * select(valid, toward, one))
        step = -implicit(qx, qy, qz, s, a, d, g, e) / select(toward == zero, one, toward)
        step = select(valid, step, zero)
        hx = qx + step * u
        hy = qy + step * v
        hz = qz + step * w
        s = ax * hx + ay * hy + az * hz
        slope = d * s + g
        gx = a * hx + slope * ax
        gy = a * hy + slope * ay
        gz = a * hz + slope * az
        g2 = gx * gx + gy * gy + gz * gz
        inv = one / sqrt(select(valid, select(g2 > zero, g2, one), one))
        st(out, 0, n, i, select(valid, t0 + step, zero))
        st(out, 1, n, i, select(valid, gx * inv, zero))
        st(out, 2, n, i, select(valid, gy * inv, zero))
        st(out, 3, n, i, select(valid, gz * inv, zero))

    return locate


def _upload(values, dtype=np.float64, real=wp.float64):
    values = np.ascontiguousarray(values, dtype=dtype).ravel()
    return wp.array(values if values.size else np.zeros(1, dtype), dtype=real, device="cpu")


@dataclass(frozen=True)
class Surfaces:
    """Surfaces as host arrays; the fields are those of a scene's rows and tables.

    ``numbers`` (rows, 10) and ``sag_numbers`` (S,) have gradients. ``rows`` (rows, integers of a row) says which rows
    are sags, ``tree`` holds the rows in the tree and their boxes' lower and upper corners.
    """

    numbers: np.ndarray
    sag_numbers: np.ndarray
    domain: np.ndarray
    rows: np.ndarray
    triangles: np.ndarray
    triangle_of_row: np.ndarray
    linear_rows: tuple
    tree: tuple
    sags: tuple
    sag_limits: np.ndarray


def nearest(rays, surfaces, eps):
    """Distances and rows (-1 for none) that rays (6, n) meet first."""
    n = rays.shape[1]
    ints = np.zeros((at.NUM_INTS, max(1, n)), dtype=np.int32)
    ints[at.LAST], ints[at.STATE] = -1, at.ALIVE
    distance = wp.full(at.NUM_DISTANCES * max(1, n), FAR, dtype=wp.float64, device="cpu")
    row_hit = wp.full(max(1, n), -1, dtype=wp.int32, device="cpu")
    tree_rows, lower, upper = surfaces.tree
    shared = {
        "floats": _upload(rays), "ints": _upload_ints(ints), "distance": distance, "row_hit": row_hit,
        "numbers": _upload(surfaces.numbers), "domain": _upload(surfaces.domain), "eps": wp.float64(eps), "first": 0,
        "surfaces": 0,
        "n": wp.int64(n), "triangles": _upload(surfaces.triangles),
        "triangle_of_row": _upload_ints(surfaces.triangle_of_row), "sag_numbers": _upload(surfaces.sag_numbers),
        "sag_limits": _upload(surfaces.sag_limits),
    }  # fmt: skip
    if n:
        for row in surfaces.linear_rows:
            Command(search_kernel(PRECISION, 1, ANY), "cpu", {**shared, "row": row}).run(n)
        if len(tree_rows):
            rows = surfaces.triangles, surfaces.triangle_of_row, tree_rows
            tree = BoxTree.build(lower, upper, *rows, wp.get_device("cpu"))
            names = {**shared, **tree.arguments(wp.float64), "lists": ray_lists(n, wp.get_device("cpu"))}
            for kernel in tree_kernels(PRECISION, wp.get_device("cpu")):
                Command(kernel, "cpu", names).run(n)
        for row, code, block, limits in surfaces.sags:
            names = {**shared, "row": row, "code": code, "block": block, "limits": limits}
            Command(search_sag_kernel(PRECISION), "cpu", names).run(n)
    return distance.numpy()[:n].copy(), row_hit.numpy()[:n].copy()


def locate(rays, surfaces, distance, row_hit):
    """(4, n): distance and unit normal where rays (6, n) meet the surfaces ``row_hit``; zeros for misses."""
    n = rays.shape[1]
    out = wp.zeros(NUM_LOCATED * max(1, n), dtype=wp.float64, device="cpu")
    if n:
        names = _located(rays, surfaces, distance, row_hit, out)
        Command(locate_kernel(), "cpu", names).run(n)
        if surfaces.sags:
            # writes the rays that met a sag and no other
            Command(locate_sag_kernel(PRECISION), "cpu", {**names, "given": out}).run(n)
    return out.numpy()[: NUM_LOCATED * n].reshape(NUM_LOCATED, n).copy()


def locate_adjoint(rays, surfaces, distance, row_hit, upstream):
    """Gradients of rays (6, n), numbers (rows, 10) and sag numbers (S,) from that of `locate`'s result."""
    n = rays.shape[1]
    sums, sag_sums = np.zeros_like(surfaces.numbers), np.zeros_like(surfaces.sag_numbers)
    if not n:
        return np.zeros_like(rays), sums, sag_sums
    on_sag = (row_hit >= 0) & (surfaces.rows[row_hit, at.SAG] >= 0)
    out = wp.zeros(NUM_LOCATED * n, dtype=wp.float64, device="cpu")
    names = _located(rays, surfaces, distance, np.where(on_sag, -1, row_hit), out)
    names["floats"].grad, out.grad = wp.zeros(6 * n, dtype=wp.float64, device="cpu"), _upload(upstream)
    adjoints = {"floats": names["floats"].grad, "out": out.grad}
    Command(locate_kernel(backward=True), "cpu", names, adjoints).run(n)
    met = (row_hit >= 0) & ~on_sag
    np.add.at(sums, row_hit[met], names["acc"].numpy().reshape(NUM_NUMBERS, n).T[met])
    if on_sag.any():
        sag_gradient = _upload(sag_sums)
        names = _located(rays, surfaces, distance, row_hit, out) | {"floats": names["floats"], "given": out}
        adjoints |= {"sag_numbers": sag_gradient, "given": out.grad}
        Command(locate_sag_kernel(PRECISION, backward=True), "cpu", names, adjoints).run(n)
        sag_sums = sag_gradient.numpy().copy()
    return adjoints["floats"].numpy().reshape(6, n).copy(), sums, sag_sums


def _located(rays, surfaces, distance, row_hit, out):
    n = rays.shape[1]
    alive = np.zeros((at.NUM_INTS, n), dtype=np.int32)
    alive[at.STATE] = at.ALIVE
    return {
        "floats": _upload(rays), "distance": _upload(distance), "row_hit": _upload_ints(row_hit),
        "numbers": _upload(surfaces.numbers), "acc": wp.zeros(NUM_NUMBERS * n, dtype=wp.float64, device="cpu"),
        "out": out, "n": wp.int64(n), "ints": _upload_ints(alive), "sag_numbers": _upload(surfaces.sag_numbers),
        "rows": wp.array(surfaces.rows.ravel(), dtype=wp.int64, device="cpu"),
    }  # fmt: skip


def _upload_ints(values):
    return _upload(values, np.int32, wp.int32)


@functools.cache
def lobe_kernel():
    """One lobe's sampler on arrays."""
    b, vec3 = bundle(PRECISION), frames(PRECISION).vec3
    real, array = b.real, b.array
    vectors, u64 = wp.array(dtype=vec3), wp.array(dtype=wp.uint64)
    uniform, lobe = uniform_of(PRECISION), lobe_of(PRECISION)
    u1_key, u2_key, lobe_key = (wp.uint64(slot_key(slot)) for slot in (7, 8, 10))

    @wp.kernel(module=kernel_module("kernels.trace.probe"), enable_backward=False)
    def sample_lobe(
        code: int, share: real, behind_share: real, table: array, incident: vectors, normals: vectors, ids: u64,
        jumps_a: u64, jumps_c: u64, init: wp.uint64, direction: vectors, weight: array, behind: INT,
    ):  # fmt: skip
        i = wp.tid()
        is_behind = int(0)
        if uniform(pcg32(ids[i], init, wp.static(lobe_key), jumps_a[i], jumps_c[i])) < behind_share:
            is_behind = int(1)
        u1 = uniform(pcg32(ids[i], init, wp.static(u1_key), jumps_a[i], jumps_c[i]))
        u2 = uniform(pcg32(ids[i], init, wp.static(u2_key), jumps_a[i], jumps_c[i]))
        d, w = lobe(code, u1, u2, is_behind, incident[i], normals[i], share, table, 0)
        direction[i] = d
        weight[i] = w
        behind[i] = is_behind

    return sample_lobe


def sample_lobe(code, share, behind_share, table, incident, normals, seed_init, ids, jumps):
    """Directions (n, 3), weights (n,) and whether they lie behind (n,) of a lobe about rays and normals (n, 3)."""
    n, vec3 = len(ids), frames(PRECISION).vec3
    direction = np.zeros((n, 3))
    weight, behind = np.zeros(n), np.zeros(n, dtype=np.int32)
    if n:
        keys = [
            wp.array(np.ascontiguousarray(k, dtype=np.uint64), dtype=wp.uint64, device="cpu") for k in (ids, *jumps)
        ]
        vectors = [wp.array(np.ascontiguousarray(v, dtype=np.float64), dtype=vec3, device="cpu")
                   for v in (incident, normals)]  # fmt: skip
        out = (wp.zeros(n, dtype=vec3, device="cpu"), wp.zeros(n, dtype=wp.float64, device="cpu"),
               wp.zeros(n, dtype=wp.int32, device="cpu"))  # fmt: skip
        wp.launch(
            lobe_kernel(), n,
            inputs=[code, wp.float64(share), wp.float64(behind_share), _upload(table), *vectors, *keys,
                    wp.uint64(seed_init), *out],
            device="cpu", record_tape=False,
        )  # fmt: skip
        direction, weight, behind = (a.numpy().copy() for a in out)
    return direction, weight, behind.astype(bool)


def _runs(ids):
    """(offset, first id, length) of every stretch of consecutive ids."""
    breaks = np.flatnonzero(np.diff(ids) != 1) + 1
    starts = np.concatenate([[0], breaks]) if len(ids) else np.zeros(0, int)
    stops = np.concatenate([breaks, [len(ids)]])
    return [(int(a), int(ids[a]), int(b - a)) for a, b in zip(starts, stops, strict=False)]


def emit(ids, init, source, numbers, table, cumulative, own_lines):
    """Floats (8, n) and line numbers (n,) of the rays ``ids`` that a source row emits.

    ``cumulative`` (W,) holds the spectrum's lines; ``own_lines`` says that the rays' lines come from the ``table``.
    """
    n = len(ids)
    state = State.empty(PRECISION, wp.get_device("cpu"), max(1, n))
    count_lines = len(cumulative)
    names = _emitted(state, numbers, table, init, n) | {
        "cumulative": _upload(cumulative), "lines": _upload_ints(np.arange(count_lines)), "count": count_lines,
        "line": -1 if own_lines else 0,
    }  # fmt: skip
    for offset, first, count in _runs(np.asarray(ids)):
        where = {"floats": state.floats[offset:], "ints": state.ints[offset:], "base": wp.uint64(first)}
        Command(emit_kernel(PRECISION, source, False, False), "cpu", {**names, **where}).run(count)
        if count_lines > 1 and not own_lines:
            Command(line_kernel(PRECISION, False), "cpu", {**names, **where}).run(count)
    floats = state.floats.numpy()[: at.NUM_FLOATS * n].reshape(at.NUM_FLOATS, n).copy()
    return floats, state.ints.numpy()[: at.NUM_INTS * n].reshape(at.NUM_INTS, n)[at.WAVELENGTH].copy()


def emit_adjoint(ids, init, source, numbers, table, upstream):
    """Gradient of a source's numbers (17,) from that of the floats (8, n) it emitted."""
    n = len(ids)
    state = State.empty(PRECISION, wp.get_device("cpu"), max(1, n))
    gradient = _upload(upstream)
    names = _emitted(state, numbers, table, init, n)
    total = np.zeros(at.NUM_SOURCE)
    for offset, first, count in _runs(np.asarray(ids)):
        floats = state.floats[offset:]
        floats.grad = gradient[offset:]
        where = {"floats": floats, "ints": state.ints[offset:], "base": wp.uint64(first)}
        kernel = emit_kernel(PRECISION, source, True, False)
        Command(kernel, "cpu", {**names, **where}, {"floats": floats.grad}).run(count)
        acc = names["acc"].numpy()[: at.NUM_SOURCE * n].reshape(at.NUM_SOURCE, n)
        total += acc[:, :count].sum(axis=1)
    return total


def _emitted(state, numbers, table, init, n):
    return {
        "floats": state.floats, "ints": state.ints, "numbers": _upload(numbers),
        "acc": wp.zeros(at.NUM_SOURCE * max(1, n), dtype=wp.float64, device="cpu"), "base": wp.uint64(0),
        "init": wp.uint64(init), "first": 0, "source": 0, "medium": 0, "line": int(0), "n": wp.int64(n),
        "table": _upload(table), "block": 0, "lines": _upload_ints([0]), "start": 0,
    }  # fmt: skip
