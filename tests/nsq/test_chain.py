"""Launches of a bounce in one native call: what it skips, and that launching them one by one gives the same bits."""

import numpy as np
import pytest
import torch
import warp as wp

import nsq
from kernels.trace import chain, command
from kernels.trace.backward import uncompact_kernels
from kernels.trace.chain import ONE, Chain, Link
from kernels.trace.command import Command
from kernels.trace.state import Counters
from kernels.trace.warmup import forward_kernels, modules_of

from . import scenes

FIRST, SECOND = 0, 1
COLUMNS = 8


def one_by_one(monkeypatch):
    """Chains that launch from Python, as on a GPU."""
    build = Chain.__init__

    def without_native(self, *arguments):
        build(self, *arguments)
        self._native = None

    monkeypatch.setattr(Chain, "__init__", without_native)


@pytest.fixture(params=[True, False], ids=["native", "one by one"])
def native(request, monkeypatch):
    wp.force_load("cpu", modules=modules_of(forward_kernels("float64")))
    if not request.param:
        one_by_one(monkeypatch)
    return request.param


def cleared(cells):
    """An array of ones, and a command that puts zeros into the cells of its columns."""
    array = wp.full(COLUMNS * cells, 1.0, dtype=wp.float64, device="cpu")
    clear = uncompact_kernels("float64")[0]
    return array, Command(clear, "cpu", {"gradients_out": array, "n": wp.int64(cells)})


def how_many(array):
    """The cells of each column that are zero; they are the first ones."""
    columns = array.numpy().reshape(COLUMNS, -1)
    counts = (columns == 0.0).sum(axis=1)
    assert np.all(counts == counts[0])
    assert np.all(columns[:, : counts[0]] == 0.0)
    return int(counts[0])


def test_a_link_takes_all_rays_one_cell_or_what_is_counted(native):
    counters = Counters(2, "cpu")
    counters.read()[:] = 3, 0
    arrays, commands = zip(*(cleared(10) for _ in range(6)), strict=True)
    links = [
        Link(commands[0]), Link(commands[1], ONE), Link(commands[2], FIRST), Link(commands[3], SECOND),
        Link(commands[4], gate=FIRST), Link(commands[5], gate=SECOND),
    ]  # fmt: skip
    links = Chain("float64", "cpu", counters, links)
    assert links.run(7, 1, 3).tolist() == [3, 0]
    assert [how_many(array) for array in arrays] == [0, 1, 3, 0, 0, 0]
    links.run(7)
    assert [how_many(array) for array in arrays] == [7, 1, 3, 0, 7, 0]


def test_moved_links_write_elsewhere_and_leave_the_others_alone(native):
    counters = Counters(1, "cpu")
    here, command = cleared(10)
    there = wp.full(COLUMNS * 10, 1.0, dtype=wp.float64, device="cpu")
    links = Chain("float64", "cpu", counters, [Link(command)])
    moved = links.moved(lambda command: command.moved({id(here): there}))
    if not native:
        moved._native = None
    moved.run(4)
    assert (how_many(here), how_many(there)) == (0, 4)
    links.run(7)
    assert (how_many(here), how_many(there)) == (7, 4)


def traced(threads):
    """A trace with roulette, rays that escape, a ray database, and a gradient."""
    nsq.set_num_threads(threads)
    scene = scenes.singlet()
    scene.add_detector("rays", nsq.CoordinateSystem(z=120.0), nsq.RayDatabaseConfig(20.0, 20.0, absorb=False))
    scene.surfaces[0].geometry.radius = radius = torch.tensor(51.0, dtype=torch.float64, requires_grad=True)
    scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.5)
    result = scene.trace(3000, seed=4, batch_size=1000, min_flux_fraction=0.5)
    assert float(result.total_flux_roulette_killed) > 0.0
    result.detectors["D"].data.square().sum().backward()
    return scenes.ledger(result), result.detectors["D"].irradiance, result.detectors["rays"].x, radius.grad.item()


def test_one_call_for_a_bounce_gives_the_bits_of_its_launches(monkeypatch):
    try:
        ledger, irradiance, x, gradient = traced(1)
        one_by_one(monkeypatch)
        for threads in (1, 2):
            again = traced(threads)
            assert again[0] == ledger
            assert np.array_equal(again[1], irradiance)
            assert np.array_equal(again[2].detach(), x.detach())
            assert again[3] == pytest.approx(gradient, rel=1e-12)
    finally:
        nsq.set_num_threads(None)


def test_a_bounce_enters_python_once(monkeypatch):
    calls = []
    run = Command.run

    def counted(self, *arguments):
        calls.append(self)
        run(self, *arguments)

    monkeypatch.setattr(command.Command, "run", counted)
    bounces = []
    advance = chain.Chain.run
    monkeypatch.setattr(chain.Chain, "run", lambda self, *a: (bounces.append(self), advance(self, *a))[1])
    nsq.set_num_threads(1)
    try:
        scenes.singlet().trace(5000, seed=1)
    finally:
        nsq.set_num_threads(None)
    # a call for each bounce, at most one more that moves the living to the front, and two for the births
    assert len(bounces) > 2
    assert len(calls) <= 2 * len(bounces) + 2
