"""wandb.util, as far as programs call it."""
from __future__ import annotations

import random
import re
import string


def generate_id(length: int = 8) -> str:
    """Returns a random id."""
    return "".join(random.SystemRandom().choice(string.ascii_lowercase + string.digits) for _ in range(length))


def make_artifact_name_safe(name: str) -> str:
    """Returns a name without other characters than letters, digits, -, _ and dots."""
    return re.sub(r"[^a-zA-Z0-9_\-.]", "_", name)
