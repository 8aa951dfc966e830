"""Triangle meshes as shapes."""

from __future__ import annotations

import functools
import importlib.util
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ._files import read_bounded
from ._names import named_arguments
from .geometries import Geometry
from .numbers import check_number, watched

_FILES = ("stl", "obj", "ply")
_LONGEST_FILE = 512 * 1024 * 1024  # bytes
_FLAT = 1e-14  # a triangle is degenerate below this area, relative to its longest side squared


# kinds of CAD files by their endings
_CAD = {"step": "step", "stp": "step", "iges": "iges", "igs": "iges"}
_LONGEST_CONVERSION = 600.0  # seconds
_CONVERT = """
import sys
import cascadio
kind, tolerance = sys.argv[1:]
sys.stdout.buffer.write(cascadio.load(sys.stdin.buffer.read(), file_type=kind, tol_linear=float(tolerance)))
"""


def _triangulated(path: str | os.PathLike[str], raw: bytes, kind: str, tolerance: float) -> bytes:
    """A CAD file as GLB, by a process of its own: a damaged file may bring a CAD kernel down."""
    if importlib.util.find_spec("cascadio") is None:
        raise ImportError(f"reading a {kind} file needs the package cascadio; install it with: pip install 'nsq[cad]'")
    command = [sys.executable, "-c", _CONVERT, kind, repr(tolerance)]
    try:
        done = subprocess.run(command, input=raw, capture_output=True, timeout=_LONGEST_CONVERSION, check=False)
    except subprocess.TimeoutExpired:
        raise ValueError(f"path got {os.fspath(path)!r}, whose faces took too long; try a larger tolerance") from None
    # the kernel reports on the standard output too
    start = done.stdout.find(b"glTF")
    if done.returncode or start < 0:
        raise ValueError(f"path got {os.fspath(path)!r}, which is no {kind} file, or was damaged")
    return done.stdout[start:]


