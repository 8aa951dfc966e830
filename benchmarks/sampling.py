"""Sobol births against plain ones: the error of a spot and of a map against the number of rays, and its slope.

Errors are root mean squares over seeds, relative to the mean of the finest Sobol runs. The achromat transmits only, so
that births are all that is random; the map is of a Gaussian beam, in pixels with Gaussian splats.
"""

import math

SEEDS = 16
POWERS = range(10, 19, 2)


def achromat(sampler):
    """A white beam through a cemented achromat of f = 100 mm onto a database in its focal plane."""
    import numpy as np

    import nsq

    scene = nsq.NSQScene()
    spectrum = nsq.Spectrum(np.array([0.4861, 0.5876, 0.6563]), np.ones(3))
    scene.add_source("S", nsq.CoordinateSystem(z=-10.0), nsq.CollimatedSourceConfig(spectrum, aperture_radius=10.0))
    flint = nsq.NSQMaterial.from_glass("SF5", supplier="schott")
    scene.add_doublet(
        "L", nsq.CoordinateSystem(), nsq.DoubletConfig(62.8, -45.7, -128.2, 4.0, 2.5, "N-BK7", flint, 12.7)
    )
    scene.add_detector("D", nsq.CoordinateSystem(z=103.6), nsq.RayDatabaseConfig(60.0, 60.0))
    scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=1e-6, rr_start_flux=0.0, sampler=sampler)
    return scene


def spot(result):
    """The RMS radius, mm."""
    import numpy as np

    rays = result.detectors["D"]
    return np.array([math.sqrt((rays.flux * (rays.x**2 + rays.y**2)).sum() / rays.flux.sum())])


def gaussian(sampler):
    """A Gaussian beam on a map that it fills."""
    import nsq

    scene = nsq.NSQScene()
    line = nsq.Spectrum.monochromatic(0.55)
    beam = nsq.CollimatedSourceConfig(line, aperture_radius=5.0, profile="gaussian", gaussian_sigma=1.5)
    scene.add_source("S", nsq.CoordinateSystem(), beam)
    plate = nsq.IrradianceDetectorConfig(6.0, 6.0, 16, 16, splat="gaussian", splat_sigma=1.0)
    scene.add_detector("D", nsq.CoordinateSystem(z=10.0), plate)
    scene.sampling_policy = nsq.SamplingPolicy(sampler=sampler)
    return scene


def pixels(result):
    return result.detectors["D"].data.numpy()


CASES = {"spot of an achromat": (achromat, spot), "map of a Gaussian beam": (gaussian, pixels)}


def errors(build, read, sampler, truth, powers, seeds):
    import numpy as np

    found = []
    for power in powers:
        runs = np.stack([read(build(sampler).trace(1 << power, seed=seed)) for seed in range(seeds)])
        found.append(math.sqrt(np.mean((runs - truth) ** 2) / np.mean(truth**2)))
    return found


def compare(name, powers=POWERS, seeds=SEEDS):
    """Print both errors at every size, their slopes, and the plain rays that the last Sobol error takes."""
    import numpy as np

    import nsq

    build, read = CASES[name]
    finest = 1 << (max(powers) + 1)
    truth = np.mean([read(build(nsq.Sobol()).trace(finest, seed=1000 + seed)) for seed in range(seeds)], axis=0)
    plain, even = (errors(build, read, sampler, truth, powers, seeds) for sampler in (None, nsq.Sobol()))
    slopes = [float(np.polyfit(np.array(powers) * math.log(2.0), np.log(found), 1)[0]) for found in (plain, even)]
    print(f"{name:26} {'plain':>10} {'Sobol':>10}")
    for power, a, b in zip(powers, plain, even, strict=True):
        print(f"    {1 << power:10d} rays        {a:10.2e} {b:10.2e}")
    print(f"    slope                  {slopes[0]:10.2f} {slopes[1]:10.2f}")
    print(f"    plain rays for the last Sobol error: {(plain[-1] / even[-1]) ** 2:.3g} times as many")
    return slopes


def main():
    print(__doc__.splitlines()[0])
    for name in CASES:
        compare(name)


if __name__ == "__main__":
    main()
