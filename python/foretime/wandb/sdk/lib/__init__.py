"""Names that other packages import from W&B's inside."""


class RunDisabled:
    """Never made: a disabled run is a Run that keeps nothing."""


__all__ = ["RunDisabled"]