@named_arguments
class MeshGeometry(Geometry):
    """A surface of triangles.

    n_geom is each triangle's normal by the right-hand rule, (b - a) x (c - a) for corners a, b, c: outwards on a solid
    wound as usual, so that ``material_front`` is what is inside.

    Args:
        mesh: (vertices, faces), or an object that has both, such as a ``trimesh.Trimesh``. Vertices are (V, 3) in mm,
            an array, or a tensor of dtype float32 or float64, which is kept as the object it is and may require a
            gradient; faces are (F, 3) integers, the corners of each triangle.

    Attributes:
        mesh: what was given; reassignable.
        vertices: (V, 3) tensor; reassignable. faces: (F, 3) int64 array.

    Raises TypeError for what is no mesh, and ValueError for other shapes, vertices that are not finite, corners that do
    not exist and triangles without area, naming the first of them.
    """

    ROW = "mesh"

    def __init__(self, mesh: Any) -> None:
        self.mesh = mesh

    @classmethod
    def load(cls, path: str | os.PathLike[str], scale: float = 1.0, *, tolerance: float = 0.01) -> MeshGeometry:
        """The mesh of an STL, OBJ or PLY file, whose lengths times ``scale`` are mm; or of a STEP or IGES file.

        A CAD file knows its units: its lengths are turned into mm first, and its curved faces into triangles that lie
        within ``tolerance`` mm of them. That needs the extra ``cad``.

        Vertices that coincide become one, and triangles without area are left out with a warning. Materials and other
        files that a file refers to are not looked at.

        Raises FileNotFoundError, ImportError where ``trimesh`` or ``cascadio`` is not installed, and ValueError naming
        the file for one of another kind, one that was cut or damaged, one of more than 512 MiB, and one without
        triangles.
        """
        check_number(scale, "scale", positive=True)
        check_number(tolerance, "tolerance", positive=True)
        if not Path(path).is_file():
            raise FileNotFoundError(f"path got {os.fspath(path)!r}, where there is no file")
        try:
            import trimesh
        except ModuleNotFoundError as error:
            raise ImportError(
                "reading a mesh from a file needs the package trimesh; install it with: pip install 'nsq[mesh]'"
            ) from error
        kind = Path(path).suffix.lower().removeprefix(".")
        if kind not in _FILES and kind not in _CAD:
            raise ValueError(f"path got {os.fspath(path)!r}; it takes a file that ends in one of {(*_FILES, *_CAD)}")
        raw = read_bounded(path, _LONGEST_FILE)
        if kind in _CAD:
            raw, kind = _triangulated(path, raw, _CAD[kind], float(tolerance)), "glb"
            scale = 1000.0 * float(scale)  # that format is in metres
        try:
            loaded = trimesh.load_scene(io.BytesIO(raw), file_type=kind).to_mesh()
            vertices = np.asarray(loaded.vertices, dtype=np.float64).reshape(-1, 3)
            faces = np.asarray(loaded.faces, dtype=np.int64).reshape(-1, 3)
        except MemoryError:
            raise
        except Exception as error:  # trimesh lets through whatever its parsers stumble over
            what = f"{kind} file, or was damaged: {type(error).__name__}: {str(error)[:200]}"
            raise ValueError(f"path got {os.fspath(path)!r}, which is no {what}") from error
        if faces.size == 0:
            raise ValueError(f"path got {os.fspath(path)!r}, which holds no triangles")
        bad = ~np.isfinite(vertices).all(axis=1)
        if bad.any() or faces.min() < 0 or faces.max() >= len(vertices):
            first = f"vertex {int(np.argmax(bad))} is not finite" if bad.any() else "a triangle has no such vertex"
            raise ValueError(f"path got {os.fspath(path)!r}, which was damaged: {first}")
        vertices, where = np.unique(vertices * float(scale), axis=0, return_inverse=True)
        faces = where.reshape(-1)[faces]
        flat = _degenerate(vertices, faces)
        if flat.all():
            raise ValueError(f"path got {os.fspath(path)!r}, which holds no triangles with an area")
        if flat.any():
            warnings.warn(f"{os.fspath(path)!r}: {int(flat.sum())} triangles without area left out", stacklevel=2)
        return cls((vertices, faces[~flat]))

    @property
    def mesh(self) -> Any:
        return self._mesh

    @mesh.setter
    def mesh(self, mesh: Any) -> None:
        if hasattr(mesh, "vertices") and hasattr(mesh, "faces"):
            vertices, faces = mesh.vertices, mesh.faces
        else:
            try:
                vertices, faces = mesh
            except (TypeError, ValueError):
                kind = type(mesh).__name__
                raise TypeError(f"mesh got {kind}; it takes (vertices, faces) or a trimesh.Trimesh") from None
        self._mesh = mesh
        self.vertices, self.faces = _as_vertices(vertices), _as_faces(faces)
        self.validate()

    def validate(self) -> None:
        self.vertices = _as_vertices(self.vertices)
        plain = self.vertices.detach().cpu().numpy().astype(np.float64)
        bad = ~np.isfinite(plain).all(axis=1)
        if bad.any():
            first = int(np.argmax(bad))
            raise ValueError(f"vertices got {plain[first].tolist()} at {first}; they take finite numbers, in mm")
        outside = ((self.faces < 0) | (self.faces >= len(plain))).any(axis=1)
        if outside.any():
            first = int(np.argmax(outside))
            raise ValueError(
                f"faces got {self.faces[first].tolist()} at {first}; they take indices from 0 to {len(plain) - 1}"
            )
        flat = _degenerate(plain, self.faces)
        if flat.any():
            first = int(np.argmax(flat))
            raise ValueError(
                f"faces got {int(flat.sum())} triangles without area, the first of them {self.faces[first].tolist()} at"
                f" {first}; they take triangles with an area"
            )

    def triangles(self) -> torch.Tensor:
        """Corners (F, 3, 3) float64 of every triangle in mm, attached to ``vertices``."""
        vertices = watched(self.vertices).to(torch.float64)
        return vertices[torch.as_tensor(self.faces, device=vertices.device)]

    @property
    def face_normals(self) -> torch.Tensor:
        """Unit normals (F, 3) float64, attached to ``vertices``: n_geom of each triangle."""
        a, b, c = self.triangles().unbind(1)
        across = torch.linalg.cross(b - a, c - a)
        return across / torch.linalg.vector_norm(across, dim=1, keepdim=True)

    @property
    def is_watertight(self) -> bool:
        """Whether every edge belongs to two triangles that run along it in opposite directions.

        Corners at the same place count as one, also where they are different vertices.
        """
        _, where = np.unique(self.vertices.detach().cpu().numpy(), axis=0, return_inverse=True)
        return _closed(where.reshape(-1)[self.faces])

    @property
    def volume(self) -> float:
        """What a watertight mesh encloses, mm³: positive where n_geom points outwards. Detached."""
        with torch.no_grad():
            a, b, c = self.triangles().unbind(1)
            return float((a * torch.linalg.cross(b, c)).sum()) / 6.0

    def __repr__(self) -> str:
        return f"MeshGeometry({len(self.vertices)} vertices, {len(self.faces)} triangles)"


def _closed(faces: np.ndarray) -> bool:
    ends = faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2).astype(np.int64)
    size = int(ends.max()) + 1
    ahead, back = np.sort(ends[:, 0] * size + ends[:, 1]), np.sort(ends[:, 1] * size + ends[:, 0])
    return bool(np.array_equal(ahead, back) and np.all(np.diff(ahead) > 0))


def _degenerate(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    sides = (b - a, c - b, a - c)
    longest = functools.reduce(np.maximum, (np.sum(side * side, axis=1) for side in sides))
    double_area = np.linalg.norm(np.cross(sides[0], sides[2]), axis=1)
    return ~(double_area > _FLAT * longest)


def _as_vertices(vertices: Any) -> torch.Tensor:
    if not isinstance(vertices, torch.Tensor):
        try:
            vertices = torch.as_tensor(np.array(vertices, dtype=np.float64))
        except (TypeError, ValueError):
            raise TypeError(f"vertices got {type(vertices).__name__}; they take numbers, shape (V, 3)") from None
    if vertices.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"vertices got a tensor of dtype {vertices.dtype}; they take float32 or float64")
    if vertices.dim() != 2 or vertices.shape[1] != 3:
        raise ValueError(f"vertices got shape {tuple(vertices.shape)}; they take (V, 3)")
    return vertices


def _as_faces(faces: Any) -> np.ndarray:
    array = faces.detach().cpu().numpy() if isinstance(faces, torch.Tensor) else np.asarray(faces)
    if array.ndim != 2 or array.shape[1] != 3 or array.shape[0] == 0:
        raise ValueError(f"faces got shape {array.shape}; they take (F, 3), at least one")
    if array.dtype.kind not in "iu":
        raise TypeError(f"faces got dtype {array.dtype}; they take integers, indices of vertices")
    return array.astype(np.int64)
