"""Differentiable non-sequential optics: scenes, a Monte Carlo ray trace, and its gradients in ``torch``.

Lengths are in mm, wavelengths in µm, fluxes in W; angles are in radians in a CoordinateSystem and in degrees elsewhere.
Everything public is a name of this package.
"""

from __future__ import annotations

import importlib
from typing import Any

from ._check import check_kernels

check_kernels()

# module -> its public names. A module is imported when one of its names is first used.
_EXPORTS: dict[str, tuple[str, ...]] = {
    "backend": ("TorchBackend",),
    "bsdfs": (
        "ABgBSDF",
        "BaseBSDF",
        "GaussianBSDF",
        "HarveyShackBSDF",
        "LambertianBSDF",
        "RadialBSDF",
        "SpecularBRDF",
        "TabulatedBSDF",
    ),
    "checks": ("GradientCheck", "ParameterCheck", "check_gradients"),
    "coatings": ("SimpleCoating",),
    "components": ("AbsorbingComponent", "ReflectiveComponent", "RefractiveComponent"),
    "compounds": ("CompoundComponent", "Doublet", "Lens", "Mirror"),
    "configs": (
        "CollimatedSourceConfig",
        "DoubletConfig",
        "ExtendedSourceConfig",
        "FarFieldDetectorConfig",
        "InteractionType",
        "IrradianceDetectorConfig",
        "LensConfig",
        "MirrorConfig",
        "PointSourceConfig",
        "RayDatabaseConfig",
        "SpectralDetectorConfig",
        "SurfaceConfig",
    ),
    "configs_measured": ("LuminaireSourceConfig", "RayFileSourceConfig"),
    "coordinates": ("CoordinateSystem",),
    "detectors": (
        "BaseDetector",
        "FarFieldDetector",
        "IrradianceDetector",
        "RayDatabaseDetector",
        "SpectralDetector",
    ),
    "diagnostics": ("DetectorDiagnostic", "Diagnostics"),
    "formats.angular": ("AngularDistribution",),
    "formats.rays": ("RayTable",),
    "geometries": (
        "AnnularPlaneGeometry",
        "ConicGeometry",
        "CylindricalFrustumGeometry",
        "FinitePlaneGeometry",
        "Geometry",
        "ParaboloidGeometry",
        "PlaneGeometry",
        "SphereGeometry",
    ),
    "geometries_mesh": ("MeshGeometry",),
    "geometries_sag": ("AsphereGeometry", "BiconicGeometry", "EvenAsphereGeometry", "ToroidGeometry"),
    "importance": ("ImportanceTarget",),
    "lower": ("SceneIR",),
    "materials": ("VACUUM", "IdealMaterial", "Material", "NSQMaterial"),
    "paths": ("EscapedFlux", "GhostTable", "PathGroup", "PathStep", "PathTable"),
    "photometry": (
        "KM_PHOTOPIC",
        "KM_SCOTOPIC",
        "VISIBLE_BAND_UM",
        "PhotometricMap",
        "PhotometricScalar",
        "lumens_to_watts",
        "luminous_efficacy_of_spectrum",
        "to_photometric",
        "v_lambda",
    ),
    "plotting.view2d": ("NSQViewer2D",),
    "plotting.view3d": ("NSQViewer3D",),
    "rays": ("NSQRayBundle",),
    "registry": ("ComponentRegistry", "DetectorRegistry", "SourceRegistry"),
    "results": (
        "FarFieldPattern",
        "IrradianceMap",
        "RayDatabase",
        "SimulationResult",
        "SpectralResult",
        "SurfaceBooks",
    ),
    "rng": ("EventSlot", "NSQRng", "pcg32_uint32"),
    "sampling": ("SamplingPolicy", "Sobol"),
    "scattering": ("HenyeyGreenstein",),
    "scene": ("NSQScene",),
    "serialization": ("NSQ_SCHEMA_VERSION", "scene_from_dict", "scene_to_dict"),
    "sources": (
        "BaseNSQSource",
        "CollimatedSource",
        "ExtendedSource",
        "LuminaireSource",
        "PointSource",
        "RayFileSource",
    ),
    "spectrum": ("Spectrum",),
    "thinfilm": ("AngularCoating", "ThinFilmCoating"),
    "threads": ("get_num_threads", "set_num_threads"),
    "tracer": ("NSQTracer",),
    "volume": ("NonWatertightVolumeError", "Volume"),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}
# modules that are public as they are: nsq.spectra.black_body and so on
_SUBMODULES = ("adapters", "distributed", "formats", "spectra", "warp")
__all__ = sorted({*_MODULE_OF, *_SUBMODULES})


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _MODULE_OF:
        from .numbers import suggest

        hint = "" if name.startswith("_") else suggest(name, __all__)
        # with a name and no object, Python adds no suggestion of its own to an uncaught one
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{hint}", name=name)
    value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
