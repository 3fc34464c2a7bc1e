"""Types that the command-line tests share."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

Command = Callable[..., "subprocess.CompletedProcess[str]"]
