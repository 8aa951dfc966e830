"""A keyword that a constructor does not take: the error says which, what there is, and the nearest."""

import copy
import dataclasses
import inspect
import pickle
import typing

import pytest

import nsq

GREEN = nsq.Spectrum.monochromatic(0.55)
LENS = nsq.LensConfig(60.0, -60.0, 5.0, "N-BK7", 12.0)
# what a user builds a scene of: configs, frames, shapes, media, lobes, coatings, settings
BUILT = [
    name
    for name in nsq.__all__
    if name.endswith(("Config", "Geometry", "Source", "Detector", "Coating", "BSDF", "Material"))
    and name not in ("Geometry", "BaseBSDF", "RadialBSDF", "BaseNSQSource", "BaseDetector", "Material")
] + ["CoordinateSystem", "Spectrum", "SamplingPolicy", "ImportanceTarget", "HenyeyGreenstein", "TorchBackend"]


@pytest.mark.parametrize("name", BUILT)
def test_a_keyword_that_nothing_takes_is_named(name):
    cls = getattr(nsq, name)
    known = list(inspect.signature(cls).parameters)
    with pytest.raises(TypeError) as caught:
        cls(**{known[-1] + "x": 1.0} if known else {"x": 1.0})
    said = str(caught.value)
    assert said.startswith(f"{name} got an argument ")
    assert f"it takes {known}" in said
    assert not known or f"Did you mean {known[-1]!r}?" in said


def test_the_nearest_is_said():
    with pytest.raises(TypeError, match=r"^LensConfig got an argument 'apperture.*mean '\w+_aperture_radius'"):
        nsq.LensConfig(r1=60.0, r2=-60.0, thickness=5.0, material="N-BK7", apperture_radius=12.0)
    with pytest.raises(TypeError, match=r"^LensConfig got an argument 'apperture_radius'"):
        dataclasses.replace(LENS, apperture_radius=3.0)
    scene = nsq.NSQScene()
    scene.add_source("S", nsq.CoordinateSystem(), nsq.PointSourceConfig(GREEN))
    with pytest.raises(TypeError, match=r"^trace got an argument 'sed'.*Did you mean 'seed'\?"):
        scene.trace(10, sed=1)


def test_what_is_missing_is_still_pythons_error():
    with pytest.raises(TypeError, match="missing 2 required positional arguments: 'material' and"):
        nsq.LensConfig(60.0, -60.0, 5.0)
    with pytest.raises(TypeError, match="multiple values for argument 'r1'"):
        nsq.LensConfig(60.0, r1=60.0)


def test_a_class_stays_what_it_is():
    assert pickle.loads(pickle.dumps(LENS)).r1 == 60.0
    assert copy.copy(LENS).material == copy.deepcopy(LENS).material == "N-BK7"
    assert dataclasses.replace(LENS, r1=70.0).r1 == 70.0
    assert dataclasses.is_dataclass(nsq.LensConfig)
    assert list(inspect.signature(nsq.LensConfig).parameters) == [f.name for f in dataclasses.fields(nsq.LensConfig)]
    assert inspect.signature(nsq.SamplingPolicy).parameters["split_depth"].default == 0
    hints = typing.get_type_hints(nsq.SamplingPolicy.__init__)
    assert hints["split_depth"] is int
    assert hints["return"] is type(None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        LENS.r1 = 3.0


def test_a_derived_class_takes_what_it_says():
    class Wall(nsq.FinitePlaneGeometry):
        def __init__(self, size):
            super().__init__(width=size, height=size)

    @dataclasses.dataclass(frozen=True)
    class Wide(nsq.SurfaceConfig):
        wide: bool = True

    assert Wall(size=3.0).height == 3.0
    assert Wide(wide=False, scatter_fraction=0.5).scatter_fraction == 0.5
    with pytest.raises(TypeError, match="unexpected keyword argument 'width'"):
        Wall(width=3.0)
