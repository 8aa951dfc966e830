"""Ray files: Zemax binary and IES TM-25."""

import struct
from datetime import UTC, datetime

import numpy as np
import pytest
import torch

import nsq
from nsq.formats import RayTable, read_tm25, read_zemax_rays, write_tm25, write_zemax_rays

from .scenes import singlet

COLUMNS = ("x", "y", "z", "L", "M", "N", "flux", "wavelength")
FORMATS = [(read_zemax_rays, write_zemax_rays), (read_tm25, write_tm25)]
IDS = ["zemax", "tm25"]


def table(n=1000, seed=5, one_line=False, **extra):
    """Rays whose numbers are single precision, so that files hold them exactly."""
    rng = np.random.default_rng(seed)
    way = rng.normal(size=(n, 3))
    way /= np.linalg.norm(way, axis=1)[:, None]
    nm = np.full(n, 550.0) if one_line else rng.choice([450.0, 550.0, 640.0], n)
    values = [*rng.normal(0.0, 20.0, (3, n)), *way.T, rng.uniform(0.0, 2.0, n), nm / 1000.0]
    return RayTable(*(np.asarray(v, dtype=np.float32).astype(np.float64) for v in values), **extra)


def equal(a, b):
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in COLUMNS)


@pytest.mark.parametrize("one_line", [False, True])
@pytest.mark.parametrize("unit", ["W", "lm"])
def test_zemax_rays_come_back_bit_by_bit_and_in_order(one_line, unit, tmp_path):
    rays = table(one_line=one_line, flux_unit=unit, description="an LED, 3 W")
    write_zemax_rays(rays, tmp_path / "r.dat")
    twin = read_zemax_rays(tmp_path / "r.dat")
    assert equal(twin, rays)
    assert (twin.flux_unit, twin.description) == (unit, "an LED, 3 W")
    raw = (tmp_path / "r.dat").read_bytes()
    assert len(raw) == 208 + 1000 * 4 * (7 if one_line else 8)
    assert struct.unpack_from("<iI", raw) == (1010, 1000)
    source, rayset = struct.unpack_from("<2f", raw, 108)
    assert source == rayset == pytest.approx(twin.total_flux, rel=1e-6)
    assert struct.unpack_from("<I", raw, 136) == (4,)
    assert struct.unpack_from("<2i", raw, 192) == (0 if one_line else 2, 0 if unit == "W" else 1)


@pytest.mark.parametrize(("unit", "mm"), [(0, 1000.0), (1, 25.4), (2, 10.0), (3, 304.8), (4, 1.0)])
@pytest.mark.parametrize("identifier", [1010, 8675309])
def test_zemax_units_of_length(unit, mm, identifier, tmp_path):
    head = struct.pack(
        "<iI100s7fI13f4i", identifier, 1, b"x\0junk", 5.0, 5.0, 0.55, *[0.0] * 4, unit, *[0.0] * 13, 0, 0, 0, 0
    )
    (tmp_path / "r.dat").write_bytes(head + struct.pack("<7f", 1.0, -2.0, 3.0, 0.0, 0.6, 0.8, 5.0))
    rays = read_zemax_rays(tmp_path / "r.dat")
    assert [rays.x[0], rays.y[0], rays.z[0]] == [mm, -2.0 * mm, 3.0 * mm]
    assert (rays.total_flux, rays.description) == (5.0, "x")
    assert rays.wavelength[0] == np.float32(0.55)
    assert read_zemax_rays(tmp_path / "r.dat", wavelength_um=0.6).wavelength[0] == 0.6


@pytest.mark.parametrize(
    ("place", "form", "value", "words"),
    [
        (0, "<i", 1011, ["identifier", "1011"]),
        (4, "<I", 1001, ["1001 rays"]),
        (4, "<I", 2**32 - 1, ["4294967295", "max_rays"]),
        (136, "<I", 5, ["unit", "5"]),
        (192, "<i", 1, ["ray format", "1"]),
        (196, "<i", 2, ["flux type", "2"]),
        (208, "<f", float("nan"), ["x of ray 0", "nan"]),
        (208 + 32 * 7 + 24, "<f", -1.0, ["flux of ray 7", "-1"]),
        (208 + 32 * 9 + 12, "<f", 3.0, ["L, M, N of ray 9"]),
        (208 + 32 * 9 + 28, "<f", 0.0, ["wavelength of ray 9"]),
    ],
)
def test_zemax_files_that_are_wrong(place, form, value, words, tmp_path):
    write_zemax_rays(table(), tmp_path / "good.dat")
    raw = bytearray((tmp_path / "good.dat").read_bytes())
    struct.pack_into(form, raw, place, value)
    (tmp_path / "bad.dat").write_bytes(raw)
    with pytest.raises(ValueError, match=r"bad\.dat") as caught:
        read_zemax_rays(tmp_path / "bad.dat")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("one_line", [False, True])
