"""Results in files: exact, whole or refused."""

import dataclasses
import io
import json
import zipfile

import numpy as np
import pytest
import torch

import nsq
from nsq.results import archive

from .scenes import gauss_point_doublet, ledger


def scene():
    """One detector of each class, one behind the other."""
    made = gauss_point_doublet()
    front = {"absorb": False, "num_pixels_x": 5, "num_pixels_y": 4}
    spectral = nsq.SpectralDetectorConfig(30.0, 20.0, num_bins=7, **front)
    made.add_detector("W µ", nsq.CoordinateSystem(z=20.0), spectral)
    made.add_detector("F", nsq.CoordinateSystem(z=25.0), nsq.FarFieldDetectorConfig(6, 8, absorb=False))
    made.add_detector("R", nsq.CoordinateSystem(z=30.0), nsq.RayDatabaseConfig(30.0, 30.0, max_rays=40, absorb=False))
    sphere = nsq.IrradianceDetectorConfig(shape=nsq.SphereGeometry(400.0), num_pixels_x=6, num_pixels_y=3)
    made.add_detector("S", nsq.CoordinateSystem(), sphere)
    return made


@pytest.fixture(scope="module")
def result():
    with torch.no_grad():
        return scene().trace(3000, seed=4, record_paths=20)


def fields(reading):
    """Everything in a reading as values that compare."""
    out = {}
    for name, value in vars(reading).items():
        if isinstance(value, torch.Tensor):
            value = value.detach().numpy()
        out[name] = (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value
    return out


def test_a_result_comes_back_bit_by_bit(result, tmp_path):
    path = result.save(tmp_path / "run")
    assert path == tmp_path / "run.npz"
    twin = nsq.SimulationResult.load(path)
    assert ledger(twin) == ledger(result)
    rough = dataclasses.replace(result, relative_errors={"D": 0.1, "F": float("inf")}, stopped_by="Ctrl-C")
    assert nsq.SimulationResult.load(rough.save(tmp_path / "rough")).relative_errors == rough.relative_errors
    for field in dataclasses.fields(result):
        if field.name not in ("detectors", "ray_paths", "replay"):
            assert getattr(twin, field.name) == getattr(result, field.name), field.name
    assert list(twin.detectors) == list(result.detectors)
    for name, reading in result.detectors.items():
        assert type(twin.detectors[name]) is type(reading)
        assert fields(twin.detectors[name]) == fields(reading), name
    events = result.ray_paths["events"]
    assert len(events) > 50
    assert twin.ray_paths["events"].dtype == events.dtype
    assert twin.ray_paths["events"].tobytes() == events.tobytes()
    assert twin.report() == result.report()
    with pytest.raises(RuntimeError, match="trace again"):
        twin.ghosts("D")
    assert twin.save(tmp_path / "again").read_bytes() == path.read_bytes()


def test_every_reading_alone(result, tmp_path):
    for name, reading in result.detectors.items():
        path = reading.save(tmp_path / "one")
        assert fields(type(reading).load(path)) == fields(reading), name
        with pytest.raises(ValueError, match=rf"one\.npz: holds {type(reading).__name__}; it takes a file that Sim"):
            nsq.SimulationResult.load(path)


def test_a_failed_write_keeps_the_old_file(result, tmp_path):
    path = result.save(tmp_path / "run")
    old = path.read_bytes()
    broken = dataclasses.replace(result, detectors={"D": object()})
    with pytest.raises(TypeError, match=r"detectors\['D'\] got object"):
        broken.save(path)
    with pytest.raises(TypeError, match=r"total_flux_in got nan"):
        dataclasses.replace(result, total_flux_in=float("nan")).save(path)
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]
    with pytest.raises(OSError, match="nowhere"):
        result.save(tmp_path / "nowhere" / "run.npz")
    with pytest.raises(FileNotFoundError, match="none"):
        nsq.SimulationResult.load(tmp_path / "none.npz")


