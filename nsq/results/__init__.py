"""What a trace gives back: maps, patterns, spectra, ray tables and the ledger of flux."""

from .irradiance import IrradianceMap
from .rays import RayDatabase
from .simulation import SimulationResult

__all__ = ["IrradianceMap", "RayDatabase", "SimulationResult"]
