"""The tree over many rows: eight boxes a node, eight rows a block of a leaf, all in float32 about the scene's middle.

It is the tree that ``kernels.points`` searches; here it only names candidates, which the trace's precision decides.
Whatever float32 can round off is allowed for: boxes come grown, and triangles are tested with slack.
"""

from dataclasses import dataclass

import numpy as np
import warp as wp

from kernels.points import morton
from kernels.points.leaves import link_nodes
from kernels.points.native import FLOATS, twin
from kernels.points.ray_native import TRIANGLES
from kernels.points.ray_native import next_leaf as find_leaf
from kernels.points.tree import build_nodes

LEAF_SIZE = 32
# rows that are no triangles are boxes, with this added to their number
BOX = 1 << 30
# what a coordinate may be off, as a share of the largest one: some float32 roundings
_OFF = 4.0e-6
# corners of a row, and float32 cells of a block: three corners of three coordinates and a number, eight times
_CORNERS, BLOCK_CELLS = 3, 80


@dataclass(frozen=True)
class BoxTree:
    """A tree over rows; ``arguments`` are what a search takes of it."""

    nodes: wp.array
    cells: wp.array
    root: int
    middle: np.ndarray
    radius: float
    reach: float
    off: float
    kinds: int

    @classmethod
    def build(cls, lower, upper, triangles, triangle_of_row, rows, device):
        """From boxes (n, 3) of ``rows`` (n,), in float64; ``triangles`` (T, 9) are their corners where they are one."""
        middle = 0.5 * (lower.min(axis=0) + upper.max(axis=0))
        lower, upper = lower - middle, upper - middle
        which = np.asarray(triangle_of_row)[rows]
        flat = which >= 0
        corners = np.stack([lower, upper, lower], axis=1)
        corners[flat] = np.asarray(triangles).reshape(-1, 3, 3)[which[flat]] - middle
        number = np.where(flat, 0, BOX) + np.asarray(rows)
        total = len(rows)

        def vectors(values):
            return wp.array(np.ascontiguousarray(values, dtype=np.float32), dtype=wp.vec3, device=device)

        def empty(count):
            return wp.empty(count, dtype=wp.vec3, device=device)

        offsets = wp.array([0, total], dtype=wp.int32, device=device)
        centres = vectors(0.5 * (lower + upper))
        frame = morton.frames(centres, offsets, 1, total, 3, device)
        keys, order = morton.sort_points(centres, offsets, 1, frame, 3, device)
        order = order.numpy()[:total]
        numbers = wp.array(number[order].astype(np.int32), dtype=wp.int32, device=device)
        nodes = build_nodes(
            keys, vectors(lower[order]), vectors(upper[order]), numbers, vectors(corners[order].reshape(-1, 3)),
            _CORNERS, offsets, 1, 3, device, leaf_size=LEAF_SIZE, for_rays=True,
        )  # fmt: skip
        largest = float(np.abs(np.stack([lower, upper])).max())
        kinds = int(flat.any()) + 2 * int(not flat.all())
        radius = float(np.linalg.norm(np.maximum(np.abs(lower), np.abs(upper)).max(axis=0)))
        linked = link_nodes(nodes.children, nodes.ends, nodes.boxes, 3, device)
        root = int(nodes.roots.numpy()[0])
        return cls(linked, nodes.cells, root, middle, radius, largest, _OFF / 1.0e-6 * largest, kinds)

    def arguments(self, real):
        """Names and values for a search in the precision ``real``."""
        return {
            "nodes": self.nodes, "cells": self.cells, "root": self.root,
            "per_length": real(8.0 / max(self.reach, 1.0e-30)),
            "radius": real(self.radius), "off": wp.float32(self.off), "kinds": self.kinds,
            **{name: real(value) for name, value in zip(("mx", "my", "mz"), self.middle.tolist(), strict=True)},
        }  # fmt: skip


