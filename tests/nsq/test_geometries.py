"""Shapes as quadric rows: where F is 0, where its gradient points, what the limits keep, and what has a derivative."""

import math

import numpy as np
import pytest
import torch

import nsq
from nsq.numbers import stack

from .shape_rows import check_independent, check_motion, check_point, inside, row, value

INF = math.inf


def sag(radius, conic, rho):
    c = 1.0 / radius
    return c * rho**2 / (1.0 + math.sqrt(1.0 - (1.0 + conic) * (c * rho) ** 2))


UP = np.array([0.0, 0.0, 1.0])
CONES = [(50.0, 0.0), (-50.0, 0.0), (50.0, -1.0), (-80.0, -2.5), (30.0, 0.8), (-30.0, -0.4)]
# a shape, a point on it, and the direction of n_geom there
ON_SURFACE = [
    (nsq.PlaneGeometry(), (3.0, -40.0, 0.0), UP),
    (nsq.FinitePlaneGeometry(4.0, 6.0), (2.0, 3.0, 0.0), UP),
    (nsq.FinitePlaneGeometry(aperture_radius=5.0), (3.0, 4.0, 0.0), UP),
    (nsq.ConicGeometry(INF, 0.0, 5.0), (3.0, 4.0, 0.0), UP),
    (nsq.ConicGeometry(0.0, -1.0, 5.0), (3.0, 4.0, 0.0), UP),
    (nsq.ParaboloidGeometry(20.0, 6.0), (3.0, 4.0, 25.0 / 40.0), np.array([-3.0, -4.0, 20.0])),
    (nsq.SphereGeometry(13.0), (3.0, 4.0, 12.0), np.array([-3.0, -4.0, -12.0])),
    (nsq.SphereGeometry(13.0, aperture_radius=5.0), (3.0, 4.0, -12.0), np.array([-3.0, -4.0, 12.0])),
    (nsq.CylindricalFrustumGeometry(5.0, 5.0, -1.0, 2.0), (3.0, 4.0, 2.0), np.array([3.0, 4.0, 0.0])),
    # r(z) = 5 - z / 2; the wall's normal leans towards the narrow end
    (nsq.CylindricalFrustumGeometry(6.0, 4.0, -2.0, 2.0), (3.0, 4.0, 0.0), np.array([0.6, 0.8, 0.5])),
    (nsq.CylindricalFrustumGeometry(0.0, 4.0, 0.0, 4.0), (0.0, 3.0, 3.0), np.array([0.0, 1.0, -1.0])),
    (nsq.AnnularPlaneGeometry(5.0, 8.0, -1.5), (3.0, 4.0, -1.5), UP),
]
for _radius, _conic in CONES:
    _z = sag(_radius, _conic, 5.0)
    _normal = np.array([-3.0 / _radius, -4.0 / _radius, 1.0 - (1.0 + _conic) * _z / _radius])
    ON_SURFACE.append((nsq.ConicGeometry(_radius, _conic, 5.0 + 1e-9), (3.0, 4.0, _z), _normal))


@pytest.mark.parametrize(("geometry", "point", "normal"), ON_SURFACE, ids=lambda v: type(v).__name__)
def test_a_known_point_lies_on_the_surface_with_its_normal(geometry, point, normal):
    check_point(geometry, point, normal)


@pytest.mark.parametrize(
    ("geometry", "point"),
    [
        (nsq.FinitePlaneGeometry(4.0, 6.0), (2.01, 0.0, 0.0)),
        (nsq.FinitePlaneGeometry(4.0, 6.0), (0.0, -3.01, 0.0)),
        (nsq.FinitePlaneGeometry(4.0, 6.0, aperture_radius=1.0), (1.01, 0.0, 0.0)),
        (nsq.ConicGeometry(50.0, 0.0, 5.0), (5.01, 0.0, sag(50.0, 0.0, 5.01))),
        (nsq.ConicGeometry(50.0, 0.0, 5.0), (0.0, 0.0, 100.0)),  # the far side of the sphere
        (nsq.ConicGeometry(50.0, -3.0, 5.0), (0.0, 0.0, -50.0)),  # the other sheet of the hyperboloid
        (nsq.SphereGeometry(13.0, aperture_radius=4.0), (3.0, 4.0, 12.0)),
        (nsq.CylindricalFrustumGeometry(5.0, 5.0, -1.0, 2.0), (3.0, 4.0, 2.01)),
        (nsq.CylindricalFrustumGeometry(0.0, 4.0, 0.0, 4.0), (0.0, 3.0, -3.0)),  # beyond the apex
        (nsq.AnnularPlaneGeometry(5.0, 8.0), (4.9, 0.0, 0.0)),
        (nsq.AnnularPlaneGeometry(5.0, 8.0), (8.1, 0.0, 0.0)),
    ],
)
def test_the_limits_keep_what_is_beyond_them_out(geometry, point):
    coefficients, limits = row(geometry)
    assert value(coefficients, np.array(point)) == pytest.approx(0.0, abs=1e-11)
    assert not inside(limits, np.array(point))


def test_a_disk_takes_the_place_of_the_rectangle():
    assert inside(row(nsq.FinitePlaneGeometry(1.0, 1.0, aperture_radius=5.0))[1], np.array([4.0, 0.0, 0.0]))


