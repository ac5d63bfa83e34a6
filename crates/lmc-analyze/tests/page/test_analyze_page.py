"""The page of `lmc analyze`: what it draws is what the data says."""

from __future__ import annotations

import copy
import math
from typing import Any

import made
import pytest
from reading import MARKS, card, cells, choose, headings, rows_become, slide, values


@pytest.fixture(scope="module")
def data() -> made.Json:
    """A series of checkpoints."""
    return made.analyze()


def close(shown: list[Any], wanted: list[Any]) -> None:
    """Both have the same figures; a dash stands for none."""
    assert len(shown) == len(wanted)
    for ours, other in zip(shown, wanted, strict=True):
        if isinstance(other, float | int):
            assert isinstance(ours, float | int) and math.isclose(ours, other, rel_tol=1e-9)
        else:
            assert ours == ("–" if other is None else other)


def test_every_chart_is_drawn_and_explained(opened: Any, data: made.Json) -> None:
    """Each chart has marks, a title, an explanation, a name for screen readers and a table."""
    page = opened("analyze", data)
    plots = page.locator(".plot").all()
    assert len(plots) == 8
    for plot in plots:
        own = plot.locator("xpath=..")
        title = own.locator("h3").inner_text()
        assert plot.evaluate(MARKS) > 2, title
        assert len(own.locator(".about").first.inner_text()) > 20, title
        assert plot.get_attribute("role") == "img"
        assert plot.get_attribute("tabindex") == "0"
        assert plot.get_attribute("aria-label").startswith(title)
        assert values(own), title
    assert page.locator("nav a").count() == page.locator("section").count() == 10


def test_the_summary_is_the_sum(opened: Any, data: made.Json) -> None:
    """Tiles and table give sizes and ratios of the checkpoints, alone and against the last."""
    page = opened("analyze", data, title="A <b>title</b>")
    assert page.title() == page.locator("h1").inner_text() == "A <b>title</b>"
    totals = [each["total"] for each in data["checkpoints"]]
    before = [pair["total"] for pair in data["pairs"] if pair["distance"] == 1]
    size = sum(total["bytes"] for total in totals)
    coded = sum(total["coded"] * total["values"] / 8 for total in totals)
    against = sum(total["coded"] * total["values"] / 8 for total in before)
    tiles = page.locator(".tiles dd").all_inner_texts()
    assert tiles[0].startswith("10")
    assert tiles[3].startswith(f"{size / coded:.2f}×")
    assert tiles[4].startswith(f"{sum(total['bytes'] for total in totals[1:]) / against:.2f}×")
    rows = cells(page.locator("#summary table"))
    for i, (row, checkpoint) in enumerate(zip(rows, data["checkpoints"], strict=True)):
        total = checkpoint["total"]
        bits = 8 * total["bytes"] / total["values"]
        change = before[i - 1] if i > 0 else None
        close(
            row,
            [checkpoint["name"], checkpoint["step"], 2, checkpoint["bytes"], 640]
            + [bits / total["coded"]]
            + ([bits / change["coded"], change["unchanged"]] if change else [None, None]),
        )


def test_sizes_over_steps_are_those_of_the_data(opened: Any, data: made.Json) -> None:
    """Bits per value and ratios of each method, of everything, of a type and of a kind."""
    page = opened("analyze", data)
    chart = card(page, "Size by method")
    before = {pair["checkpoint"]: pair for pair in data["pairs"] if pair["distance"] == 1}
    keys = ["coded", "xor", "difference", "difference_given_exponent"]
    kind = data["tensors"][1]["kind"]
    for name, pick in [
        ("everything", lambda each: each["total"]),
        ("type BF16", lambda each: each["dtypes"]["BF16"]),
        (f"kind {kind}", lambda each: each["kinds"][kind]),
    ]:
        choose(chart, "Of", name)
        for unit in ["Bits per value", "Ratio"]:
            choose(chart, "Show", unit)
            for i, row in enumerate(values(chart)):
                alone = pick(data["checkpoints"][i])
                change = pick(before[i]) if i in before else {}
                bits = [alone["coded"], change.get("coded"), alone["bound"]]
                bits += [change.get(key) for key in keys[1:]]
                width = 8 * alone["bytes"] / alone["values"]
                if unit == "Ratio":
                    bits = [width / each if each else None for each in bits]
                close(row[1:], bits)


def test_a_part_of_a_checkpoint_is_compared_with_itself(opened: Any) -> None:
    """If the step before lacks some tensors, ratios against it are those of the others."""
    data = made.analyze(steps=3, layers=2)
    for pair in data["pairs"]:
        pair["only_new"] = ["embed.weight"]
        pair["total"] = pair["dtypes"]["BF16"]
        del pair["dtypes"]["F32"]
    page = opened("analyze", data)
    before = [pair["total"] for pair in data["pairs"] if pair["distance"] == 1]
    against = [row[6] for row in cells(page.locator("#summary table"))]
    close(against[1:], [16 / change["coded"] for change in before])
    ratio = 16 * 2 / sum(change["coded"] for change in before)
    assert page.locator(".tiles dd").nth(4).inner_text().startswith(f"{ratio:.2f}×")
    chart = card(page, "Size by method")
    assert chart.get_by_label("Of", exact=True).input_value() == "dtypes:BF16"
    choose(chart, "Of", "everything")
    choose(chart, "Show", "Ratio")
    close([row[2] for row in values(chart)][1:], [16 / change["coded"] for change in before])
    chart.locator(".plot").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert "in the step before" in page.locator(".tooltip").inner_text()


