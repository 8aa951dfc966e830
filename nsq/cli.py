"""The command line: trace a scene file, look into one, convert a prescription, list ghosts, compile ahead of time.

Results go to standard output, everything else to standard error: progress on a terminal only, warnings and errors as
one line each. Exit codes: 0 done; 1 an error; 2 wrong usage; 130 stopped by Ctrl-C, after writing what was done.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import SimulationResult
    from .scene import NSQScene

OK, FAILED, INTERRUPTED = 0, 1, 130
_DESCRIPTION = "Non-sequential ray traces of optical scenes."
_EPILOG = """\
examples:
  python -m nsq convert lens.zmx scene.json
  python -m nsq info scene.json
  python -m nsq trace scene.json -n 1e6 --seed 1 --out result.npz --plot map.png
  python -m nsq trace scene.json -n 1e10 --target-error image=1e-3 --checkpoint run.nsq
  python -m nsq ghosts scene.json --detector image
  python -m nsq warmup

exit codes: 0 done; 1 an error, told in one line; 2 wrong usage; 130 stopped by Ctrl-C
"""


# ---- arguments -------------------------------------------------------------------------------------------------------


def _count(text: str) -> int:
    """A whole number, also as 1e6."""
    try:
        value = float(text)
        if value == int(value):
            return int(text) if text.lstrip("+-").isdigit() else int(value)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"got {text!r}; it takes a whole number such as 1000000 or 1e6")


def _positive(text: str) -> float:
    try:
        value = float(text)
        if value > 0.0:
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"got {text!r}; it takes a number > 0")


def _target(text: str) -> tuple[str | None, float]:
    """``0.01`` for all detectors, ``film=0.01`` for one."""
    name, equals, number = text.rpartition("=")
    return (name if equals else None), _positive(number)


def _targets(given: list[tuple[str | None, float]] | None) -> float | dict[str, float] | None:
    if not given:
        return None
    if given == [(None, given[0][1])]:
        return given[0][1]
    if any(name is None for name, _ in given):
        raise ValueError("several target errors were given; each of them takes the form NAME=ERROR")
    return {str(name): value for name, value in given}


def _parser() -> argparse.ArgumentParser:
    shared: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser("python -m nsq", description=_DESCRIPTION, epilog=_EPILOG, **shared)
    parser.add_argument("--traceback", action="store_true", help="show where an error comes from")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, run: Callable[[Any], int], text: str, example: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text, epilog=f"example:\n  {example}", **shared)
        added.set_defaults(run=run)
        return added

    trace = command(
        "trace", _trace, "Trace the scene of a file, print its ledger, and write its results.",
        "python -m nsq trace scene.json -n 1e6 --seed 1 --out result.npz --plot map.png",
    )  # fmt: skip
    _add_tracing(trace)
    trace.add_argument("--out", type=Path, metavar="FILE.npz", help="write all results to this file")
    trace.add_argument(
        "--plot", type=Path, metavar="FILE",
        help="draw the detectors' results, as .png, .pdf or .svg; of several, each gets its name in the file's",
    )  # fmt: skip
    trace.add_argument("--detector", metavar="NAME", help="draw this one alone")
    trace.add_argument("--max-seconds", type=_positive, default=math.inf, metavar="S", help="stop after so long")
    trace.add_argument(
        "--target-error", type=_target, action="append", metavar="[NAME=]ERROR",
        help="stop at this relative standard error of the flux on a detector, or on all; may be repeated",
    )  # fmt: skip
    trace.add_argument(
        "--target-map-error", type=_target, action="append", metavar="[NAME=]ERROR",
        help="stop at this relative error of a detector's pixels, or of all detectors'; may be repeated",
    )  # fmt: skip
    trace.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help="go on from this file if it is there, and keep it up to date"
    )
    trace.add_argument(
        "--checkpoint-every", type=_positive, default=60.0, metavar="S", help="seconds between two (default 60)"
    )

    info = command(
        "info", _info, "Say what is in a scene file, and whether it can be traced.", "python -m nsq info scene.json"
    )
    info.add_argument("scene", type=Path, help="a scene as JSON")

    convert = command(
        "convert", _convert, "Make a scene file of a sequential Zemax prescription, and report what it leaves out.",
        "python -m nsq convert lens.zmx scene.json",
    )  # fmt: skip
    convert.add_argument("source", type=Path, help="a .zmx file")
    convert.add_argument("scene", type=Path, help="the scene to write, as JSON")
    convert.add_argument("--pixels", type=_count, default=256, metavar="N", help="of the image (default 256 x 256)")
    convert.add_argument("--without-stop", action="store_true", help="leave out the ring of the aperture stop")

    ghosts = command(
        "ghosts", _ghosts, "List the ghosts on a detector: light reflected at least twice where it should pass.",
        "python -m nsq ghosts scene.json --detector film -n 1e6 --csv ghosts.csv",
    )  # fmt: skip
    _add_tracing(ghosts)
    ghosts.add_argument("--detector", required=True, metavar="NAME", help="where they are seen")
    ghosts.add_argument("--csv", type=Path, metavar="FILE", help="write the whole table to this file")
    ghosts.add_argument("--limit", type=_count, default=20, metavar="N", help="rows to print (default 20)")
    ghosts.add_argument(
        "--as-traced", action="store_true",
        help="choose branches as the scene says; by default both branches are taken often, which finds more ghosts",
    )  # fmt: skip

    warmup = command(
        "warmup", _warmup, "Compile the kernels of usual traces into the cache, several at a time.",
        "python -m nsq warmup --precision float32",
    )  # fmt: skip
    warmup.add_argument(
        "--precision", choices=("float64", "float32", "both"), default="float64", help="default: float64"
    )
    warmup.add_argument("--device", default="cpu", metavar="NAME", help="such as cpu (default) or cuda:0")
    warmup.add_argument("--without-gradients", action="store_true", help="leave out the kernels of backward passes")
    warmup.add_argument("--all", action="store_true", help="every kernel of every kind of scene, in both precisions")
    return parser


def _add_tracing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scene", type=Path, help="a scene as JSON")
    parser.add_argument("-n", "--num-rays", type=_count, default=1_000_000, metavar="N", help="rays (default 1e6)")
    parser.add_argument("--seed", type=_count, default=0, metavar="N", help="of the random numbers (default 0)")
    parser.add_argument("--max-depth", type=_count, default=16, metavar="N", help="events of a ray (default 16)")
    parser.add_argument("--precision", choices=("float64", "float32"), default="float64", help="default: float64")
    parser.add_argument("--device", metavar="NAME", help="such as cpu (default) or cuda:0")
    parser.add_argument("--threads", type=_count, metavar="N", help="on a CPU; default: every core")


# ---- commands --------------------------------------------------------------------------------------------------------


def _read(path: Path) -> NSQScene:
    from .scene import NSQScene

    return NSQScene.from_json(path)


def _options(arguments: Any) -> dict[str, Any]:
    """What every command that traces hands to ``trace``."""
    from .backend import TorchBackend
    from .threads import set_num_threads

    if arguments.threads is not None:
        set_num_threads(arguments.threads)
    return {
        "num_rays": arguments.num_rays,
        "seed": arguments.seed,
        "max_depth": arguments.max_depth,
        "backend": TorchBackend(precision=arguments.precision, device=arguments.device),
        "progress": sys.stderr.isatty(),
        "max_seconds": getattr(arguments, "max_seconds", math.inf),
    }


def _trace(arguments: Any) -> int:
    from .longrun import CTRL_C

    scene = _read(arguments.scene)
    if arguments.detector is not None:
        scene.detector_registry.get(arguments.detector)
    _check_folders(arguments.out, arguments.plot)
    result = scene.trace(
        **_options(arguments),
        target_error=_targets(arguments.target_error),
        target_map_error=_targets(arguments.target_map_error),
        checkpoint=arguments.checkpoint,
        checkpoint_every=arguments.checkpoint_every,
    )
    print(result.report())
    for name, error in result.relative_errors.items():
        if math.isfinite(error):
            print(f"detector {name}: relative standard error of the flux {error:.2g}")
    if result.partial:
        print(f"partial: {result.num_rays_total} of {arguments.num_rays} rays, stopped by {result.stopped_by}")
    print(f"{result.trace_time_sec:.3g} s")
    if arguments.out is not None:
        _say(f"wrote {result.save(arguments.out)}")
    if arguments.plot is not None:
        _plot(result, arguments.plot, arguments.detector)
    return INTERRUPTED if result.stopped_by == CTRL_C else OK


def _check_folders(*paths: Path | None) -> None:
    """A bad place for a result is known before the trace."""
    for path in paths:
        if path is not None and not path.absolute().parent.is_dir():
            raise FileNotFoundError(f"{path}: there is no folder {path.absolute().parent}")


def _plot(result: SimulationResult, path: Path, chosen: str | None) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    names = list(result.detectors) if chosen is None else [chosen]
    for name in names:
        target = path if len(names) == 1 else path.with_name(f"{path.stem}-{_plain(name)}{path.suffix}")
        axes = result.detectors[name].plot()
        axes = axes[0] if isinstance(axes, Sequence) else axes
        axes.figure.savefig(target, bbox_inches="tight", dpi=150)
        plt.close(axes.figure)
        _say(f"drew {target}")


def _plain(name: str) -> str:
    """A name as part of a file's."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)


