"""OpenTelemetry: spans and metrics about waiting, holding and failing, right with many processes.

A program that has configured the SDK needs none of this: schedulers report to it by themselves. `setup()` is for who has not.
"""

from llm_sched.telemetry.setup import Telemetry, setup

__all__ = ["Telemetry", "setup"]
