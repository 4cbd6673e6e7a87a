"""Quantiles of Student's t distribution, for intervals over a few seeds."""

from dph.errors import SettingsError


def t_quantile(probability: float, degrees: int) -> float:
    """The t below which ``probability`` of the distribution lies.

    Computed as: SciPy's ``stdtrit``, imported with the first quantile: it takes 0.4 s to load.
    Accuracy: 1e-9 relative for 0.5 <= probability <= 0.9995 and degrees <= 1000.

    Raises:
        SettingsError: probability is not in [0.5, 1), or degrees is below 1.

    >>> round(t_quantile(0.975, 2), 4)
    4.3027
    """
    if not 0.5 <= probability < 1:
        raise SettingsError(f"probability must lie in [0.5, 1), got {probability}")
    if degrees < 1:
        raise SettingsError(f"degrees of freedom must be at least 1, got {degrees}")
    from scipy.special import stdtrit  # noqa: PLC0415 - loaded with the first quantile

    return float(stdtrit(degrees, probability))