def _ghosts(arguments: Any) -> int:
    from .sampling import SamplingPolicy

    scene = _read(arguments.scene)
    scene.detector_registry.get(arguments.detector)
    _check_folders(arguments.csv)
    result = scene.trace(**_options(arguments))
    policy = None if arguments.as_traced else SamplingPolicy(reflect_prob="auto")
    table = result.ghosts(arguments.detector, num_rays=arguments.num_rays, policy=policy)
    print(table.table(arguments.limit))
    if arguments.csv is not None:
        _say(f"wrote {table.to_csv(arguments.csv)}")
    return OK


def _info(arguments: Any) -> int:
    from .numbers import to_float

    scene = _read(arguments.scene)
    print(f"{arguments.scene}")
    parts = (
        ("sources", scene.source_registry, lambda s: f"{to_float(s.total_flux):g} W, {_lines(s.spectrum)}"),
        ("components", scene.component_registry, _surfaces),
        ("detectors", scene.detector_registry, _pixels),
    )
    for noun, registry, describe in parts:
        print(f"{noun}:" if len(registry.names) else f"{noun}: none")
        rows = [(name, type(registry.get(name)).__name__, describe(registry.get(name))) for name in registry]
        widths = [max((len(row[k]) for row in rows), default=0) for k in range(2)]
        for name, kind, text in rows:
            print(f"  {name:<{widths[0]}}  {kind:<{widths[1]}}  {text}".rstrip())
    print(f"sampling: {scene.sampling_policy}")
    scene.validate()
    print("the scene can be traced")
    return OK


