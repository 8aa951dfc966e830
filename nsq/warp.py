"""The trace for programs that hold Warp arrays and no tensors, as a step on a ``wp.Tape``.

`prepare` says which numbers of a scene come from Warp arrays. `Door.trace` reads them, traces, and writes what the
detectors read into Warp arrays. Inside ``with wp.Tape() as tape:`` it puts one function on the tape, the adjoint of the
whole trace, so ``tape.backward`` goes from a loss through the trace into whatever kernels made the arrays:

    door = nsq.warp.prepare(scene, {"water": (surface.geometry, "vertices")})
    with wp.Tape() as tape:
        wp.launch(simulate, dim=n, inputs=[state], outputs=[vertices])
        readings = door.trace({"water": vertices}, num_rays=100_000)
        wp.launch(loss_of_map, dim=shape, inputs=[readings.maps["floor"]], outputs=[loss])
    tape.backward(loss)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import warp as wp

from ._names import ByDetector, UnknownNameError
from .backend import TorchBackend
from .numbers import suggest
from .results import FarFieldPattern, IrradianceMap, RayDatabase, SimulationResult, SpectralResult
from .scene import NSQScene

_SCALARS = {wp.float32: torch.float32, wp.float64: torch.float64}
_COLUMNS = ("x", "y", "z", "L", "M", "N", "flux", "path_length")
# result of a detector -> shape of its map
_SHAPES = {
    IrradianceMap: lambda r: (r.num_pixels_y, r.num_pixels_x),
    SpectralResult: lambda r: (r.num_bins, r.num_pixels_y, r.num_pixels_x),
    FarFieldPattern: lambda r: (r.num_bins_theta, r.num_bins_phi),
}


@dataclass(frozen=True)
class Readings:
    """What the detectors of one trace read, by detector name: float64 arrays, new in every trace.

    Attributes:
        maps: flux in W: (ny, nx) of an irradiance detector, (bins, ny, nx) of a spectral one, (theta, phi) of a
            far-field one.
        total_flux: (1,), W, of every detector; of a detector class of your own it is all there is.
        rays: columns x, y, z, L, M, N, flux, path_length of a ray database, each (rows,).
        result: the ledger and everything else that has no gradient here.
    """

    maps: dict[str, wp.array]
    total_flux: dict[str, wp.array]
    rays: dict[str, dict[str, wp.array]]
    result: SimulationResult


def prepare(
    scene: NSQScene,
    parameters: Mapping[str, Any],
    *,
    precision: str = "float64",
    gradient_mode: str = "prb",
    visibility: str = "band",
) -> Door:
    """A `Door` to a scene whose numbers come from Warp arrays.

    Args:
        scene: may be changed between traces.
        parameters: by a name of your choice, the place of a number or of a mesh's vertices, as a pair
            (object, "attribute"), such as ``(scene.surfaces[0].geometry, "radius")``, ``(detector.cs, "z")`` or
            ``(mesh, "vertices")``; or a list of places of single numbers, which one array fills in turn.
        precision, gradient_mode, visibility: as for `TorchBackend`.

    Raises TypeError for what is no scene or no place, AttributeError for a place that does not exist.
    """
    return Door(scene, parameters, precision=precision, gradient_mode=gradient_mode, visibility=visibility)


class Door:
    """A scene, and the places in it that Warp arrays fill; made by `prepare`."""

    def __init__(self, scene: NSQScene, parameters: Mapping[str, Any], **settings: str) -> None:
        if not isinstance(scene, NSQScene):
            raise TypeError(f"scene got {type(scene).__name__}; it takes an NSQScene")
        if not isinstance(parameters, Mapping):
            raise TypeError(f"parameters got {type(parameters).__name__}; it takes a dict of names and places")
        self.scene = scene
        self._places = {name: _places(name, value) for name, value in parameters.items()}
        self._settings = settings
        TorchBackend(**settings)  # raises for a value that does not exist

    def trace(
        self, arrays: Mapping[str, wp.array], num_rays: int, *, max_depth: int = 16, min_flux_fraction: float = 1e-6,
        batch_size: int = 32768, seed: int | None = None,
    ) -> Readings:  # fmt: skip
        """Trace with the values that the arrays hold now.

        While a ``wp.Tape`` is recording and any of the arrays requires a gradient, the readings require one too, and
        the tape's backward pass adds the derivatives to the arrays' ``grad``. The values are copied: an array may be
        written again afterwards, as Warp's own rules for its kernels allow.

        Args:
            arrays: for every parameter an array of dtype float32 or float64, shape (n,) for n places; vertices may be
                (V, 3), or (V,) of ``wp.vec3`` or ``wp.vec3d``. All on one device, where the trace runs.
            num_rays, max_depth, min_flux_fraction, batch_size, seed: as for `NSQTracer.trace`.

        Raises KeyError for a parameter without an array or an array without a parameter, TypeError and ValueError
        naming the parameter for arrays of another kind, dtype, shape or device, RuntimeError for an array that requires
        a gradient but stands behind nothing that the trace differentiates, and what `NSQTracer.trace` raises.
        """
        self._check_names(arrays)
        tape = _open_tape()
        leaves = {name: _leaf(name, array, self._places[name], tape is not None) for name, array in arrays.items()}
        devices = {str(array.device) for array in arrays.values()}
        if len(devices) > 1:
            raise ValueError(f"arrays are on {sorted(devices)}; they take one device")
        device = next((wp.device_to_torch(array.device) for array in arrays.values()), None)
        backend = TorchBackend(**self._settings, device=device)
        attached = any(leaf.requires_grad for leaf in leaves.values())
        with self._bound(leaves), torch.set_grad_enabled(attached), _tape_set_aside():
            result = backend.trace(
                self.scene, num_rays, max_depth=max_depth, min_flux_fraction=min_flux_fraction, batch_size=batch_size,
                seed=seed,
            )  # fmt: skip
            outputs = _Outputs(attached)
            readings = outputs.readings(result)
        if attached:
            wanted = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
            _check_reached(wanted, outputs.tensors)
            tape.record_func(
                lambda: _backward(outputs, wanted, arrays), [*outputs.arrays, *(arrays[name] for name in wanted)]
            )
        return readings

    def _check_names(self, arrays: Mapping[str, Any]) -> None:
        for name in arrays:
            if name not in self._places:
                hint = suggest(str(name), self._places)
                raise UnknownNameError(f"arrays got {name!r}; the parameters are {list(self._places)}.{hint}")
        missing = [name for name in self._places if name not in arrays]
        if missing:
            raise UnknownNameError(f"arrays lack the parameters {missing}")

    @contextlib.contextmanager
    def _bound(self, leaves: dict[str, torch.Tensor]) -> Iterator[None]:
        """The scene with the leaves in their places, for as long as it is lowered and traced."""
        before = []
        try:
            for name, leaf in leaves.items():
                places = self._places[name]
                values = leaf.unbind(0) if leaf.dim() == 1 else [leaf]
                for (holder, attribute), value in zip(places, values, strict=True):
                    before.append((holder, attribute, getattr(holder, attribute)))
                    setattr(holder, attribute, value)
            yield
        finally:
            for holder, attribute, value in reversed(before):
                setattr(holder, attribute, value)

    def __repr__(self) -> str:
        return f"Door({self.scene!r}, parameters={list(self._places)})"


class _Outputs:
    """Pairs of a tensor and the Warp array that holds its values."""

    def __init__(self, attached: bool) -> None:
        self._attached = attached
        self.tensors: list[torch.Tensor] = []
        self.arrays: list[wp.array] = []

    def _array(self, tensor: torch.Tensor) -> wp.array:
        wrapped = wp.from_torch(tensor.detach().contiguous(), dtype=wp.float64, requires_grad=False)
        array = wp.clone(wrapped, requires_grad=self._attached)
        if self._attached and tensor.requires_grad:
            self.tensors.append(tensor)
            self.arrays.append(array)
        return array

    def readings(self, result: SimulationResult) -> Readings:
        maps, totals, rays = ByDetector(), ByDetector(), ByDetector()
        for name, reading in result.detectors.items():
            totals[name] = self._array(reading.total_flux.reshape(1))
            shape = next((_SHAPES[kind] for kind in type(reading).__mro__ if kind in _SHAPES), None)
            if shape is not None:
                maps[name] = self._array(reading.data.reshape(shape(reading)))
            elif isinstance(reading, RayDatabase):
                rays[name] = {column: self._array(getattr(reading, column)) for column in _COLUMNS}
        return Readings(maps, totals, rays, result)


def _places(name: str, value: Any) -> list[tuple[Any, str]]:
    places = value if isinstance(value, list) else [value]
    for place in places:
        if not (isinstance(place, tuple) and len(place) == 2 and isinstance(place[1], str)):
            raise TypeError(f"parameter {name!r} got {place!r}; it takes (object, 'attribute') or a list of such pairs")
        holder, attribute = place
        if not hasattr(holder, attribute):
            hint = suggest(attribute, [known for known in dir(holder) if not known.startswith("_")])
            raise AttributeError(f"parameter {name!r}: {type(holder).__name__} has no attribute {attribute!r}.{hint}")
    if not places:
        raise ValueError(f"parameter {name!r} got an empty list; it takes at least one place")
    return places


def _is_vertices(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == 2


def _leaf(name: str, array: Any, places: list[tuple[Any, str]], recording: bool) -> torch.Tensor:
    """A copy of the array's values as a float64 leaf, (n,) for numbers and (V, 3) for vertices."""
    if not isinstance(array, wp.array):
        raise TypeError(f"array {name!r} got {type(array).__name__}; it takes a wp.array")
    scalar = getattr(array.dtype, "_wp_scalar_type_", array.dtype)
    if scalar not in _SCALARS:
        raise TypeError(f"array {name!r} got dtype {array.dtype.__name__}; it takes float32, float64 or vec3 of them")
    values = torch.from_numpy(array.numpy())  # waits for the kernels that write the array
    meshes = [_is_vertices(getattr(*place)) for place in places]
    if any(meshes):
        if len(places) > 1:
            raise ValueError(f"parameter {name!r} has vertices among {len(places)} places; it takes them alone")
        takes: Sequence[int] = tuple(getattr(*places[0]).shape)
    else:
        takes = (len(places),)
    if tuple(values.shape) != tuple(takes):
        raise ValueError(f"array {name!r} got shape {tuple(values.shape)}; it takes {tuple(takes)}")
    leaf = values.to(device=wp.device_to_torch(array.device), dtype=torch.float64, copy=True)
    return leaf.requires_grad_(recording and bool(array.requires_grad))


