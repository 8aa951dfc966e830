"""How a trace spends its rays."""

from __future__ import annotations

from dataclasses import dataclass

from ._names import named_arguments
from .numbers import Number, check_choice, check_count, check_number

REFLECT_RULES = ("fresnel", "auto")


@named_arguments
@dataclass(frozen=True)
class Sobol:
    """Births at Owen-scrambled Sobol points, for `SamplingPolicy.sampler`.

    Positions, directions and spectral lines of a source's rays then fill their space evenly instead of at random, which
    lowers the error of smooth results; every later choice stays random. The mean is the same, and a ray is still a
    function of (scene, seed, ray id). The seed picks the scramble, so an error can be estimated from several seeds. A
    power of two of rays is best.
    """


@named_arguments
@dataclass(frozen=True)
class SamplingPolicy:
    """Probabilities of the random choices in a trace. None of them moves the mean of any result.

    Args:
        reflect_prob: chance that a ray is reflected where a surface reflects the share R. "fresnel": R itself, so that
            the weight is 1 in value. "auto": R, but at least 0.25 and at most 0.75. A number in (0, 1): that number.
        split_depth: at refracting surfaces met before this bounce both parts of a ray go on, each with its share of
            the flux; surfaces that scatter do not split. In a trace with gradients it is ignored, with a warning.
        split_budget: live rays that splitting may make of one, >= 1; a ray that may not split any more chooses at
            random, and the result's ``split_budget_saturated`` says that there was one.
        rr_start_flux: flux below which Russian roulette begins, as a share of the mean flux per ray, >= 0; 0 leaves
            the threshold to the trace's ``min_flux_fraction``, and so does a scene whose surfaces have an
            ImportanceTarget: the rays sent there are faint on purpose.
        sampler: None draws every number from the keyed generator; ``Sobol()`` places births evenly.

    Raises TypeError and ValueError naming the argument.
    """

    reflect_prob: str | float = "fresnel"
    split_depth: int = 0
    split_budget: Number = 4.0
    rr_start_flux: Number = 1e-3
    sampler: Sobol | None = None

    def __post_init__(self) -> None:
        if isinstance(self.reflect_prob, str):
            check_choice(self.reflect_prob, "reflect_prob", REFLECT_RULES)
        else:
            check_number(self.reflect_prob, "reflect_prob", minimum=0.0, maximum=1.0)
            if self.reflect_prob in (0, 1):
                raise ValueError(
                    f"reflect_prob got {self.reflect_prob!r}; it takes 'fresnel', 'auto' or a number between 0 and 1,"
                    " both excluded, because neither branch may be left out"
                )
        check_count(self.split_depth, "split_depth", minimum=0)
        check_number(self.split_budget, "split_budget", minimum=1.0)
        check_number(self.rr_start_flux, "rr_start_flux", nonnegative=True)
        if self.sampler is not None and not isinstance(self.sampler, Sobol):
            kind = type(self.sampler).__name__
            raise TypeError(f"sampler got {self.sampler!r} of type {kind}; it takes None or a Sobol")
