"""All JSON Schema files for editors: `python -m llm_sched.lab.json_schemas` writes them anew."""

from __future__ import annotations

from llm_sched.lab.kinds import ExperimentDocument
from llm_sched.pipeline import json_schemas


def schema_files() -> dict[str, str]:
    """The files' names and contents, as they should be."""
    return json_schemas.schema_files(experiment=ExperimentDocument)


if __name__ == "__main__":
    json_schemas.write(schema_files())
