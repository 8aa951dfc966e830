"""Morton order: the boxes of the samples, the codes, the sort.

One scale serves every axis of a sample, so cells are cubes whatever the cloud's proportions. The sort is stable: points
with equal codes stay in the order of their indices. A sample's order does not depend on the samples beside it.
"""

from dataclasses import dataclass
from types import SimpleNamespace

import warp as wp

from kernels.modules import kernel_module
from kernels.points.launch import VECTORS, launch, once
from kernels.points.native import INTS

_BITS = 21  # an axis; three fill 63 bits of an int64
_TOP = wp.constant(wp.float32(2**_BITS - 1))
_ROWS_PER_PART = 4096
_BIG = wp.constant(wp.float32(3.4028234e38))
QUERY_BITS = 30


@dataclass(frozen=True)
class Frames:
    """Per sample: lower and upper corner (``wp.vec2`` or ``wp.vec3``) and cells per unit of length."""

    lower: wp.array
    upper: wp.array
    scale: wp.array


@wp.func
def sample_at(offsets: INTS, samples: int, row: int) -> int:
    """The sample that holds ``row``: the last whose offset is not beyond it."""
    low = int(0)
    high = int(samples)
    while high - low > 1:
        middle = (low + high) // 2
        if offsets[middle] <= row:
            low = middle
        else:
            high = middle
    return low


@wp.func
def spread3(value: wp.uint64) -> wp.uint64:
    """Two zero bits between each of the lowest 21 bits."""
    x = value & wp.uint64(0x1FFFFF)
    x = (x | (x << wp.uint64(32))) & wp.uint64(0x1F00000000FFFF)
    x = (x | (x << wp.uint64(16))) & wp.uint64(0x1F0000FF0000FF)
    x = (x | (x << wp.uint64(8))) & wp.uint64(0x100F00F00F00F00F)
    x = (x | (x << wp.uint64(4))) & wp.uint64(0x10C30C30C30C30C3)
    return (x | (x << wp.uint64(2))) & wp.uint64(0x1249249249249249)


@wp.func
def spread2(value: wp.uint64) -> wp.uint64:
    """One zero bit between each of the lowest 32 bits."""
    x = value & wp.uint64(0xFFFFFFFF)
    x = (x | (x << wp.uint64(16))) & wp.uint64(0x0000FFFF0000FFFF)
    x = (x | (x << wp.uint64(8))) & wp.uint64(0x00FF00FF00FF00FF)
    x = (x | (x << wp.uint64(4))) & wp.uint64(0x0F0F0F0F0F0F0F0F)
    x = (x | (x << wp.uint64(2))) & wp.uint64(0x3333333333333333)
    return (x | (x << wp.uint64(1))) & wp.uint64(0x5555555555555555)


@wp.func
def cell(x: wp.float32, lower: wp.float32, scale: wp.float32) -> wp.uint64:
    return wp.uint64(wp.int32(wp.clamp((x - lower) * scale, wp.float32(0.0), _TOP)))


@wp.func
def scale_of(extent: wp.float32) -> wp.float32:
    """Cells per unit; 0, a single cell that is split by count, without extent or where it over- or underflows."""
    inverse = _TOP / extent
    return wp.where(extent > 0.0 and inverse < _BIG, inverse, wp.float32(0.0))


@wp.func
def code(p: wp.vec3, lower: wp.vec3, scale: wp.float32) -> wp.uint64:
    x = spread3(cell(p[0], lower[0], scale))
    y = spread3(cell(p[1], lower[1], scale))
    z = spread3(cell(p[2], lower[2], scale))
    return x | (y << wp.uint64(1)) | (z << wp.uint64(2))


@wp.func
def code(p: wp.vec2, lower: wp.vec2, scale: wp.float32) -> wp.uint64:  # noqa: F811 (an overload for Warp)
    return spread2(cell(p[0], lower[0], scale)) | (spread2(cell(p[1], lower[1], scale)) << wp.uint64(1))


