"""Maps and their derivatives, pixel by pixel, against the splats written out in ``torch``."""

import warnings

import numpy as np
import pytest
import torch

import nsq

from . import scenes

NX, NY = 7, 5
# where single rays land, some of them on pixels at the border
POINTS = [(0.37, -0.21), (-2.9, 1.31), (3.05, 2.41), (-3.31, -2.3), (1.62, 0.55), (0.1, 2.2)]
FLUXES = [1.0, 0.4, 2.0, 0.7, 0.25, 1.6]
POSE = {"x": 0.11, "y": -0.07, "rz": 0.05, "width": 7.4, "height": 6.1}


def traced(v, splat, sigma=0.5):
    scene = nsq.NSQScene()
    for i, ((x, y), flux) in enumerate(zip(POINTS, FLUXES, strict=True)):
        beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, total_flux=flux, aperture_radius=1e-15)
        scene.add_source(f"S{i}", nsq.CoordinateSystem(x=x, y=y), beam)
    config = nsq.IrradianceDetectorConfig(
        width=v["width"], height=v["height"], num_pixels_x=NX, num_pixels_y=NY, splat=splat, splat_sigma=sigma
    )
    scene.add_detector("D", nsq.CoordinateSystem(x=v["x"], y=v["y"], z=8.0, rz=v["rz"]), config)
    return scene.trace(len(POINTS)).detectors["D"]


def one_axis(p, count, splat, sigma):
    """Shares of one ray in each row or column: weights normalised over the window, then moved into the array."""
    base = int(torch.floor(p.detach()))
    if splat == "bilinear":
        cells, weights = [base, base + 1], torch.stack([base + 1 - p, p - base])
    else:
        reach = max(1, int(np.ceil(3.0 * sigma)))
        cells = range(base - reach, base + reach + 1)
        weights = torch.stack([torch.exp(-0.5 * ((c - p) / sigma) ** 2) for c in cells])
        weights = weights / weights.sum()
    shares = [torch.zeros((), dtype=torch.float64)] * count
    for cell, weight in zip(cells, weights, strict=True):
        inside = min(max(cell, 0), count - 1)
        shares[inside] = shares[inside] + weight
    return torch.stack(shares)


def written_out(v, splat, sigma=0.5):
    total = torch.zeros(NY, NX, dtype=torch.float64)
    c, s = torch.cos(v["rz"]), torch.sin(v["rz"])
    for (x, y), flux in zip(POINTS, FLUXES, strict=True):
        along, across = x - v["x"], y - v["y"]
        px = (c * along + s * across) / v["width"] * NX + 0.5 * (NX - 1)
        py = (c * across - s * along) / v["height"] * NY + 0.5 * (NY - 1)
        total = total + flux * one_axis(py, NY, splat, sigma)[:, None] * one_axis(px, NX, splat, sigma)
    return total.reshape(-1)


def numbers():
    return {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in POSE.items()}


@pytest.mark.parametrize(
    ("splat", "sigma"), [("bilinear", 0.5), ("gaussian", 0.3), ("gaussian", 0.7), ("gaussian", 1.4)]
)
def test_every_pixel_and_its_derivatives(splat, sigma):
    mine, theirs = numbers(), numbers()
    data, expected = traced(mine, splat, sigma).data, written_out(theirs, splat, sigma)
    assert data.detach().numpy() == pytest.approx(expected.detach().numpy(), rel=0.0, abs=1e-13)
    for seed in range(4):
        weights = torch.from_numpy(np.random.default_rng(seed).normal(size=NX * NY))
        grads = torch.autograd.grad(torch.dot(weights, data), list(mine.values()), retain_graph=True)
        oracle = torch.autograd.grad(torch.dot(weights, expected), list(theirs.values()), retain_graph=True)
        for name, g, o in zip(mine, grads, oracle, strict=True):
            assert abs(o) > 1e-3
            assert g.item() == pytest.approx(o.item(), rel=1e-10), name


def test_a_hard_splat_counts_each_ray_in_the_pixel_that_holds_it():
    data = traced(POSE, "hard").irradiance * (POSE["width"] / NX * POSE["height"] / NY)
    expected = np.zeros((NY, NX))
    c, s = np.cos(POSE["rz"]), np.sin(POSE["rz"])
    for (x, y), flux in zip(POINTS, FLUXES, strict=True):
        along, across = x - POSE["x"], y - POSE["y"]
        column = int(((c * along + s * across) / POSE["width"] + 0.5) * NX)
        row = int(((c * across - s * along) / POSE["height"] + 0.5) * NY)
        expected[row, column] += flux
    assert data == pytest.approx(expected, abs=1e-13)


def test_a_hard_splat_has_the_gradient_of_flux_alone_and_says_so():
    def scene(v):
        out = nsq.NSQScene()
        beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, total_flux=v["flux"], aperture_radius=2.0)
        out.add_source("S", nsq.CoordinateSystem(), beam)
        hard = nsq.IrradianceDetectorConfig(8.0, 8.0, num_pixels_x=4, num_pixels_y=4, splat="hard")
        out.add_detector("film", nsq.CoordinateSystem(z=5.0, x=v["x"]), hard)
        return out

    values = {n: torch.tensor(x, dtype=torch.float64, requires_grad=True) for n, x in (("flux", 1.5), ("x", 0.3))}
    with pytest.warns(UserWarning, match="film") as caught:
        data = scene(values).trace(500).detectors["film"].data
    assert len([w for w in caught if "film" in str(w.message)]) == 1
    weights = torch.linspace(0.5, 2.0, 16, dtype=torch.float64)
    torch.dot(weights, data).backward()
    assert values["flux"].grad.item() == pytest.approx(torch.dot(weights, data.detach()).item() / 1.5, rel=1e-12)
    assert values["x"].grad.item() == 0.0
    with warnings.catch_warnings():  # nothing to warn of where nothing is differentiated
        warnings.simplefilter("error")
        scene({"flux": 1.5, "x": 0.3}).trace(500)
        with torch.no_grad():
            scene(values).trace(500)