def test_tm25_rays_come_back(one_line, tmp_path):
    rays = table(one_line=one_line, description="Lampe für Straßen")
    write_tm25(rays, tmp_path / "r.tm25ray", created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    twin = read_tm25(tmp_path / "r.tm25ray")
    for name in COLUMNS[:7]:
        assert np.array_equal(getattr(twin, name), getattr(rays, name))
    assert np.allclose(twin.wavelength, rays.wavelength, rtol=1e-7)  # nm in the file
    assert (twin.description, twin.flux_unit, twin.spectra) == ("Lampe für Straßen", "W", ())
    raw = (tmp_path / "r.tm25ray").read_bytes()
    assert len(raw) == 256 + 32 + 36_000 + 1000 * 4 * (7 if one_line else 8)
    assert raw[:4] == b"TM25"
    assert struct.unpack_from("<i", raw, 4) == (2013,)
    assert struct.unpack_from("<f", raw, 16)[0] == pytest.approx(twin.total_flux, rel=1e-6)
    assert struct.unpack_from("<Q", raw, 20) == (1000,)
    assert raw[28:53] == b"2026-01-02T03:04:05+00:00"
    again = tmp_path / "again.tm25ray"
    write_tm25(twin, again, created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert again.read_bytes() == raw


def tm25(kind, flags, rays, spectra=(), line_nm=0.0, extra=0, text=b""):
    """A file by the sections of the standard."""
    nan = float("nan")
    stamp = b"2013-09-04T08:30:29+01:00"
    raw = struct.pack("<4siiffQ28siifff", b"TM25", 2013, 0, nan, 1.0, len(rays), stamp, 0, kind, line_nm, 400.0, 700.0)
    raw += struct.pack("<iii168s", len(spectra), extra, len(text), b"")
    raw += struct.pack("<8i", *flags) + "Quelle".encode("utf-32-le").ljust(4000, b"\0") + bytes(8 * 4000)
    tables = b"".join(struct.pack(f"<i{2 * len(s)}f", len(s), *np.ravel(s)) for s in spectra)
    raw += tables + bytes(-len(tables) % 32)
    raw += b"".join(f"extra {i}".encode("utf-32-le").ljust(512, b"\0") for i in range(extra)) + text
    return raw + np.asarray(rays, dtype="<f4").tobytes()


def test_tm25_with_tables_columns_and_text(tmp_path):
    path = tmp_path / "r.tm25ray"
    ray = [1.0, 2.0, 3.0, 0.0, 0.0, 1.0]
    spectra = [[(500.0, 1.0), (600.0, 3.0)], [(650.0, 2.0)]]
    rays = [[*ray, 0.5, 1.0, 7.0], [*ray, 0.25, 2.0, 8.0]]
    path.write_bytes(tm25(4, (1, 1, 1, 0, 0, 0, 0, 1), rays, spectra, extra=1, text=bytes(64)))
    read = read_tm25(path)
    assert read.wavelength == pytest.approx([0.575, 0.65], rel=1e-9)
    assert read.flux.tolist() == [0.5, 0.25]
    assert [s.wavelengths.tolist() for s in read.spectra] == [[0.5, 0.6], [0.65]]
    assert read.description == "Quelle"
    path.write_bytes(tm25(3, (1, 1, 1, 0, 0, 0, 0, 0), [[*ray, 0.5]], spectra[:1]))
    assert read_tm25(path).wavelength == pytest.approx([0.575], rel=1e-9)


def test_tm25_in_lumens(tmp_path):
    path = tmp_path / "r.tm25ray"
    ray = [1.0, 2.0, 3.0, 0.0, 0.0, 1.0]
    path.write_bytes(tm25(0, (1, 1, 0, 0, 1, 0, 1, 0), [[*ray, 683.002, 9.0, 9.0]]))
    with pytest.raises(ValueError, match="give wavelength_um"):
        read_tm25(path)
    read = read_tm25(path, wavelength_um=0.55)
    assert read.flux_unit == "lm"
    assert read.to_watts().total_flux == pytest.approx(1.0 / 0.99495, rel=1e-6)
    path.write_bytes(tm25(1, (1, 1, 1, 0, 1, 0, 0, 0), [[*ray, 2.0, 500.0]], line_nm=555.0))
    read = read_tm25(path)
    assert (read.flux_unit, read.total_flux, read.wavelength[0]) == ("W", 2.0, pytest.approx(0.555))


@pytest.mark.parametrize(
    ("place", "form", "value", "words"),
    [
        (0, "<4s", b"TM26", ["TM26"]),
        (4, "<i", 2020, ["4.7.1.2", "2020"]),
        (20, "<Q", 2**60, ["max_rays"]),
        (20, "<Q", 999, ["999 rays"]),
        (60, "<i", 5, ["4.7.1.9"]),
        (76, "<i", -1, ["4.7.1.13"]),
        (76, "<i", 9999, ["4.7.4"]),
        (80, "<i", 2**31 - 1, ["4.7.1.14"]),
        (84, "<i", 2**31 - 1, ["4.7.1.15"]),
        (256, "<i", 0, ["4.7.2.1"]),
        (264, "<i", 7, ["4.7.2.3"]),
        (268, "<i", 0, ["4.7.2.4"]),
        (276, "<i", 1, ["Stokes"]),
        (284, "<i", 1, ["4.7.2.8"]),
        (36_288, "<f", float("inf"), ["x of ray 0", "inf"]),
    ],
)
def test_tm25_files_that_are_wrong(place, form, value, words, tmp_path):
    write_tm25(table(), tmp_path / "good.tm25ray")
    raw = bytearray((tmp_path / "good.tm25ray").read_bytes())
    struct.pack_into(form, raw, place, value)
    (tmp_path / "bad.tm25ray").write_bytes(raw)
    with pytest.raises(ValueError, match=r"bad\.tm25ray") as caught:
        read_tm25(tmp_path / "bad.tm25ray")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(("read", "write"), FORMATS, ids=IDS)
def test_corrupted_files(read, write, tmp_path):
    write(table(50), tmp_path / "good.ray")
    good, rng, path = (tmp_path / "good.ray").read_bytes(), np.random.default_rng(25), tmp_path / "bad.ray"
    head = len(good) - 50 * 32
    refused = 0
    for turn in range(500):
        raw = bytearray(good)
        if turn % 3 == 0:  # cut or grown
            raw = raw[: rng.integers(len(raw))] if turn % 2 else raw + bytes(int(rng.integers(1, 100)))
        elif turn % 3 == 1:  # a header field of any value
            start = 4 * int(rng.integers(min(head, 300) // 4))
            raw[start : start + 4] = rng.bytes(4) if turn % 2 else b"\xff\xff\xff\x7f"
        else:  # a number of a ray
            start = head + 4 * int(rng.integers(50 * 8))
            raw[start : start + 4] = struct.pack("<f", rng.choice([np.nan, np.inf, -np.inf, 1e30, -5.0]))
        path.write_bytes(raw)
        try:
            rays = read(path)
        except ValueError as error:
            refused += "bad.ray" in str(error)
        else:  # bytes that are not looked at, or a number that may be one
            assert rays.num_rays == 50
            assert np.isfinite(rays.total_flux)
    assert refused > 250


@pytest.mark.parametrize(("read", "write"), FORMATS, ids=IDS)
def test_no_file_and_no_place(read, write, tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        read(tmp_path / "none.ray")
    with pytest.raises(OSError, match="nowhere"):
        write(table(3), tmp_path / "nowhere" / "r.ray")
    with pytest.raises(ValueError, match=r"r\.ray: x reaches 1e\+300"):
        write(RayTable([1e300], [0], [0], [0], [0], [1], [1], [0.5]), tmp_path / "r.ray")
    write(table(3), tmp_path / "r.ray")
    with pytest.raises(ValueError, match=r"3 rays.*max_rays"):
        read(tmp_path / "r.ray", max_rays=2)


def test_rays_of_a_trace_go_through_files(tmp_path):
    frame = nsq.CoordinateSystem(x=5.0, ry=0.4, z=3.0)
    scene = singlet(frame)
    scene.add_detector(
        "R", nsq.CoordinateSystem(z=120.0, reference_cs=frame), nsq.RayDatabaseConfig(30, 30, absorb=False)
    )
    with torch.no_grad():
        seen = scene.trace(2000, seed=1).detectors["R"]
    rays = RayTable.from_database(seen)
    assert (rays.num_rays, rays.description) == (seen.num_rays, "R")
    assert rays.total_flux == pytest.approx(seen.total_flux_float, rel=1e-12)
    local = RayTable.from_database(seen, frame, description="lens")
    assert local.z == pytest.approx(np.full(rays.num_rays, 120.0), rel=1e-12)
    assert np.abs(local.x).max() < 12.5
    assert local.spectrum().wavelengths.tolist() == [0.55]
    assert local.spectrum().weights == pytest.approx([rays.total_flux], rel=1e-9)
    write_zemax_rays(local, tmp_path / "r.dat")
    assert read_zemax_rays(tmp_path / "r.dat").x == pytest.approx(local.x, rel=1e-6, abs=1e-6)


def test_a_table_checks_its_columns():
    with pytest.raises(ValueError, match=r"^y got shape \(1,\)"):
        RayTable([1, 2], [1], [0, 0], [0, 0], [0, 0], [1, 1], [1, 1], [0.5, 0.5])
    with pytest.raises(TypeError, match=r"^z got dtype"):
        RayTable([1], [1], ["a"], [0], [0], [1], [1], [0.5])
    with pytest.raises(ValueError, match=r"^flux_unit got 'cd'"):
        table(1, flux_unit="cd")
    with pytest.raises(ValueError, match="visible wavelengths"):
        RayTable([0], [0], [0], [0], [0], [1], [1], [1.5], "lm").to_watts()
    with pytest.raises(ValueError, match="lm at several wavelengths"):
        write_tm25(table(flux_unit="lm"), "r.tm25ray")
    assert table(0).num_rays == 0
