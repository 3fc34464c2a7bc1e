"""Make Grafana's dashboards and Prometheus's rules from `queries.py`: `python dashboards/generate.py [--check]`.

The law: the files beside this are made by it and by nobody else, always the same; CI makes them again and compares.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import yaml

with warnings.catch_warnings():
    # The classic dashboard schema is deprecated in favour of one that only the newest Grafana can read.
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.builders import common as common_builders
    from grafana_foundation_sdk.builders import dashboard as builders
    from grafana_foundation_sdk.builders import prometheus, stat, timeseries
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import common, dashboard

import queries
from queries import Page, Panel

FOLDER = Path(__file__).parent
DATA_SOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
HEIGHTS = {"stat": 4, "timeseries": 8}


def main() -> int:
    """Write all files, or with `--check` say which differ."""
    stale = []
    for path, text in files().items():
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(path)
        else:
            path.write_text(text, encoding="utf-8")
    for path in stale:
        sys.stderr.write(f"{path} is not what dashboards/generate.py makes: run it\n")
    return 1 if stale else 0


def files() -> dict[Path, str]:
    """Each file's content."""
    made = {FOLDER / "grafana" / f"{page.uid}.json": grafana(page) for page in queries.PAGES}
    return {**made, FOLDER / "prometheus" / "rules.yaml": rules()}


def grafana(page: Page) -> str:
    """A dashboard as Grafana imports it."""
    board = (
        builders.Dashboard(page.title)
        .uid(page.uid)
        .description(page.description)
        .tags(["llm-sched"])
        .editable()
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .time("now-1h", "now")
        .refresh("10s")
        .link(
            builders.DashboardLink("LLM scheduler")
            .type(dashboard.DashboardLinkType.DASHBOARDS)
            .tags(["llm-sched"])
            .keep_time(keep_time=True)
        )
        .with_variable(builders.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(choice("bucket", "Bucket", queries.BUCKET))
    )
    if page.by_instance:
        board.with_variable(choice("instance", "Process", queries.INSTANCE))
    number = 0
    for title, panels in page.rows:
        board.with_row(builders.Row(title))
        for panel in panels:
            number += 1
            board.with_panel(picture(panel, number))
    return json.dumps(board.build(), cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def choice(name: str, label: str, source: str) -> builders.QueryVariable:
    """A variable of all values that a label has."""
    query = f"label_values({queries.names.REQUESTS.prometheus}, {source})"
    return (
        builders.QueryVariable(name)
        .label(label)
        .datasource(DATA_SOURCE)
        .query({"query": query, "refId": name})
        .definition(query)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(multi=True)
        .include_all(include_all=True)
        .all_value(".*")
        .current(dashboard.VariableOption(selected=True, text="All", value="$__all"))
    )


def picture(panel: Panel, number: int) -> timeseries.Panel | stat.Panel:
    """One panel."""
    made: Any = stat.Panel() if panel.kind == "stat" else timeseries.Panel()
    made = (
        made.id(number)
        .title(panel.title)
        .description(panel.description)
        .datasource(DATA_SOURCE)
        .unit(panel.unit)
        .span(panel.width)
        .height(HEIGHTS[panel.kind])
    )
    if panel.kind == "stat":
        made = made.reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    else:
        made = made.min(0).fill_opacity(20 if panel.stacked else 5).line_width(1).show_points(common.VisibilityMode.NEVER)
        tooltip = common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
        made = made.tooltip(tooltip)
        if panel.stacked:
            made = made.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    for index, series in enumerate(panel.series):
        query = prometheus.Dataquery().expr(series.expr).legend_format(series.legend).ref_id(chr(ord("A") + index)).range()
        made = made.with_target(query.datasource(DATA_SOURCE))
    return made


def rules() -> str:
    """Recording and alerting rules as Prometheus loads them."""
    recording = [{"record": name, "expr": expr} for name, expr in queries.RECORDED.items()]
    alerting = [
        {
            "alert": alert.name,
            "expr": alert.expr,
            "for": alert.lasting,
            "labels": {"severity": alert.severity},
            "annotations": {"summary": alert.summary, "description": alert.advice},
        }
        for alert in queries.ALERTS
    ]
    groups = [{"name": "llm-sched-recorded", "rules": recording}, {"name": "llm-sched-alerts", "rules": alerting}]
    head = "# Made by dashboards/generate.py; change queries.py instead.\n"
    return head + yaml.safe_dump({"groups": groups}, sort_keys=False, width=10_000, allow_unicode=True)


if __name__ == "__main__":
    sys.exit(main())
