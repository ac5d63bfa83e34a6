"""The page of `lmc report`: what it draws is what the data says."""

from __future__ import annotations

from typing import Any

import made
from reading import MARKS, card, cells, choose, rows_become, values


def test_every_chart_is_drawn_and_explained(opened: Any) -> None:
    """Each chart has marks, a title, an explanation and a table; sections have what they say."""
    page = opened("report", made.report())
    plots = page.locator(".plot").all()
    assert len(plots) == 4
    for plot in plots:
        assert plot.evaluate(MARKS) > 2
        assert plot.get_attribute("aria-label").startswith(
            plot.locator("xpath=..").locator("h3").inner_text()
        )
        assert values(plot.locator("xpath=.."))
    assert page.locator("section").count() == 6
    assert page.locator(".notice").count() == 0


def test_figures_are_those_of_the_data(opened: Any) -> None:
    """Totals, savings, snapshots and retention."""
    data = made.report()
    page = opened("report", data)
    totals = data["totals"]
    tiles = page.locator(".tiles dd").all_inner_texts()
    ratio = totals["logical_bytes"] / (totals["pack_bytes"] + totals["manifest_bytes"])
    assert tiles[0].startswith("48") and tiles[3].startswith(f"{ratio:.2f}×")
    saved = [row[1] for row in values(card(page, "What became of the bytes of all snapshots"))]
    keys = ["archive_bytes", "saved_by_reuse_bytes", "saved_by_delta_bytes"]
    assert saved == [totals[key] for key in [*keys, "saved_by_coding_bytes"]]
    assert sum(saved) == totals["logical_bytes"]
    held = [row[1] for row in values(card(page, "What the store holds"))]
    assert held[:3] == [totals["archive_bytes"], 40_000_000_000, 50_000_000_000]
    chart = card(page, "Size of snapshots and what they added")
    for name, run in [("pretrain", 0), ("finetune", 1)]:
        choose(chart, "Run", name)
        wanted = data["runs"][run]["snapshots"]
        keys = ["id", "step", "bytes", "whole_bytes", "added_bytes"]
        assert values(chart) == [[each[key] for key in keys] for each in wanted]
        for kind in ["Logarithmic", "Linear"]:
            choose(chart, "Axis", kind)
            assert chart.locator(".plot path.line").count() == 3
    rows = cells(page.locator("#retention table"))
    assert [row[:3] for row in rows] == [
        [each["rule"], each["snapshots_removed"], each["freed_bytes"]] for each in data["retention"]
    ]
    rows = cells(page.locator("#snapshots table"))
    assert [row[6] for row in rows] == [
        each["bytes"] for run in data["runs"] for each in run["snapshots"]
    ]


def test_chains_lead_to_bases(opened: Any) -> None:
    """Each base is an arc: within a run, between runs, or out of the picture."""
    data = made.report()
    first, second = (run["snapshots"] for run in data["runs"])
    second[0]["bases"] = [first[3]["id"]]
    second[8]["bases"] = ["of a snapshot that is gone"]
    page = opened("report", data)
    chart = card(page, "Which snapshot is coded against which")
    arcs = chart.locator(".plot .arc")
    assert arcs.count() == 2 * 21 + 2
    assert chart.locator(".plot .arc.outside").count() == 1
    assert chart.locator(".plot .arc.c4").count() == 1
    choose(chart, "Run", "pretrain")
    assert arcs.count() == 21
    chart.locator(".plot").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    text = page.locator(".tooltip").inner_text()
    assert "pretrain, step 2,000" in text and "step 1,000" in text


def test_the_table_of_snapshots_sorts_and_searches(opened: Any) -> None:
    """Sorting, and search by run, tag and id."""
    data = made.report()
    page = opened("report", data)
    part = page.locator("#snapshots")
    part.get_by_role("button", name="Added").click()
    added = [row[7] for row in cells(part.locator("table"))]
    assert added == sorted(added, reverse=True) and len(added) == 48
    part.get_by_label("Search").fill("finetune eval")
    rows_become(page, "snapshots", 2)
    part.get_by_label("Search").fill(data["runs"][0]["snapshots"][5]["id"])
    rows_become(page, "snapshots", 1)


def test_damage_is_said_first(opened: Any) -> None:
    """Damage is a notice in the summary, and marks its snapshots; unread ones have no figures."""
    data = made.report()
    data["damage"] = [{"object": "packs/ab", "what": "is missing; restore it from a copy"}]
    hurt = data["runs"][0]["snapshots"][2]
    hurt["damage"] = ["packs/ab is missing"]
    for key in ["files", "added_bytes", "whole_bytes", "depth", "saved_reuse", "saved_delta"]:
        hurt[key] = None
    hurt |= {"saved_coding": None, "bases": None}
    page = opened("report", data)
    notice = page.locator("#summary .notice").inner_text()
    assert "1 object damaged" in notice and "packs/ab: is missing" in notice
    row = page.locator("#snapshots tr.damaged")
    assert row.count() == 1 and "packs/ab is missing" in row.inner_text()
    assert page.locator(".plot .mark.hollow").count() == 1


def test_what_is_not_there_is_not_needed(opened: Any) -> None:
    """Empty stores, runs without snapshots, one snapshot, and data without its parts."""
    one = made.report(runs=1, snapshots=1)
    for data in (
        {},
        None,
        [],
        {"runs": None, "totals": None},
        {"runs": [{"run": "empty", "snapshots": []}], "totals": {"snapshots": 0}},
        {"runs": [{"snapshots": [{}, {"step": "x", "time": 3, "bases": "y"}]}]},
        one,
        one | {"totals": {}, "retention": [{}], "damage": [{}], "checked": None},
    ):
        page = opened("report", data)
        assert page.locator("#summary").count() == 1
        page.close()
    page = opened("report", made.report(runs=30, snapshots=40))
    assert page.locator("#snapshots tbody tr").count() == 50
