"""Where escaped light went: by direction, and by the part that it last met."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from kernels.trace import layout as at
from kernels.trace.watch import Action, Births, Meeting

from ..numbers import check_count
from ..results.farfield import FarFieldPattern
from .replay import Replay

# rays that are looked at unless told otherwise
_MOST_RAYS = 200_000


@dataclass(frozen=True)
class EscapedFlux:
    """Light that left the scene.

    Attributes:
        pattern: `FarFieldPattern` in world coordinates over the whole sphere: theta is the angle to +z, 0 to 180
            degrees, and phi the azimuth from +x towards +y.
        parts: {name: flux in W} by the part that the light last met, or its source where it met none, the largest
            first.
        num_rays: rays looked at, of num_rays_total traced.
    """

    pattern: FarFieldPattern
    parts: dict[str, float]
    num_rays: int = field(default=0)
    num_rays_total: int = field(default=0)

    @property
    def total_flux(self) -> float:
        """All of it, W."""
        return self.pattern.total_flux_float

    def table(self) -> str:
        """The parts as text."""
        lines = [f"escaped: {self.total_flux:.6g} W, from {self.num_rays} of {self.num_rays_total} rays"]
        lines += [f"{flux:>12.5g} W  last at {name}" for name, flux in self.parts.items()]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


class _Sink:
    """Escaped rays of one batch: ids, directions, fluxes, and the number of what each last met."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self.found: list[tuple[np.ndarray, ...]] = []

    def born(self, births: Births) -> None:
        self._last = len(self._replay.labels) + self._replay.source_of(births.ids)

    def met(self, meeting: Meeting) -> None:
        last, going = self._last[meeting.parent], []
        met = self._replay.parts_of(meeting.row)
        for part in meeting.parts:
            gone = np.flatnonzero(part.action == Action.ESCAPE)
            of = part.of[gone]
            self.found.append((meeting.ids[of], part.states[at.L : at.FLUX, gone], meeting.flux[of], last[of]))
            going.append(met[part.of[part.goes_on]])
        self._last = np.concatenate(going)


def escaped_from(replay: Replay, num_rays: int | None, num_theta: int, num_phi: int) -> EscapedFlux:
    """Look at about ``num_rays`` rays again, and collect those that escape."""
    ids = replay.sample(_MOST_RAYS if num_rays is None else check_count(num_rays, "num_rays"))
    num_theta, num_phi = check_count(num_theta, "num_theta"), check_count(num_phi, "num_phi")
    found = [columns for sink in replay.watch(ids, lambda: _Sink(replay)) for columns in sink.found]
    nothing = (np.zeros(0, np.int64), np.zeros((3, 0)), np.zeros(0), np.zeros(0, np.int64))
    rays, ways, flux, last = (np.concatenate(column, axis=-1) for column in zip(nothing, *found, strict=True))
    sources = len(replay.source_names)
    looked = np.bincount(replay.source_of(ids), minlength=sources)
    flux = flux * (replay.rays_of_sources() / np.maximum(looked, 1))[replay.source_of(rays)]
    theta = np.degrees(np.arctan2(np.hypot(ways[0], ways[1]), ways[2]))
    phi = np.degrees(np.arctan2(ways[1], ways[0]))
    cells = np.minimum((theta / 180.0 * num_theta).astype(int), num_theta - 1) * num_phi
    cells = cells + np.minimum(((phi + 180.0) / 360.0 * num_phi).astype(int), num_phi - 1)
    data = np.bincount(cells, weights=flux, minlength=num_theta * num_phi)
    pattern = FarFieldPattern(
        name="escaped", data=torch.tensor(data), num_bins_theta=num_theta, num_bins_phi=num_phi, theta_max_deg=180.0,
        num_rays_hit=len(rays), total_flux=torch.tensor(float(flux.sum()), dtype=torch.float64),
    )  # fmt: skip
    names = (*replay.labels, *replay.source_names)
    by_part = np.bincount(last, weights=flux, minlength=len(names))
    order = [k for k in np.argsort(-by_part, kind="stable") if by_part[k] > 0.0]
    return EscapedFlux(pattern, {names[k]: float(by_part[k]) for k in order}, len(ids), replay.options.num_rays)