@pytest.mark.parametrize(
    ("shape", "numbers"),
    [
        (nsq.ConicGeometry, [(50.0, -0.5, 5.0), (INF, 0.0, 5.0), (-40.0, 0.3, 7.0)]),
        (nsq.SphereGeometry, [(5.0, INF), (7.0, 2.0)]),
        (nsq.CylindricalFrustumGeometry, [(3.0, 4.0, 0.0, 9.0), (2.0, 2.0, -1.0, 1.0)]),
        (nsq.AnnularPlaneGeometry, [(1.0, 2.0, 0.5), (0.0, 3.0, -0.5)]),
        (nsq.FinitePlaneGeometry, [(4.0, 6.0, INF), (INF, INF, 3.0)]),
        (nsq.PlaneGeometry, [(), ()]),
    ],
)
def test_rows_are_independent(shape, numbers):
    check_independent(shape, numbers)


@pytest.mark.parametrize(
    ("shape", "numbers", "point"),
    [
        (nsq.ConicGeometry, (50.0, -0.5, 5.0), (1.8, 2.4, sag(50.0, -0.5, 3.0))),
        (nsq.SphereGeometry, (5.0, 4.0), (1.8, 2.4, 4.0)),
        (nsq.CylindricalFrustumGeometry, (3.0, 4.0, -1.0, 9.0), (0.0, 3.25, 1.5)),
        (nsq.AnnularPlaneGeometry, (1.0, 2.0, 0.5), (1.5, 0.0, 0.5)),
    ],
)
def test_the_surface_moves_as_its_numbers_do(shape, numbers, point):
    check_motion(shape, numbers, point)


class Slab(nsq.Geometry):
    """A shape of somebody's own that says nothing about its numbers."""

    def __init__(self, height):
        self.height = height
        self.validate()

    def numbers(self):
        return (self.height,)


def test_the_numbers_of_a_shape_that_does_not_check_them_are_checked():
    Slab(torch.tensor(1.0, requires_grad=True))
    with pytest.raises(TypeError, match=r"^height got '2'"):
        Slab("2")
    slab = Slab(1.0)
    slab.height = math.nan
    with pytest.raises(ValueError, match=r"^height got nan"):
        slab.validate()


@pytest.mark.parametrize("radius", [INF, -INF, 0.0])
def test_flat_has_curvature_0_and_finite_gradients(radius):
    leaf = torch.tensor(radius, requires_grad=True)
    conic = torch.tensor(-0.5, dtype=torch.float64, requires_grad=True)
    geometry = nsq.ConicGeometry(leaf, conic, 5.0)
    coefficients, limits = nsq.ConicGeometry.quadric(stack(geometry.numbers())[None])
    assert coefficients[0].tolist() == [0.0, 0.0, 1.0, 0.0]
    (coefficients.sum() + limits[0, 6:].sum() + geometry.sag(3.0)).backward()
    assert leaf.grad.item() == 0.0
    assert torch.isfinite(conic.grad)


@pytest.mark.parametrize(("radius", "conic"), CONES)
def test_sag(radius, conic):
    geometry = nsq.ConicGeometry(radius, conic, 5.0)
    assert geometry.sag(5.0) == pytest.approx(sag(radius, conic, 5.0), abs=1e-14)
    assert isinstance(geometry.sag(5.0), float)
    assert geometry.profile(np.array([0.0, 5.0])) == pytest.approx([0.0, sag(radius, conic, 5.0)], abs=1e-14)
    leaf = torch.tensor(radius, dtype=torch.float64, requires_grad=True)
    depth = nsq.ConicGeometry(leaf, conic, 5.0).sag(5.0)
    depth.backward()
    h = 1e-4
    slope = (sag(radius + h, conic, 5.0) - sag(radius - h, conic, 5.0)) / (2.0 * h)
    assert depth.item() == pytest.approx(sag(radius, conic, 5.0), abs=1e-14)
    assert leaf.grad.item() == pytest.approx(slope, rel=1e-6)


def test_sag_of_a_hemisphere_is_finite_with_its_gradient():
    leaf = torch.tensor(5.0, dtype=torch.float64, requires_grad=True)
    depth = nsq.ConicGeometry(leaf, 0.0, 5.0).sag(5.0)
    depth.backward()
    assert depth.item() == 5.0
    assert torch.isfinite(leaf.grad)
    assert nsq.ConicGeometry(5.0, 0.0, 5.0).sag(6.0) == pytest.approx(36.0 / 5.0)  # a radicand below 0 counts as 0


def test_attributes_keep_their_objects_and_may_be_reassigned():
    leaf = torch.tensor(50.0, requires_grad=True)
    geometry = nsq.ConicGeometry(leaf, 0.0, 5.0)
    assert geometry.radius is leaf
    assert geometry.numbers()[0] is leaf
    geometry.radius = -30.0
    assert row(geometry)[0][0] == pytest.approx(1.0 / 30.0)
    geometry.aperture_radius = 31.0
    with pytest.raises(ValueError, match=r"^aperture_radius got 31; it takes at most 30"):
        geometry.validate()


def test_a_paraboloid_stays_one():
    geometry = nsq.ParaboloidGeometry(20.0, 6.0)
    assert geometry.conic == -1.0
    geometry.conic = 0.0
    with pytest.raises(ValueError, match=r"^conic got 0; a paraboloid takes -1"):
        geometry.validate()


@pytest.mark.parametrize("conic", [0.0, 0.5])
def test_how_far_out_a_conic_reaches(conic):
    reach = 10.0 / math.sqrt(1.0 + conic)
    nsq.ConicGeometry(10.0, conic, reach * (1.0 - 1e-12))
    nsq.ConicGeometry(10.0, -1.0, 1e3)
    with pytest.raises(ValueError, match=r"^aperture_radius got .*; it takes at most"):
        nsq.ConicGeometry(10.0, conic, reach * 1.0001)
    with pytest.raises(ValueError, match=r"^aperture_radius got"):
        nsq.ConicGeometry(torch.tensor(-10.0), torch.tensor(conic), torch.tensor(reach * 1.0001))