next_leaf = find_leaf(3)

_BOXES = """
    REAL enter = ZERO, leave = ZERO + limit;
    {
        REAL near0 = inverse[0] < 0.0f ? AT(3) : AT(0), far0 = inverse[0] < 0.0f ? AT(0) : AT(3);
        REAL near1 = inverse[1] < 0.0f ? AT(4) : AT(1), far1 = inverse[1] < 0.0f ? AT(1) : AT(4);
        REAL near2 = inverse[2] < 0.0f ? AT(5) : AT(2), far2 = inverse[2] < 0.0f ? AT(2) : AT(5);
        near0 = (near0 - o[0]) * inverse[0]; far0 = (far0 - o[0]) * inverse[0];
        near1 = (near1 - o[1]) * inverse[1]; far1 = (far1 - o[1]) * inverse[1];
        near2 = (near2 - o[2]) * inverse[2]; far2 = (far2 - o[2]) * inverse[2];
        enter = near0 > enter ? near0 : enter; leave = far0 < leave ? far0 : leave;
        enter = near1 > enter ? near1 : enter; leave = far1 < leave ? far1 : leave;
        enter = near2 > enter ? near2 : enter; leave = far2 < leave ? far2 : leave;
    }
    TRUTH boxed = (NUMBERS >= BOX) & (enter <= leave * 1.000001f);
"""


def _candidates():
    """Mask of a block's rows that a ray may meet within ``limit``. ``kinds`` says if there are triangles, boxes, both.

    The slack of a triangle grows by what its corners and the ray's origin may be off. A plane cannot be met again from
    itself, so the triangle ``last`` is none of them.
    """
    triangles = TRIANGLES.replace("REAL away = ", "REAL away = ZERO + off + ")
    assert triangles != TRIANGLES
    head = f"""
    const wp::float32 *p = cells.data + (size_t)block * {BLOCK_CELLS};
    const wp::float32 reach =
        (d[0] < 0.0f ? -d[0] : d[0]) + (d[1] < 0.0f ? -d[1] : d[1]) + (d[2] < 0.0f ? -d[2] : d[2]);
#define BOX {BOX}
"""
    cpu = """
#define REAL F8
#define TRUTH I8
#define ZERO ((F8){0, 0, 0, 0, 0, 0, 0, 0})
#define AT(row) LOAD8(p + 8 * (row))
#define NUMBERS LOAD8I((const wp::int32 *)(p + 72))
#define SIZE(x) ((x) < 0.0f ? -(x) : (x))
"""
    cuda = """
#define REAL wp::float32
#define TRUTH wp::int32
#define ZERO 0.0f
#define AT(row) p[8 * (row) + j]
#define NUMBERS ((const wp::int32 *)(p + 72))[j]
#define SIZE(x) ((x) < 0.0f ? -(x) : (x))
    wp::int32 mask = 0;
    for (wp::int32 j = 0; j < 8; ++j) {
"""
    flat = f"{{\n{triangles}    hit = ok & (NUMBERS < BOX) & (NUMBERS != last);\n    }}"
    both = f"""
    TRUTH hit = NUMBERS < -1;
    if (kinds & 1) {flat}
    if (kinds & 2) {{
{_BOXES}
    hit = hit | boxed;
    }}
"""
    return twin(
        head + cpu + both + "    return MASK8(hit);\n",
        head + cuda + both + "        mask |= (hit & 1) << j;\n    }\n    return mask;\n",
        "\n#undef REAL\n#undef TRUTH\n#undef ZERO\n#undef AT\n#undef NUMBERS\n#undef SIZE\n#undef BOX\n",
    )


@wp.func_native(_candidates())
def candidates(
    cells: FLOATS, block: int, o: wp.vec3, d: wp.vec3, inverse: wp.vec3, limit: wp.float32, off: wp.float32,
    kinds: int, last: int,
) -> int: ...  # fmt: skip
