"""Scatter: what light does at a surface that neither refracts nor reflects it in one direction.

A lobe belongs to a surface as its ``bsdf``. With probability ``scatter_fraction`` a ray takes a direction drawn from
the lobe, and its flux takes the lobe's weight, which is never above 1; what that leaves out is lost at the surface.
Angles are from the normal on the side of the light, in degrees; beta is the direction's component in the surface, and
|beta - beta0| its distance from that of the reference ray, the specular one or, where the lobe lies behind the surface,
the ray straight on. A BSDF is in 1/sr.

Lobes are lowered to tables. A class says by ``ROW`` which device function samples it, by ``numbers`` what may be
differentiated, and by ``table`` the rest.
"""

from .base import BaseBSDF, check_bsdf
from .radial import ABgBSDF, GaussianBSDF, HarveyShackBSDF, RadialBSDF
from .simple import LambertianBSDF, SpecularBRDF
from .tabulated import TabulatedBSDF

__all__ = [
    "ABgBSDF",
    "BaseBSDF",
    "GaussianBSDF",
    "HarveyShackBSDF",
    "LambertianBSDF",
    "RadialBSDF",
    "SpecularBRDF",
    "TabulatedBSDF",
    "check_bsdf",
]
