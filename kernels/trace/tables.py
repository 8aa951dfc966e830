"""A scene as device arrays, and a run's constants: all that the wavefront knows of either."""

from dataclasses import dataclass

import numpy as np
import warp as wp

from kernels.precision import REALS
from kernels.rng import mix
from kernels.shapes.quadric import NUM_DOMAIN, NUM_NUMBERS, builds_of
from kernels.trace.boxes import BoxTree

_OF_ROWS = (("numbers", NUM_NUMBERS), ("domain", NUM_DOMAIN))


@dataclass(frozen=True)
class SourceRun:
    """The rays ``start <= id < stop`` of one source.

    ``line`` is its wavelength's index, or -1 if it has several; ``own_lines`` says that each ray then brings its own.
    ``block`` is where its table begins.
    """

    kind: int
    start: int
    stop: int
    medium: int
    line: int
    first_line: int
    num_lines: int
    block: int = 0
    own_lines: bool = False


@dataclass(frozen=True)
class Run:
    """What stays constant over a trace.

    ``scale`` is the number of quanta in a watt; ``faint`` the flux below which roulette begins (W); ``exact`` says that
    the branch probability is the reflectance itself; ``eps`` is the least distance to another surface (mm).
    Before the bounce ``split_depth`` rays split at refracting surfaces, up to ``split_budget`` live rays of one born.
    With ``sobol`` the draws of births are Sobol points.
    """

    seed: int
    sources: tuple
    max_depth: int
    scale: float
    faint: float
    exact: bool
    p_low: float
    p_high: float
    eps: float
    split_depth: int = 0
    split_budget: int = 1
    sobol: bool = False

    @property
    def init(self):
        """The seed's part of every random key."""
        return mix(self.seed & ((1 << 64) - 1))

    @property
    def num_rays(self):
        return self.sources[-1].stop if self.sources else 0

    def births(self, start, stop):
        """``(source index, source run, first id, last id + 1)`` of every source with rays in a batch of ids."""
        for index, source in enumerate(self.sources):
            first, last = max(start, source.start), min(stop, source.stop)
            if first < last:
                yield index, source, first, last


@dataclass(frozen=True)
class Tables:
    """The scene's numbers on one device, in one precision. Lanes share it and never write to it."""

    precision: str
    device: object
    numbers: wp.array
    domain: wp.array
    rows: wp.array
    index: wp.array
    extinction: wp.array
    reflectance: wp.array
    transmittance: wp.array
    attenuation: wp.array
    detector_numbers: wp.array
    detector_ints: wp.array
    detector_sigmas: wp.array
    source_numbers: wp.array
    shares: wp.array
    lobes: wp.array
    aims: wp.array
    media: wp.array
    angular: wp.array
    sag_numbers: wp.array
    sag_limits: wp.array
    limits: wp.array
    planes: wp.array
    medium_classes: wp.array
    triangles: wp.array
    triangle_of_row: wp.array
    cumulative: wp.array
    source_lines: wp.array
    source_table: wp.array
    num_rows: int
    num_surface_rows: int
    num_lines: int
    map_size: int
    scatters: bool
    aimed: bool
    turbid: bool
    coats: bool
    absorbs: bool
    angles: bool
    records: bool
    flat: bool
    linear_rows: tuple
    builds: tuple
    sags: tuple
    tree: object

    @property
    def gives(self):
        """Whether some interactions are given distance and normal."""
        return self.turbid or bool(self.sags)

    @property
    def full_scatter(self):
        """Whether scatter needs more than the common kernel: targets, or normals of sags."""
        return self.scatters and (self.aimed or bool(self.sags))

    @classmethod
    def build(cls, precision, device, floats, integers, *, boxes, **sizes):
        """From host arrays: ``floats`` by name in the trace's precision, ``integers`` in the type of their field.

        ``boxes`` are lower and upper corners (n, 3) of the rows in the tree.
        """
        real = REALS[precision]
        dtype = np.float64 if precision == "float64" else np.float32

        def upload(values, host, warp_type):
            # an empty array has no pointer that a kernel might be handed
            values = np.ascontiguousarray(values, dtype=host).ravel()
            return wp.array(values if values.size else np.zeros(1, host), dtype=warp_type, device=device)

        arrays = {name: upload(values, dtype, real) for name, values in floats.items()}
        arrays["rows"] = upload(integers["rows"], np.int64, wp.int64)
        for name in ("cumulative", "source_table"):  # float64 in every precision
            arrays[name] = upload(integers[name], np.float64, wp.float64)
        for name in ("detector_ints", "source_lines", "planes", "medium_classes", "triangle_of_row"):
            arrays[name] = upload(integers[name], np.int32, wp.int32)
        tree = None
        if len(boxes[0]):
            tree = BoxTree.build(
                *boxes, floats["triangles"], integers["triangle_of_row"], integers["tree_rows"], device
            )
        linear = list(sizes["linear_rows"])
        builds = builds_of(*(floats[name].reshape(-1, size)[linear] for name, size in _OF_ROWS))
        return cls(precision=precision, device=device, tree=tree, builds=builds, **arrays, **sizes)