@once
def _kernels(dim):
    vector = VECTORS[dim]
    points_type = wp.array(dtype=vector)
    module = kernel_module(f"kernels.points.morton_{dim}d")
    # a query's code keeps the top QUERY_BITS of the code's dim * 21 bits
    query_shift = wp.constant(wp.uint64(dim * _BITS - QUERY_BITS))

    @wp.kernel(module=module)
    def bounds_of_parts(
        offset: int, points: points_type, offsets: INTS, parts: int, lower: points_type, upper: points_type
    ):
        t = offset + wp.tid()
        s = t // parts
        r = t % parts
        first = wp.int64(offsets[s])
        count = wp.int64(offsets[s + 1]) - first
        low = vector(_BIG)
        high = vector(-_BIG)
        start = wp.int32(first + count * wp.int64(r) / wp.int64(parts))
        stop = wp.int32(first + count * wp.int64(r + 1) / wp.int64(parts))
        for i in range(start, stop):
            p = points[i]
            low = wp.min(low, p)
            high = wp.max(high, p)
        lower[t] = low
        upper[t] = high

    @wp.kernel(module=module)
    def join_parts(
        offset: int,
        part_lower: points_type,
        part_upper: points_type,
        offsets: INTS,
        parts: int,
        lower: points_type,
        upper: points_type,
        scale: wp.array(dtype=wp.float32),
    ):
        s = offset + wp.tid()
        low = vector(_BIG)
        high = vector(-_BIG)
        for i in range(s * parts, (s + 1) * parts):
            low = wp.min(low, part_lower[i])
            high = wp.max(high, part_upper[i])
        if offsets[s] == offsets[s + 1]:
            low = vector(0.0)
            high = vector(0.0)
        lower[s] = low
        upper[s] = high
        scale[s] = scale_of(wp.max(high - low))

    @wp.kernel(module=module)
    def point_codes(
        offset: int,
        points: points_type,
        rows: INTS,
        use_rows: int,
        offsets: INTS,
        samples: int,
        lower: points_type,
        scale: wp.array(dtype=wp.float32),
        keys: wp.array(dtype=wp.int64),
        values: INTS,
    ):
        i = offset + wp.tid()
        r = int(i)
        if use_rows == 1:
            r = rows[i]
        s = sample_at(offsets, samples, r)
        keys[i] = wp.int64(code(points[r], lower[s], scale[s]))
        values[i] = r

    @wp.kernel(module=module)
    def sample_keys(offset: int, rows: INTS, offsets: INTS, samples: int, keys: INTS):
        i = offset + wp.tid()
        keys[i] = sample_at(offsets, samples, rows[i])

    @wp.kernel(module=module)
    def query_codes(
        offset: int,
        start: int,
        queries: points_type,
        rows_per_sample: int,
        sample_of: INTS,
        sample_bits: int,
        lower: points_type,
        scale: wp.array(dtype=wp.float32),
        keys: INTS,
        values: INTS,
    ):
        i = offset + wp.tid()
        r = start + i
        s = int(0)
        if rows_per_sample > 0:
            s = r // rows_per_sample
        else:
            s = sample_of[r]
        full = code(queries[r], lower[s], scale[s]) >> query_shift
        keys[i] = wp.int32(full >> wp.uint64(sample_bits)) | (s << (wp.static(QUERY_BITS) - sample_bits))
        values[i] = r

    return SimpleNamespace(
        bounds_of_parts=bounds_of_parts,
        join_parts=join_parts,
        point_codes=point_codes,
        sample_keys=sample_keys,
        query_codes=query_codes,
    )


def frames(points, offsets, samples, largest, dim, device):
    """The boxes of all samples. ``largest`` is the number of points of the largest one."""
    kernels = _kernels(dim)
    vector = VECTORS[dim]
    parts = max(1, -(-largest // _ROWS_PER_PART))
    part_lower, part_upper = (wp.empty(samples * parts, dtype=vector, device=device) for _ in range(2))
    lower, upper = (wp.empty(samples, dtype=vector, device=device) for _ in range(2))
    scale = wp.empty(samples, dtype=wp.float32, device=device)
    launch(
        kernels.bounds_of_parts,
        samples * parts,
        [points, offsets, parts, part_lower, part_upper],
        device,
        grain=max(1, 16384 // max(1, largest // parts)),
    )
    launch(kernels.join_parts, samples, [part_lower, part_upper, offsets, parts, lower, upper, scale], device)
    return Frames(lower, upper, scale)


def sort_points(points, offsets, samples, frame, dim, device):
    """``(keys, rows)``: codes in ascending order and the rows of ``points`` they belong to, sample after sample."""
    kernels = _kernels(dim)
    total = points.shape[0]
    keys = wp.empty(2 * total, dtype=wp.int64, device=device)  # the sort wants as much room again
    rows = wp.empty(2 * total, dtype=wp.int32, device=device)
    launch(
        kernels.point_codes,
        total,
        [points, rows, 0, offsets, samples, frame.lower, frame.scale, keys, rows],
        device,
    )
    wp.utils.radix_sort_pairs(keys, rows, total, 0, dim * _BITS)
    if samples > 1:
        by_sample = wp.empty(2 * total, dtype=wp.int32, device=device)
        launch(kernels.sample_keys, total, [rows, offsets, samples, by_sample], device)
        wp.utils.radix_sort_pairs(by_sample, rows, total, 0, (samples - 1).bit_length())
        launch(
            kernels.point_codes,
            total,
            [points, rows, 1, offsets, samples, frame.lower, frame.scale, keys, rows],
            device,
        )
    return keys, rows


def sort_queries(queries, start, count, rows_per_sample, sample_of, samples, frame, dim, device):
    """Rows ``start`` to ``start + count`` in the order of their cells, or None where sorting does not pay.

    Runs on one lane: the caller shares out the rows.
    """
    sample_bits = (samples - 1).bit_length()
    if sample_bits > 12:  # so many samples that each is small
        return None
    kernel = _kernels(dim).query_codes
    keys = wp.empty(2 * count, dtype=wp.int32, device=device)
    rows = wp.empty(2 * count, dtype=wp.int32, device=device)
    inputs = [0, start, queries, rows_per_sample, sample_of, sample_bits, frame.lower, frame.scale, keys, rows]
    wp.launch(kernel, count, inputs=inputs, device=device, record_tape=False)
    wp.utils.radix_sort_pairs(keys, rows, count, 0, QUERY_BITS)
    return rows


def query_kernel(dim):
    """The kernel that ``sort_queries`` launches, for loading it beforehand."""
    return _kernels(dim).query_codes
