"""A scene: sources, surfaces and detectors, and how to trace it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ._names import arguments_of, check_arguments
from .components import SurfaceComponent
from .compounds import CompoundComponent, Doublet, Lens, Mirror
from .configs import DoubletConfig, LensConfig, MirrorConfig
from .coordinates import CoordinateSystem
from .detectors import BaseDetector, build_detector
from .registry import ComponentRegistry, DetectorRegistry, SourceRegistry, check_name
from .sampling import SamplingPolicy
from .sources import BaseNSQSource, build_source

if TYPE_CHECKING:
    from .results import SimulationResult


class NSQScene:
    """Sources, surfaces and detectors by name.

    The ``add_*`` methods take a name, a CoordinateSystem and a config, and raise TypeError or ValueError naming what is
    wrong; a name that is taken raises KeyError. Objects and their attributes may be changed between traces.

    Attributes:
        component_registry, source_registry, detector_registry: the objects by name.
        sampling_policy: a SamplingPolicy; assignable.
    """

    def __init__(self) -> None:
        self.component_registry = ComponentRegistry()
        self.source_registry = SourceRegistry()
        self.detector_registry = DetectorRegistry()
        self.sampling_policy = SamplingPolicy()

    def add_source(self, name: str, cs: CoordinateSystem, config: Any) -> None:
        """Add the source that a source config describes, such as PointSourceConfig; it emits along +z of ``cs``."""
        self.source_registry.add(name, build_source(cs, config, check_name(name)))

    def add_detector(self, name: str, cs: CoordinateSystem, config: Any) -> None:
        """Add the detector that an irradiance detector or ray database config describes."""
        self.detector_registry.add(name, build_detector(cs, config, check_name(name)))

    def add_lens(self, name: str, cs: CoordinateSystem, config: LensConfig) -> None:
        """Add a lens with its front vertex at the origin of ``cs``."""
        self.component_registry.add(name, Lens(check_name(name), cs, config))

    def add_doublet(self, name: str, cs: CoordinateSystem, config: DoubletConfig) -> None:
        """Add a cemented doublet with its front vertex at the origin of ``cs``."""
        self.component_registry.add(name, Doublet(check_name(name), cs, config))

    def add_mirror(self, name: str, cs: CoordinateSystem, config: MirrorConfig) -> None:
        """Add a mirror with its vertex at the origin of ``cs``."""
        self.component_registry.add(name, Mirror(check_name(name), cs, config))

    def add_component(self, name: str, component: SurfaceComponent | CompoundComponent) -> None:
        """Add a surface, or a compound made elsewhere."""
        self.component_registry.add(name, component)

    def remove_source(self, name: str) -> None:
        """Remove a source; KeyError if there is none of that name."""
        self.source_registry.remove(name)

    def remove_detector(self, name: str) -> None:
        """Remove a detector; KeyError if there is none of that name."""
        self.detector_registry.remove(name)

    def remove_component(self, name: str) -> None:
        """Remove a surface or a whole compound; KeyError if there is none of that name."""
        self.component_registry.remove(name)

    @property
    def surfaces(self) -> list[SurfaceComponent]:
        """Every surface, in order of registration."""
        return self.component_registry.surfaces

    @property
    def sources(self) -> list[BaseNSQSource]:
        """Every source, in order of registration."""
        return self.source_registry.sources

    @property
    def detectors(self) -> list[BaseDetector]:
        """Every detector, in order of registration."""
        return self.detector_registry.detectors

    @property
    def component_names(self) -> list[str]:
        return self.component_registry.names

    @property
    def source_names(self) -> list[str]:
        return self.source_registry.names

    @property
    def detector_names(self) -> list[str]:
        return self.detector_registry.names

    def validate(self) -> None:
        """Check that the scene can be traced, and every attribute in it.

        Raises ValueError for a scene without sources or detectors, and TypeError or ValueError naming the object and
        the attribute that is wrong.
        """
        if not self.sources:
            raise ValueError("the scene has no sources; add one with add_source")
        if not self.detectors:
            raise ValueError("the scene has no detectors; add one with add_detector")
        if not isinstance(self.sampling_policy, SamplingPolicy):
            kind = type(self.sampling_policy).__name__
            raise TypeError(f"sampling_policy got {kind}; it takes a SamplingPolicy")
        for registry in (self.source_registry, self.component_registry, self.detector_registry):
            for name in registry:
                try:
                    registry.get(name).validate()
                except (TypeError, ValueError) as error:
                    kind = TypeError if isinstance(error, TypeError) else ValueError
                    raise kind(f"{registry.noun} {name!r}: {error}") from error

    def trace(
        self,
        num_rays: int,
        max_depth: int = 16,
        min_flux_fraction: float = 1e-6,
        batch_size: int = 32768,
        seed: int | None = None,
        backend: Any = None,
        record_paths: bool | int = False,
        **options: Any,
    ) -> SimulationResult:
        """Trace ``num_rays`` rays through the scene; arguments, results and errors as for `NSQTracer.trace`."""
        from .tracer import NSQTracer

        check_arguments(options, "trace", ["backend", *arguments_of(NSQTracer.trace)])
        return NSQTracer(self, backend).trace(
            num_rays,
            max_depth=max_depth,
            min_flux_fraction=min_flux_fraction,
            batch_size=batch_size,
            seed=seed,
            record_paths=record_paths,
            **options,
        )

    def view(self, result: SimulationResult | None = None, **options: Any) -> tuple[Any, Any]:
        """Draw a plane section of the scene with rays, and return (figure, ax); options as for `NSQViewer2D.view`."""
        from .plotting.view2d import NSQViewer2D

        return NSQViewer2D(self).view(result, **options)

    def view3d(self, result: SimulationResult | None = None, **options: Any) -> Any:
        """A ``pyvista.Plotter`` that holds the scene; options and errors as for `NSQViewer3D.view`."""
        from .plotting.view3d import NSQViewer3D

        return NSQViewer3D(self).view(result, **options)

    def to_json(self, path: str | os.PathLike[str], *, surfaces: bool = False) -> None:
        """Write the scene to a JSON file, all of it or nothing.

        ``surfaces`` writes single surfaces as well as lenses, doublets and mirrors; what cannot be written raises as in
        `scene_to_dict`, and ValueError is raised for a scene of more than 24 MiB.
        """
        from .serialization import write_json

        write_json(self, path, surfaces=surfaces)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> NSQScene:
        """Read what `to_json` wrote.

        Raises FileNotFoundError, and ValueError naming the file and the place for anything but a whole scene of this
        schema version.
        """
        from .serialization import read_json

        return read_json(path)

    def _repr_html_(self) -> str:
        from .plotting.notebook import scene_html

        return scene_html(self)

    def __repr__(self) -> str:
        return (
            f"NSQScene(sources={self.source_names}, components={self.component_names}, detectors={self.detector_names})"
        )
