"""The ledger of a trace and the results of its detectors."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._names import ByDetector, BySurface
from ..diagnostics import Diagnostics, diagnose

if TYPE_CHECKING:
    from ..paths import EscapedFlux, GhostTable, PathTable, Replay
    from ..sampling import SamplingPolicy


@dataclass(frozen=True)
class SurfaceBooks:
    """What happened at one surface; fluxes in W.

    Attributes:
        num_hits: rays that met it. incident_flux: what they carried there.
        absorbed_flux: what it took as an absorber; coating_flux: what was lost in a mirror, a coating or a lobe.
        num_medium_mismatches: rays that came, at a refracting surface, through another medium than the one that the
            surface has on their side; medium_mismatch_flux: what they carried there. Such a surface bends light as
            between its own two media, whatever the light came through.
        mismatched_media: labels of the two, (of the light, of the surface on that side), or None where there were no
            such rays or several such pairs.
        num_shared_hits: rays that met it where another face lies on it, which are booked there.
    """

    num_hits: int
    incident_flux: float
    absorbed_flux: float
    coating_flux: float
    num_medium_mismatches: int = 0
    medium_mismatch_flux: float = 0.0
    mismatched_media: tuple[str, str] | None = None
    num_shared_hits: int = 0

    @property
    def reached(self) -> bool:
        """Whether any ray met it."""
        return self.num_hits + self.num_shared_hits > 0


@dataclass(repr=False)
class SimulationResult:
    """The outcome of a trace. Plain Python numbers, but for the results of the detectors; fluxes in W.

    Attributes:
        detectors: results by detector name, in order of registration.
        num_rays_total: rays traced.
        num_rays_absorbed: rays that ended at absorbing surfaces; num_rays_escaped: at nothing;
            num_rays_flux_killed: in Russian roulette; num_rays_depth_killed: at ``max_depth``.
        total_flux_in: of all sources.
        total_flux_detected: read by all detectors; total_flux_tapped: of it, by those that let rays pass.
        total_flux_absorbed: taken by absorbing surfaces; total_flux_coating: lost in mirrors and coatings;
            total_flux_bulk_absorbed: lost inside media; total_flux_escaped: carried away by rays that meet nothing.
        total_flux_lost: given up at ``max_depth`` and in roulette, less what roulette's survivors gained.
        total_flux_depth_killed: of rays given up at ``max_depth``; total_flux_roulette_killed: of rays that roulette
            ended, whatever its survivors gained.
        trace_time_sec: wall-clock time.
        ray_paths: None, or what ``record_paths`` recorded: ``{"events": array}``, one row of `nsq.paths.EVENT_DTYPE`
            for every birth, hit and loss of the recorded rays, in order of their ids. Positions in mm, flux in W,
            wavelengths in µm. A hit has the direction of arrival, the flux that arrives, and the number of hits before
            it; a death is one that nothing in the scene brought about, and ``component_name`` says why ("escaped",
            "depth_killed", "flux_killed"). Where rays split, ``"splits"`` says whom each split-off ray comes from.
        split_budget_saturated: whether a ray that could have split was not allowed to.
        surfaces: `SurfaceBooks` of every surface, by name.
        replay: the scene as it was traced, for tracing rays again; None in a result that was read from a file.
        medium_stack_underflows: times that a ray was refracted into vacuum without having been refracted into any
            medium since it last was in vacuum, or since its source, which counts as one if it stands in a medium.
        partial: whether the trace stopped before its last ray; fluxes are then estimates from the rays traced.
        stopped_by: what stopped it, "Ctrl-C", "max_seconds" or "target_error"; "" for a whole one.
        relative_errors: relative standard error of each detector's total flux, by name, from a long run; inf where
            too little arrived to say. Empty for other traces.
    """

    detectors: dict[str, Any] = field(default_factory=dict)
    num_rays_total: int = 0
    num_rays_absorbed: int = 0
    num_rays_escaped: int = 0
    num_rays_flux_killed: int = 0
    num_rays_depth_killed: int = 0
    total_flux_in: float = 0.0
    total_flux_detected: float = 0.0
    total_flux_tapped: float = 0.0
    total_flux_absorbed: float = 0.0
    total_flux_coating: float = 0.0
    total_flux_bulk_absorbed: float = 0.0
    total_flux_escaped: float = 0.0
    total_flux_lost: float = 0.0
    trace_time_sec: float = 0.0
    ray_paths: dict[str, Any] | None = None
    split_budget_saturated: bool = False
    surfaces: dict[str, SurfaceBooks] = field(default_factory=dict)
    medium_stack_underflows: int = 0
    total_flux_depth_killed: float = 0.0
    total_flux_roulette_killed: float = 0.0
    partial: bool = False
    stopped_by: str = ""
    relative_errors: dict[str, float] = field(default_factory=dict)
    replay: Replay | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self.detectors, self.surfaces = ByDetector(self.detectors), BySurface(self.surfaces)
        self.relative_errors = ByDetector(self.relative_errors)

    def paths(self, num_rays: int | None = None, policy: SamplingPolicy | None = None) -> PathTable:
        """All ways that the rays of this trace took, grouped by the parts they met and what happened there.

        The rays are traced again as they were, whatever was changed in the scene since.

        Args:
            num_rays: about how many rays to look at, at most those of the trace; None is all of them, up to a million.
                Of fewer than all, a sample is taken that does not depend on batches, and fluxes are scaled up.
            policy: how to sample. None is as in the trace, so that the table is an account of it. With another one
                the table is an independent estimate: ``SamplingPolicy(reflect_prob="auto")`` or one that splits finds
                far more rays that reflect.

        Raises TypeError and ValueError for wrong arguments, and RuntimeError for a result that was read from a file.
        """
        from ..paths.tables import paths_of

        return paths_of(self._replay(), num_rays, policy)

    def ghosts(
        self,
        detector: str,
        *,
        num_rays: int | None = None,
        policy: SamplingPolicy | None = None,
        min_reflections: int = 2,
    ) -> GhostTable:
        """The ghosts on a detector: light that was reflected at surfaces that refract, at least twice.

        Each row is one way through the scene, with its flux (W), standard error, share of all that the detector reads,
        number of rays, order (how many such reflections) and where they are. Total reflections and mirrors do not
        count. Arguments and errors are those of `paths`; an unknown detector raises ValueError.
        """
        from ..paths.tables import ghosts_at

        return ghosts_at(self._replay(), detector, num_rays, policy, min_reflections)

    def escaped(self, *, num_rays: int | None = None, num_theta: int = 36, num_phi: int = 72) -> EscapedFlux:
        """Where the light went that left the scene: by direction, and by the part that it last met.

        About ``num_rays`` rays are traced again (None: up to 200,000) and scaled to the whole; ``num_theta`` and
        ``num_phi`` are bins over the whole sphere. Raises as `paths` does.
        """
        from ..paths.escape import escaped_from

        return escaped_from(self._replay(), num_rays, num_theta, num_phi)

    def _replay(self) -> Replay:
        if self.replay is None:
            raise RuntimeError("this result does not come from a trace in this process; trace again to look at paths")
        return self.replay

    def medium_mismatches(self) -> list[str]:
        """One sentence for each surface that light reached through another medium than the one on its side.

        The surface with most of such flux comes first.
        """
        found = [(name, books) for name, books in self.surfaces.items() if books.num_medium_mismatches]
        return [
            f"{name}: {books.num_medium_mismatches} rays ({books.medium_mismatch_flux:.3g} W) came through"
            + (" other media than the surface has on their side" if books.mismatched_media is None
               else " {}, where the surface has {}".format(*books.mismatched_media))
            for name, books in sorted(found, key=lambda item: -item[1].medium_mismatch_flux)
        ]  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the result to an .npz file, all of it or nothing, and return its path (.npz is appended).

        Readings, paths and the ledger are kept exactly, graphs and ``replay`` are not. Raises OSError, and TypeError
        naming a field that a file does not hold.
        """
        from .saving import save_result

        return save_result(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SimulationResult:
        """Read what `save` wrote.

        Raises FileNotFoundError, and ValueError naming the file and the entry for anything but a whole result of this
        version.
        """
        from .saving import load_result

        return load_result(path)

    @property
    def flux_conservation_error(self) -> float:
        """|in - (detected - tapped) - absorbed - coating - bulk - escaped - lost| / in; 0 for no flux at all."""
        if self.total_flux_in == 0.0:
            return 0.0
        out = self.total_flux_detected - self.total_flux_tapped
        out += self.total_flux_absorbed + self.total_flux_coating + self.total_flux_bulk_absorbed
        out += self.total_flux_escaped + self.total_flux_lost
        return abs(self.total_flux_in - out) / self.total_flux_in

    @property
    def diagnostics(self) -> Diagnostics:
        """What to know before believing this result: findings with thresholds, as data and as text."""
        return diagnose(self)

    def report(self) -> str:
        """The ledger, the detectors, the surfaces and all warnings as text; the same as ``diagnostics.report()``."""
        return self.diagnostics.report()

    def plot(self) -> Any:
        """Draw the results of all detectors on a new figure and return it."""
        from ..plotting.results import draw_all

        return draw_all(self.detectors)

    def _repr_html_(self) -> str:
        from ..plotting.notebook import simulation_html

        return simulation_html(self)

    def __repr__(self) -> str:
        count = len(self.diagnostics.warnings())
        warned = f", {count} diagnostic warning{'s' if count > 1 else ''}" if count else ""
        return (
            f"SimulationResult({self.num_rays_total} rays, detectors={list(self.detectors)},"
            f" {self.total_flux_detected:.6g} of {self.total_flux_in:.6g} W detected,"
            f" flux_conservation_error={self.flux_conservation_error:.1e}, {self.trace_time_sec:.3g} s{warned})"
        )
