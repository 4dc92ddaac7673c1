"""How tests wait: for an event, never for a time. Imported by the tests of other folders."""
import time

# Seconds after which a test gives up. Only a program that hangs reaches this limit; a busy machine does not.
LIMIT = 1200


def wait_until(condition, pause=0.05):
    """Returns what `condition` returns once that is true; its last value after LIMIT seconds."""
    end = time.monotonic() + LIMIT
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(pause)
    return value


def wait_for(what, condition, shown=lambda: "", pause=0.1):
    """Returns what `condition` returns once that is true; fails with `what` and `shown()` after LIMIT seconds."""
    if value := wait_until(condition, pause):
        return value
    raise AssertionError(f"{what}: not within {LIMIT} s\n{shown()}")