def test_means_by_distance_are_those_of_the_data(opened: Any, data: made.Json) -> None:
    """Pairs with the same distance give one point, their mean over values."""
    data = copy.deepcopy(data)
    for i, pair in enumerate(data["pairs"]):
        pair["total"]["values"] *= i + 1
    page = opened("analyze", data)
    rows = values(card(page, "Bits per value by distance"))
    assert [row[0] for row in rows] == [100, 200, 400, 800]
    keys = ["coded_alone", "coded", "xor", "difference", "difference_given_exponent"]
    for row in rows:
        totals = [pair["total"] for pair in data["pairs"] if pair["steps"] == row[0]]
        whole = sum(total["values"] for total in totals)
        means = [sum(total[key] * total["values"] for total in totals) / whole for key in keys]
        close(row[1:], [len(totals), *means])


def test_maps_show_every_tensor_and_bit(opened: Any, data: made.Json) -> None:
    """The maps' cells are the figures of tensors and the shares of flipped bits."""
    page = opened("analyze", data)
    chart = card(page, "Map of tensors")
    choose(chart, "Type", "All")
    by_name = {tensor["name"]: tensor for tensor in data["tensors"]}
    first = [i for i, pair in enumerate(data["pairs"]) if pair["distance"] == 1]
    rows = values(chart)
    assert sorted(row[0] for row in rows) == sorted(by_name)
    for row in rows:
        changes = by_name[row[0]]["changes"]
        close(row[1:], [changes[i]["difference_given_exponent"] for i in first])
    choose(chart, "Figure", "Entropy of the exponent (bits)")
    for row in values(chart):
        close(row[1:], [each["exponent"] for each in by_name[row[0]]["alone"]])
    chart.get_by_label("Only names with").fill("layers.3.")
    rows_become(page, "map", 6)
    assert all("layers.3." in row[0] for row in cells(chart.locator("table")))
    chart = card(page, "Share of values in which a bit differs")
    choose(chart, "Type", "BF16")
    rows = values(chart)
    assert [row[0] for row in rows] == list(range(15, -1, -1))
    assert [rows[0][1], rows[1][1], rows[9][1]] == ["sign", "exponent 7", "mantissa 6"]
    for row in rows:
        wanted = [data["pairs"][i]["dtypes"]["BF16"]["flipped"][int(row[0])] for i in first]
        close(row[2:], wanted)


def test_exponents_follow_the_slider(opened: Any, data: made.Json) -> None:
    """The histogram is that of the chosen checkpoint and type."""
    page = opened("analyze", data)
    chart = card(page, "Exponents")
    choose(chart, "Type", "F32")
    for at in (0, 4):
        slide(chart, "Checkpoint", at)
        assert chart.locator("output").inner_text() == f"{100 * (at + 1)}"
        counts = data["checkpoints"][at]["dtypes"]["F32"]["exponents"]
        whole = sum(count for _, count in counts)
        rows = values(chart)
        assert len(rows) == len(counts)
        for row, (exponent, count) in zip(rows, counts, strict=True):
            power = "zeros and subnormals" if exponent == 0 else f"2^{exponent - 127}"
            close(row, [exponent, power, count, count / whole])
    choose(chart, "Axis", "Logarithmic")
    assert chart.locator(".plot").evaluate(MARKS) > 2


def test_engines_are_those_of_the_data(opened: Any, data: made.Json) -> None:
    """Rows, the frontier's points and the switch between speeds."""
    page = opened("analyze", data)
    chart = card(page, "Ratio against speed")
    choose(chart, "Show", "Alone")
    rows = [row for row in data["engines"]["rows"] if not row["base"]]
    shown = values(chart)
    by_ratio = sorted(rows, key=lambda row: -row["ratio"])
    for row, wanted in zip(shown, by_ratio, strict=True):
        keys = ["ratio", "bits_per_value", "compress_speed", "decompress_speed"]
        close(row[1:], [wanted[key] for key in [*keys, "compress_cpu", "decompress_cpu"]])
    assert chart.locator("svg .mark:not(.swatch *)").count() == len(rows)
    for speed in ["Compress", "Decompress"]:
        choose(chart, "Speed", speed)
        key = f"{speed.lower()}_speed"
        ahead = [
            row
            for row in rows
            if not any(o["ratio"] > row["ratio"] and o[key] > row[key] for o in rows)
        ]
        path = chart.locator(".plot path.line").get_attribute("d")
        assert path.count("M") + path.count("L") == 2 * len(ahead) - 1