def edited(path, changes, compress=zipfile.ZIP_STORED):
    """The file with entries changed, added, or taken out (None)."""
    with np.load(path) as data:
        arrays = {name: data[name] for name in data.files}
    for name, value in changes.items():
        if value is None:
            del arrays[name]
        else:
            arrays[name] = value
    with zipfile.ZipFile(path, "w", compress) as target:
        for name, value in arrays.items():
            stream = io.BytesIO()
            np.lib.format.write_array(stream, np.asarray(value), allow_pickle=True)
            target.writestr(f"{name}.npy", stream.getvalue())
    return path


PLAIN = json.dumps({"num_rays_total": 5})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 2}, ["version 2", "reads version 1"]),
        ({"version": None}, ["holds nothing known"]),
        ({"kind": "Thesis"}, ["holds Thesis"]),
        ({"fields": None}, ["no entry 'fields'"]),
        ({"fields": "[1]"}, ["'fields' is no object"]),
        ({"fields": "[" * 100_000}, ["'fields'", "nested too deep"]),
        ({"fields": '{"num_rays_total": NaN}'}, ["'fields'", "NaN"]),
        ({"fields": '{"num_rays_total": "five"}'}, ["fields.num_rays_total", "'five'", "int"]),
        ({"fields": '{"total_flux_in": true}'}, ["fields.total_flux_in", "float"]),
        ({"fields": '{"os.system": 1}'}, ["os.system"]),
        ({"fields": '{"surfaces": {"L": {"num_hits": 1}}}'}, ["fields.surfaces['L']", "incident_flux"]),
        ({"detectors": '[["D", "eval"]]'}, ["'eval'"]),
        ({"detectors": '[["D", "IrradianceMap"], ["D", "IrradianceMap"]]'}, ["'D'"]),
        ({"detectors": "7"}, ["'detectors' is no list"]),
        ({"detectors": '[["D", "RayDatabase"]]'}, ["detector0/x"]),
        ({"detector0/data": np.zeros(3)}, ["detector0/", "data", "(3,)"]),
        ({"detector0/data": np.zeros(96, dtype=np.float32)}, ["detector0/data", "float32"]),
        ({"detector0/data": np.full(96, np.nan)}, ["detector0/data", "nan"]),
        ({"detector0/num_pixels_x": -12}, ["detector0/num_pixels_x", "-12"]),
        ({"detector0/num_pixels_x": 10**15}, ["detector0/"]),
        ({"detector0/width": "wide"}, ["detector0/width"]),
        ({"detector0/name": 5}, ["detector0/name"]),
        ({"detector0/grid": "torus"}, ["torus"]),
        ({"paths/events": np.zeros(3)}, ["paths/events"]),
        ({"anything": np.array([object()])}, ["Python objects"]),
    ],
)
def test_files_that_are_no_result(result, changes, words, tmp_path):
    path = edited(result.save(tmp_path / "bad"), changes)
    with pytest.raises(ValueError, match=r"bad\.npz: ") as caught:
        nsq.SimulationResult.load(path)
    for word in words:
        assert word in str(caught.value)


def test_sizes_that_a_file_only_states(result, tmp_path):
    """An array's header that promises a terabyte, and entries that would unpack to one."""
    path = result.save(tmp_path / "bad")
    raw = path.read_bytes()
    head = b"'shape': (96,), "
    assert raw.count(head) >= 1
    path.write_bytes(raw.replace(head, b"'shape': (9**9,)"))
    with pytest.raises(ValueError, match=r"bad\.npz"):
        nsq.SimulationResult.load(path)
    path.write_bytes(raw)
    edited(path, {"big": np.zeros(10_000_000)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match=r"bad\.npz.*compressed"):
        nsq.SimulationResult.load(path)


def test_no_numpy_header_makes_an_array_of_its_own():
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with pytest.raises(ValueError, match="cut short"):
        archive._read_array("big.npy", stream.getvalue())
