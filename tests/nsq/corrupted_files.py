"""Damaged files before every reader, in a process that may take 1 GiB more than it has at the start.

Run as a program: ``corrupted_files.py FOLDER``. It prints, for each reader, how many files it refused and how many it
read, and says what went wrong where a reader let anything but a ValueError or an OSError through, did not name the
file, or took longer than it should.
"""

import io
import json
import logging
import resource
import signal
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import torch

import nsq
from nsq import formats, spectra

PER_READER = 500
SECONDS = 20  # of processor time, for one file
ROOM = 1 << 30
WORDS = [
    b"NaN", b"-1e999", b"1e9", b"99999999999999999999", b"null", b"[[[[", b"{}", b'"x"', b"x", b"\x00", b"\xff\xfe",
    b"", b"-5", b"\r\n", b"9" * 5000, b",", b"\xff\xff\xff\x7f", b"\x00\x00\xc0\x7f", b"PK\x03\x04", b"inf",
]  # fmt: skip


def mesh_bytes(ending):
    import trimesh

    return trimesh.creation.icosphere(subdivisions=1).export(file_type=ending)


def make_files(folder):
    """A good file for every reader: {name: (path, reader)}."""
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.nsq.saved_scenes import full_scene, mesh_scene
    from tests.nsq.test_formats_luminaires import lopsided
    from tests.nsq.test_formats_rays import table
    from tests.nsq.test_formats_zmx import TESSAR, zmx
    from tests.nsq.test_saving import scene

    whole = full_scene()
    for name in ("A", "G"):
        whole.add_component(name, mesh_scene().component_registry.get(name))
    lamp = nsq.LuminaireSourceConfig(lopsided(num_phi=4), nsq.Spectrum.monochromatic(0.55))
    whole.add_source("lamp", nsq.CoordinateSystem(), lamp)
    whole.add_source("rays", nsq.CoordinateSystem(), nsq.RayFileSourceConfig(table(8)))
    whole.to_json(folder / "scene.json", surfaces=True)
    with torch.no_grad():
        scene().trace(300, seed=1, record_paths=5).save(folder / "result.npz")
    formats.write_zemax_rays(table(50), folder / "rays.dat")
    formats.write_tm25(table(50), folder / "rays.tm25ray")
    formats.write_ies(lopsided(num_phi=4), folder / "lamp.ies")
    formats.write_eulumdat(lopsided(num_phi=4), folder / "lamp.ldt")
    (folder / "lens.zmx").write_text(zmx(TESSAR, unit="CM"))
    (folder / "lines.txt").write_text("nm power\n" + "".join(f"{400 + 10 * i} {1 + i % 5}\n" for i in range(30)))
    lobe = "".join(f"{i},{s},{0.2 + 0.001 * s}\n" for i in (0, 40, 80) for s in (0, 30, 60, 90))
    (folder / "lobe.csv").write_text("theta_i,theta_s,value\n" + lobe)
    for ending in ("stl", "stl_ascii", "obj", "ply"):
        data = mesh_bytes(ending)
        (folder / f"{ending}.{ending[:3]}").write_bytes(data.encode() if isinstance(data, str) else data)
    return {
        "scene.json": nsq.NSQScene.from_json,
        "result.npz": nsq.SimulationResult.load,
        "rays.dat": formats.read_zemax_rays,
        "rays.tm25ray": formats.read_tm25,
        "lamp.ies": formats.read_ies,
        "lamp.ldt": formats.read_eulumdat,
        "lens.zmx": lambda path: formats.scene_from_zmx(path, num_pixels=4),
        "lines.txt": lambda path: spectra.from_file(path, "nm"),
        "lobe.csv": lambda path: nsq.TabulatedBSDF(path, sampler="density"),
        "stl.stl": nsq.MeshGeometry.load,
        "stl_ascii.stl": nsq.MeshGeometry.load,
        "obj.obj": nsq.MeshGeometry.load,
        "ply.ply": nsq.MeshGeometry.load,
    }


