"""What every scatter lobe offers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..numbers import Number, check_constant


class BaseBSDF:
    """What every lobe offers. Attributes carry the constructor's names and may be reassigned.

    `validate` is called by the constructor and again before each trace; it raises TypeError and ValueError naming the
    attribute.

    Attributes:
        ROW: "specular", "lambertian", "radial", "tabulated" or "density".
        transmissive_fraction: probability that the lobe lies behind the surface.
        has_density: whether it scatters over an extended range of directions, so that it can be sampled otherwise.
    """

    ROW: str = ""
    has_density: bool = True
    transmissive_fraction: Number = 0.0

    def validate(self) -> None:
        """Check every attribute."""
        check_constant(self.transmissive_fraction, "transmissive_fraction", minimum=0.0, maximum=1.0)

    def numbers(self) -> tuple[Number, Number]:
        """The weight's constant factor, which may be differentiated, and the transmissive fraction, which may not."""
        return 1.0, self.transmissive_fraction

    def table(self) -> np.ndarray:
        """What else the device needs, a float64 array; each class says how it is laid out."""
        return np.zeros(0)

    def sample(
        self,
        n: int,
        incident: Any,
        normals: Any,
        wavelengths: Any,
        rng: Any,
        ray_id: Any,
        bounce: Any,
    ) -> tuple[Any, Any, Any]:
        """Directions of ``n`` scattered rays, by the trace's own rows.

        Args:
            n: how many.
            incident: (n, 3) unit directions of the rays that arrive.
            normals: (n, 3) unit normals that face them.
            wavelengths: (n,) in µm; no lobe here depends on it.
            rng, ray_id, bounce: an NSQRng, the rays' ids (n,) and their bounces, (n,) or one for all.

        Returns:
            directions (n, 3); weights (n,), of the flux; transmitted (n,) bool, whether the direction lies behind the
            surface.

        Raises TypeError for an ``rng`` that is none and ValueError for other shapes.
        """
        from ..intersect import scatter
        from ..rng import NSQRng

        for name, vectors in (("incident", incident), ("normals", normals)):
            if tuple(np.shape(vectors)) != (n, 3):
                raise ValueError(f"{name} got shape {tuple(np.shape(vectors))}; it takes ({n}, 3)")
        if not isinstance(rng, NSQRng) and not (rng is None and self.ROW == "specular"):
            raise TypeError(f"rng got {type(rng).__name__}; it takes an NSQRng")
        return scatter(self, incident, normals, rng, ray_id, bounce)

    def reflectance(self, incident: Any, normals: Any, wavelengths: Any) -> Any:
        """Mean weight (n,) of the lobe at each incidence: the share of the flux that it passes on, to both sides.

        Arguments as for `sample`. A float64 array, or an attached tensor where the lobe's reflectance requires a
        gradient.
        """
        raise NotImplementedError


def check_bsdf(bsdf: Any, name: str) -> Any:
    """Check the lobe of a surface and return it: None or one of this module's."""
    if bsdf is None:
        return None
    if not isinstance(bsdf, BaseBSDF):
        raise TypeError(
            f"{name} got {bsdf!r} of type {type(bsdf).__name__}; it takes None or a scatter lobe such as LambertianBSDF"
        )
    bsdf.validate()
    return bsdf


def cosines(incident: Any, normals: Any) -> np.ndarray:
    """|cos| of the angles of incidence, (n,)."""
    d, n = (np.asarray(v.detach() if isinstance(v, torch.Tensor) else v, dtype=np.float64) for v in (incident, normals))
    if d.ndim != 2 or d.shape[1] != 3 or d.shape != n.shape:
        raise ValueError(f"incident and normals got shapes {d.shape} and {n.shape}; both take (n, 3)")
    return np.minimum(np.abs(np.sum(d * n, axis=1)), 1.0)