def _backward(outputs: _Outputs, leaves: dict[str, torch.Tensor], arrays: Mapping[str, wp.array]) -> None:
    """Add the derivatives behind the readings' ``grad`` to the parameters' ``grad``."""
    upstream = [
        torch.from_numpy(array.grad.numpy()).to(tensor.device)
        for tensor, array in zip(outputs.tensors, outputs.arrays, strict=True)
    ]
    gradients = torch.autograd.grad(outputs.tensors, list(leaves.values()), upstream, retain_graph=True)
    for name, gradient in zip(leaves, gradients, strict=True):
        into = arrays[name].grad
        into.assign((into.numpy() + gradient.detach().cpu().numpy()).astype(into.numpy().dtype))


def _check_reached(leaves: dict[str, torch.Tensor], outputs: list[torch.Tensor]) -> None:
    """Raise for a leaf that no graph behind the outputs ends in: its gradient would be a silent zero."""
    seen, todo, reached = set(), [tensor.grad_fn for tensor in outputs], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        reached.add(id(getattr(node, "variable", None)))
        todo += [parent for parent, _ in node.next_functions]
    for name, leaf in leaves.items():
        if id(leaf) not in reached:
            raise RuntimeError(
                f"parameter {name!r} requires a gradient, but nothing that the detectors read is differentiated with"
                " respect to it; docs/gradients.md says what is"
            )


def _open_tape() -> wp.Tape | None:
    """The tape that records on this process now. Warp has no public name for it."""
    wp.init()
    from warp._src.context import runtime

    return runtime.tape


@contextlib.contextmanager
def _tape_set_aside() -> Iterator[None]:
    """No tape: what the trace does inside is differentiated as a whole."""
    from warp._src.context import runtime

    tape, runtime.tape = runtime.tape, None
    try:
        yield
    finally:
        runtime.tape = tape


__all__ = ["Door", "Readings", "prepare"]