def damaged(good, rng, count):
    """``count`` ways to spoil a file."""
    for turn in range(count):
        a = int(rng.integers(min(len(good), 600) if turn % 2 else len(good)))
        b = min(len(good), a + int(rng.integers(1, 30)))
        way = turn % 5
        if way == 0:
            yield good[:a]
        elif way == 1:
            yield good[:a] + rng.bytes(b - a) + good[b:]
        elif way == 2:
            yield good[:a] + good[b:] + good[: int(rng.integers(100))]
        else:
            yield good[:a] + WORDS[rng.integers(len(WORDS))] + good[b:]


def bombs():
    """Small or middling files that promise, or would unpack to, far more than they hold: (name, bytes)."""
    yield "scene.json", b"[" * 5_000_000
    yield "scene.json", b"[" + b"{}," * 7_000_000 + b"{}]"
    yield "scene.json", b'{"nsq_schema_version":1,"components":' + b"[" * 900 + b"]" * 900 + b"}"
    squeezed = io.BytesIO()
    with zipfile.ZipFile(squeezed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("kind.npy", bytes(400_000_000))
    yield "result.npz", squeezed.getvalue()
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as archive:
        archive.writestr("kind.npy", header.getvalue())
    yield "result.npz", plain.getvalue()
    yield "lobe.csv", "".join(f"{i / 5000},{i / 5000},1\n" for i in range(400_000)).encode()
    yield "lobe.csv", "".join(f"{i / 4000},{s},1e-6\n" for i in range(200_000) for s in (0, 90)).encode()
    yield (
        "ply.ply",
        (
            b"ply\nformat ascii 1.0\nelement vertex 4000000000\nproperty float x\nproperty float y\nproperty float z\n"
            b"element face 4000000000\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n"
        ),
    )
    yield (
        "ply.ply",
        (
            b"ply\nformat binary_little_endian 1.0\nelement vertex 4000000000\nproperty float x\nproperty float y\n"
            b"property float z\nelement face 9\nproperty list uchar int vertex_indices\nend_header\n" + bytes(1000)
        ),
    )
    yield "stl.stl", bytes(80) + b"\xff\xff\xff\xff" + bytes(500)
    yield "obj.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 2000000000\nf -7 1 2\n"
    yield "lens.zmx", b"SURF 0\n" + b"PARM 1 1\n" * 400_000
    yield "lamp.ies", b"TILT=NONE\n1 1 1 100000 100000 1 1 0 0 0 1 1 1 " + b"1 " * 1_000_000
    yield "lines.txt", b"".join(b"%d 1\n" % i for i in range(1, 500_000))


class TooSlowError(Exception):
    pass


def refuses(reader, path, limit):
    """Whether a reader refuses a file; anything that it should not do raises."""
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        reader(path)
    except (ValueError, OSError) as error:
        if path.name not in str(error):
            raise AssertionError(f"does not name the file: {error!r}") from error
        return True
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return False


def too_slow(*_):
    raise TooSlowError


def main(folder):
    warnings.simplefilter("ignore")
    logging.disable()  # trimesh tells what it stumbles over
    signal.signal(signal.SIGPROF, too_slow)
    readers = make_files(folder)
    for name, reader in readers.items():  # everything that a reader imports is there before the limit
        reader(folder / name)
    kilobytes = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize"))
    limit = int(kilobytes.split()[1]) * 1024 + ROOM
    rng, wrong = np.random.default_rng(14), []
    cases = {name: list(damaged((folder / name).read_bytes(), rng, PER_READER)) for name in readers}
    for name, data in bombs():
        cases[name].append(data)
    counts = {}
    for name, files in cases.items():
        path = folder / f"bad.{name.split('.')[1]}"
        refused = 0
        for turn, data in enumerate(files):
            path.write_bytes(data)
            try:
                refused += refuses(readers[name], path, limit)
            except Exception as error:
                wrong.append(f"{name}, file {turn}: {type(error).__name__}: {str(error)[:300]}")
        counts[name] = [refused, len(files) - refused]
    print(json.dumps({"counts": counts, "wrong": wrong}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
