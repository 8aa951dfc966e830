"""What a trace gives back: maps, patterns, spectra, ray tables and the ledger of flux."""

from .farfield import FarFieldPattern
from .irradiance import IrradianceMap
from .rays import RayDatabase
from .simulation import SimulationResult, SurfaceBooks
from .spectral import SpectralResult

__all__ = ["FarFieldPattern", "IrradianceMap", "RayDatabase", "SimulationResult", "SpectralResult", "SurfaceBooks"]