def _lines(spectrum: Any) -> str:
    lines = spectrum.wavelengths
    if len(lines) == 1:
        return f"{lines[0]:g} µm"
    return f"{len(lines)} lines from {min(lines):g} to {max(lines):g} µm"


def _surfaces(component: Any) -> str:
    parts = getattr(component, "surfaces", None)
    return "" if parts is None else ", ".join(f"{s.name.removeprefix(component.name + '.')} ({s.kind})" for s in parts)


def _pixels(detector: Any) -> str:
    passing = "" if detector.absorb else ", lets light pass"
    if hasattr(detector, "num_pixels_x"):
        return f"{detector.num_pixels_x} x {detector.num_pixels_y} pixels{passing}"
    if hasattr(detector, "num_bins_theta"):
        return f"{detector.num_bins_theta} x {detector.num_bins_phi} directions{passing}"
    return f"keeps rays{passing}"


def _convert(arguments: Any) -> int:
    from .formats import scene_from_zmx

    if arguments.source.suffix.lower() != ".zmx":
        raise ValueError(f"{arguments.source}: it takes a sequential prescription, a file that ends with .zmx")
    scene, report = scene_from_zmx(arguments.source, num_pixels=arguments.pixels, stop=not arguments.without_stop)
    scene.to_json(arguments.scene, surfaces=True)
    print(report)
    _say(f"wrote {arguments.scene}")
    return OK


def _warmup(arguments: Any) -> int:
    import warp as wp

    import kernels
    from kernels import sources
    from kernels.trace.interact import Variant
    from kernels.trace.warmup import load_modules

    from .backend import check_device

    device = check_device(arguments.device)
    started = time.perf_counter()
    if arguments.all:
        wp.force_load(device, modules=kernels.all_modules())
    else:
        kinds = () if arguments.without_gradients else range(len(sources.ROWS))
        for precision in ("float64", "float32") if arguments.precision == "both" else (arguments.precision,):
            for variant in Variant.common():
                load_modules(precision, wp.get_device(device), kinds, variant=variant, edges=bool(kinds))
    print(f"kernels ready for {device} in {time.perf_counter() - started:.1f} s, in {wp.config.kernel_cache_dir}")
    return OK


# ---- around them -----------------------------------------------------------------------------------------------------


def _say(text: str) -> None:
    """A line for people, beside the results."""
    print(text, file=sys.stderr)


def _one_line(error: Any) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    _say(f"nsq: warning: {_one_line(message)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, of ``sys.argv`` unless ``argv`` is given, and return its exit code.

    Wrong usage raises SystemExit with code 2, as ``argparse`` does.
    """
    arguments = _parser().parse_args(argv)
    if importlib.util.find_spec("warp") is not None:
        import warp as wp

        wp.config.log_level = wp.LOG_ERROR  # the process is this program's own; nobody asked which compiler it found
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            return arguments.run(arguments)
        except KeyboardInterrupt:
            _say("nsq: interrupted")
            return INTERRUPTED
        except Exception as error:
            if arguments.traceback:
                raise
            _say(f"nsq: error: {_one_line(error)}")
            return FAILED