def plan_rows(page: Any, way: str) -> list[list[Any]]:
    choose(page.locator("#plan"), "Training", way)
    return cells(page.locator("#plan-table table"))


def check_plan(page: Any, methods: list[made.Json]) -> None:
    for way, text in [("blocking", "Waits for each save"), ("background", "Waits for a copy only")]:
        for row, method in zip(plan_rows(page, text), methods, strict=True):
            shortest = method[f"shortest_{way}"]
            wanted = [method["name"], method["ratio"], method["save"], method[f"wait_{way}"]]
            wanted += [method[f"lost_{way}"], shortest["1"], shortest["2"], shortest["5"]]
            close(row, [*wanted, method["month_bytes"], method["restore"]])


def test_the_plan_is_that_of_the_data_until_a_slider_moves(opened: Any, data: made.Json) -> None:
    """The page's model gives the data's numbers, and follows the sliders as the model says."""
    page = opened("analyze", data)
    check_plan(page, data["plan"]["methods"])
    part = page.locator("#plan")
    inputs = dict(data["plan"]["inputs"])
    slide(part, "Storage bandwidth", 100)
    slide(part, "Cores for compression", 0)
    slide(part, "Steps between saves", 400)
    slide(part, "Size of a checkpoint", 300)
    sliders = part.locator("output").all_inner_texts()
    assert sliders[1:3] == ["1", "10,000"]
    # A slider has 401 positions from the lowest to the highest value, evenly on a log scale.
    inputs["bandwidth"] = float(f"{10e6 * 1e4**0.25:.3g}")
    inputs["state_bytes"] = float(f"{1e8 * 1e5**0.75:.3g}")
    inputs |= {"cores": 1, "interval": 10000}
    moved = [method | made.planned(method, inputs) for method in data["plan"]["methods"]]
    check_plan(page, moved)
    part.get_by_role("button", name="As measured").click()
    check_plan(page, data["plan"]["methods"])
    lost = values(card(page, "Time lost by the time between saves"))
    choose(part, "Training", "Waits for each save")
    lost = values(card(page, "Time lost by the time between saves"))
    saves = [method["save"] for method in data["plan"]["methods"]]
    for row in lost:
        close(row[1:], [save / (row[0] + save) for save in saves])


def test_the_table_of_tensors_sorts_and_searches(opened: Any, data: made.Json) -> None:
    """Sorting by a press on a heading, in both orders, and search among all rows."""
    page = opened("analyze", data)
    part = page.locator("#tensors")
    grid = part.locator("table")
    names = headings(grid)
    size = names.index("Size")
    assert [row[0] for row in cells(grid)] == [tensor["name"] for tensor in data["tensors"]]
    grid.get_by_role("button", name="lmc, alone").click()
    coded = [row[names.index("lmc, alone")] for row in cells(grid)]
    assert coded == sorted(coded, reverse=True)
    grid.get_by_role("button", name="Size").click()
    grid.get_by_role("button", name="Size").click()
    sizes = [row[size] for row in cells(grid)]
    assert sizes == sorted(sizes)
    assert grid.locator("th[aria-sort]").count() == 1
    assert grid.locator("th").nth(size).get_attribute("aria-sort") == "ascending"
    grid.get_by_role("button", name="Tensor").click()
    wanted = sorted(tensor["name"] for tensor in data["tensors"])
    assert [row[0] for row in cells(grid)] == wanted
    part.get_by_label("Search").fill("BF16 up_proj")
    rows_become(page, "tensors", 6)
    assert all("up_proj" in row[0] for row in cells(grid))
    assert part.locator(".count").inner_text() == "6 of 37 rows"
    slide(part, "Checkpoint", 0)
    tensor = next(each for each in data["tensors"] if each["name"] == cells(grid)[0][0])
    close([cells(grid)[0][4], cells(grid)[0][7]], [tensor["alone"][0]["coded"], None])


def test_a_series_of_thousands_of_tensors(opened: Any) -> None:
    """5,000 tensors: tables are cut, and grow; the map has a line for several tensors."""
    data = made.analyze(steps=3, layers=833)
    page = opened("analyze", data)
    part = page.locator("#tensors")
    assert part.locator("tbody tr").count() == 50
    part.get_by_role("button", name="Show 200 more").click()
    assert part.locator("tbody tr").count() == 250
    assert part.locator(".more").inner_text().endswith("4,749 of 4,999 are not shown")
    part.get_by_role("button", name="Tensor").click()
    part.get_by_label("Search").fill("layers.832.mlp.up")
    rows_become(page, "tensors", 1)
    chart = card(page, "Map of tensors")
    assert chart.locator(".plot").evaluate(MARKS) == 2 * 280
    chart.locator(".plot").focus()
    page.keyboard.press("ArrowRight")
    assert "rows: layers.0.attn.k_proj" in page.locator(".tooltip").inner_text()
