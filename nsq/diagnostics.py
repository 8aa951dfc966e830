"""What a trace says about itself: where its result is incomplete, noisy, or not what the scene was meant to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .numbers import to_float

if TYPE_CHECKING:
    from .results import SimulationResult
    from .results.simulation import SurfaceBooks

# shares of the sources' flux, and mean hits of a pixel, from which on a warning is due
_DEPTH, _ROULETTE, _CONSERVATION = 1e-3, 1e-3, 0.05
_FEW_HITS = 10.0
# hits of a pixel that make its standard error 5 % of its flux, 1 / 0.05**2
_HITS_FOR_5_PERCENT = 400.0
# surfaces in a report
_MOST_SURFACES = 40


@dataclass(frozen=True)
class DetectorDiagnostic:
    """How well a detector is sampled.

    Attributes:
        name: of the detector. num_rays_hit: rays that it read.
        num_pixels: pixels of its map in space or angle; None where it has none.
        mean_hits_per_pixel: None without pixels.
        undersampled: whether that is below 10, where a pixel's standard error exceeds 30 % of its flux.
        rays_needed_for_5pct: rays of a trace that brings the mean pixel to a standard error of 5 %, as long as the
            scene stays the same; None without pixels and without hits.
        total_flux: that it read, W.
    """

    name: str
    num_rays_hit: int
    num_pixels: int | None
    mean_hits_per_pixel: float | None
    undersampled: bool
    rays_needed_for_5pct: int | None
    total_flux: float = 0.0


@dataclass(frozen=True)
class LedgerEntry:
    """One line of the ledger: flux in W, and how many rays it belongs to, or None where that says nothing."""

    label: str
    flux: float
    num_rays: int | None = None


@dataclass(frozen=True)
class Diagnostics:
    """What is worth knowing before a result is believed. Fractions are of the sources' flux.

    Attributes:
        depth_truncated_flux_fraction: given up at ``max_depth``: what deeper paths carry is missing.
        rr_killed_flux_fraction: of rays ended by Russian roulette; others carry it on, so it is noise and no loss.
        flux_conservation_error: what the ledger leaves unexplained.
        unreached_geometry: names of surfaces that no ray met.
        detectors: a `DetectorDiagnostic` for each, in order of registration.
        medium_stack_underflows: times that a ray left a medium for vacuum that it never went into.
        split_budget_saturated: whether a ray that could have split was not allowed to.
        coating_loss_flux_fraction: lost in mirrors, coatings and scatter lobes.
        medium_mismatches: one sentence for each surface that light reached through another medium than the one there.
        ledger: `LedgerEntry` for each account. surfaces: (name, `SurfaceBooks`) of each surface.
    """

    depth_truncated_flux_fraction: float = 0.0
    rr_killed_flux_fraction: float = 0.0
    flux_conservation_error: float = 0.0
    unreached_geometry: tuple[str, ...] = ()
    detectors: tuple[DetectorDiagnostic, ...] = ()
    medium_stack_underflows: int = 0
    split_budget_saturated: bool = False
    coating_loss_flux_fraction: float = 0.0
    medium_mismatches: tuple[str, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    surfaces: tuple[tuple[str, SurfaceBooks], ...] = ()

    def warnings(self) -> list[str]:
        """One sentence for everything that is past its threshold; an empty list where nothing is."""
        found = []
        if self.depth_truncated_flux_fraction > _DEPTH:
            found.append(
                f"{self.depth_truncated_flux_fraction:.2%} of the flux was given up at max_depth, and what it would"
                " have done is missing: raise max_depth"
            )
        if self.rr_killed_flux_fraction > _ROULETTE:
            found.append(
                f"Russian roulette ended rays with {self.rr_killed_flux_fraction:.2%} of the flux, which makes results"
                " noisier: lower rr_start_flux or min_flux_fraction"
            )
        if self.flux_conservation_error > _CONSERVATION:
            found.append(
                f"flux_conservation_error is {self.flux_conservation_error:.2%}: more than sampling explains, unless"
                " very few rays were traced"
            )
        if self.unreached_geometry:
            found.append(f"no ray met {', '.join(self.unreached_geometry)}")
        found += [_undersampling(detector) for detector in self.detectors if detector.undersampled]
        if self.medium_stack_underflows:
            found.append(
                f"medium stack underflow: {self.medium_stack_underflows} times a ray left a medium for vacuum that it"
                " had never gone into; a solid is open, or a face is turned over"
            )
        found += [f"medium mismatch at {sentence}" for sentence in self.medium_mismatches]
        if self.split_budget_saturated:
            found.append("some rays were not allowed to split: raise split_budget, or lower split_depth")
        return found

    def report(self) -> str:
        """The ledger, the detectors, the surfaces, and every warning, as text."""
        lines = [*self._ledger_lines(), *self._detector_lines(), *self._surface_lines()]
        warnings = self.warnings()
        lines += ["Warnings:", *(f"  - {warning}" for warning in warnings)] if warnings else ["No warnings."]
        return "\n".join(lines)

    def _ledger_lines(self) -> list[str]:
        lines = []
        if self.ledger:
            total = self.ledger[0].flux
            lines.append(f"{'flux':<30}{'W':>14}{'share':>10}{'rays':>12}")
            for entry in self.ledger:
                share = entry.flux / total if total else 0.0
                rays = "" if entry.num_rays is None else entry.num_rays
                lines.append(f"{entry.label:<30}{entry.flux:>14.6g}{share:>10.4%}{rays:>12}".rstrip())
        return [
            *lines,
            f"flux conservation error {self.flux_conservation_error:.2e}",
            f"given up at max_depth {self.depth_truncated_flux_fraction:.4%}, in rays ended by roulette"
            f" {self.rr_killed_flux_fraction:.4%}, lost in coatings {self.coating_loss_flux_fraction:.4%}",
        ]

    def _detector_lines(self) -> list[str]:
        lines = []
        for d in self.detectors:
            hits = "" if d.mean_hits_per_pixel is None else f", {d.mean_hits_per_pixel:.4g} a pixel"
            lines.append(f"detector {d.name}: {d.total_flux:.6g} W, {d.num_rays_hit} rays{hits}")
        return lines

    def _surface_lines(self) -> list[str]:
        met = [(name, books) for name, books in self.surfaces if books.num_hits]
        if not met:
            return []
        lines = [f"{'surface':<30}{'incident W':>14}{'absorbed W':>14}{'lost there W':>14}{'hits':>12}"]
        for name, books in met[:_MOST_SURFACES]:
            fluxes = (books.incident_flux, books.absorbed_flux, books.coating_flux)
            lines.append(f"{name:<30}" + "".join(f"{flux:>14.6g}" for flux in fluxes) + f"{books.num_hits:>12}")
        if len(met) > _MOST_SURFACES:
            lines.append(f"and {len(met) - _MOST_SURFACES} more surfaces")
        return lines


def _undersampling(detector: DetectorDiagnostic) -> str:
    needed = detector.rays_needed_for_5pct
    cure = "no ray reached it" if needed is None else f"{needed:,} rays would bring the mean pixel to 5 %"
    return f"detector {detector.name!r} is undersampled, with {detector.mean_hits_per_pixel:.3g} hits a pixel: {cure}"


def diagnose(result: SimulationResult) -> Diagnostics:
    """The diagnostics of a trace's result."""
    flux_in = result.total_flux_in
    killed = result.num_rays_depth_killed + result.num_rays_flux_killed

    def fraction(flux: float) -> float:
        return flux / flux_in if flux_in else 0.0

    return Diagnostics(
        depth_truncated_flux_fraction=fraction(result.total_flux_depth_killed),
        rr_killed_flux_fraction=fraction(result.total_flux_roulette_killed),
        flux_conservation_error=result.flux_conservation_error,
        unreached_geometry=tuple(name for name, books in result.surfaces.items() if not books.reached),
        detectors=tuple(
            _diagnose_detector(name, detector, result.num_rays_total) for name, detector in result.detectors.items()
        ),
        medium_stack_underflows=result.medium_stack_underflows,
        split_budget_saturated=result.split_budget_saturated,
        coating_loss_flux_fraction=fraction(result.total_flux_coating),
        medium_mismatches=tuple(result.medium_mismatches()),
        ledger=(
            LedgerEntry("in", flux_in, result.num_rays_total),
            LedgerEntry("detected", result.total_flux_detected),
            LedgerEntry("  of which tapped", result.total_flux_tapped),
            LedgerEntry("absorbed by surfaces", result.total_flux_absorbed, result.num_rays_absorbed),
            LedgerEntry("lost in mirrors and coatings", result.total_flux_coating),
            LedgerEntry("absorbed in media", result.total_flux_bulk_absorbed),
            LedgerEntry("escaped", result.total_flux_escaped, result.num_rays_escaped),
            LedgerEntry("lost to depth and roulette", result.total_flux_lost, killed),
        ),
        surfaces=tuple(result.surfaces.items()),
    )


def _diagnose_detector(name: str, result: Any, num_rays: int) -> DetectorDiagnostic:
    hits, flux, pixels = int(result.num_rays_hit), to_float(result.total_flux), _num_pixels(result)
    if not pixels:
        return DetectorDiagnostic(name, hits, None, None, False, None, flux)
    mean = hits / pixels
    needed = int(num_rays * _HITS_FOR_5_PERCENT / mean) if hits else None
    return DetectorDiagnostic(name, hits, pixels, mean, mean < _FEW_HITS, needed, flux)


def _num_pixels(result: Any) -> int | None:
    """Pixels of a map in space or angle; a spectral one has the same for all its bins."""
    for first, second in (("x_coords", "y_coords"), ("theta", "phi")):
        if hasattr(result, first) and hasattr(result, second):
            return len(getattr(result, first)) * len(getattr(result, second))
    return None
