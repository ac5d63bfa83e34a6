"""What holds for both pages: names do nothing, tooltips, themes, phones, missing data."""

from __future__ import annotations

import copy
from typing import Any

import made
import pytest
from reading import MARKS, card, cells, values

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<!--<script>",
    '"\' onmouseover="window.hacked=1" {{data}} &lt;',
    "__proto__",
    "constructor",
    "a\u0000b\u001b[31m\u2028\u202e\u200bc\ud7ff\U0001f600\ufeff",
    "javascript:window.hacked=1",
    "x" * 100_000,
    "",
]


def hostile(data: Any, names: list[str]) -> Any:
    """The same data with every name replaced by a hostile one."""
    count = 0

    def name() -> str:
        nonlocal count
        count += 1
        return names[count % len(names)]

    def walk(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            if key in ("kinds", "dtypes"):
                return {name(): walk(each) for each in value.values()}
            return {key: walk(each, key) for key, each in value.items()}
        if isinstance(value, list):
            return [walk(each) for each in value]
        return name() if isinstance(value, str) else value

    return walk(data)


@pytest.mark.parametrize("kind", ["analyze", "report"])
@pytest.mark.parametrize("width", [1280, 375])
def test_hostile_names_are_text(opened: Any, kind: str, width: int) -> None:
    """No name makes an element, runs, loads anything or widens the page."""
    data = made.analyze(steps=4, layers=2) if kind == "analyze" else made.report(2, 6)
    data["skipped"] = [{"path": name, "why": name} for name in HOSTILE]
    data["damage"] = [{"object": name, "what": name} for name in HOSTILE]
    page = opened(kind, hostile(data, HOSTILE), title=HOSTILE[0], width=width)
    for toggle in page.locator(".as-table").all():
        toggle.click()
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.images.length") == 0
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.title() == HOSTILE[0]
    text = page.locator("body").inner_text()
    assert "<img src=x onerror='window.hacked = 1'>" in text
    assert "\u202e" not in text and "\u001b" not in text and "\\u{202e}" in text
    for plot in page.locator(".plot").all():
        plot.focus()
        page.keyboard.press("ArrowRight")
    assert len(page.locator(".tooltip").inner_text()) < 5000


def test_the_policy_lets_nothing_else_run_or_load(opened: Any) -> None:
    """What might get into the page all the same can neither run, style nor load anything."""
    page = opened("analyze", made.analyze(steps=2, layers=1))
    page.evaluate(
        """() => {
            window.broken = [];
            document.addEventListener("securitypolicyviolation", (event) =>
                window.broken.push(event.effectiveDirective));
            const add = (tag, fields) => document.body.append(
                Object.assign(document.createElement(tag), fields));
            add("script", { textContent: "window.hacked = 1" });
            add("script", { src: "https://example.com/x.js" });
            add("style", { textContent: "body { display: none }" });
            add("img", { src: "https://example.com/x.png" });
            add("iframe", { src: "https://example.com/" });
            const box = document.createElement("div");
            document.body.append(box);
            box.innerHTML = "<b onclick='window.hacked = 1' style='color: red'>x</b>";
            box.firstChild.click();
            return fetch("https://example.com/").catch(() => null);
        }"""
    )
    page.wait_for_function("() => window.broken.length >= 7")
    broken = page.evaluate("window.broken")
    wanted = ["script-src-elem", "style-src-elem", "img-src", "frame-src", "connect-src"]
    assert set(broken) >= {*wanted, "script-src-attr", "style-src-attr"}
    assert page.evaluate("window.hacked") is None
    # The console has told of each; nothing was asked for.
    assert not [each for each in opened.wrong if each.startswith("asked")]
    opened.wrong.clear()


def test_tooltips_follow_pointer_keys_and_touch(opened: Any) -> None:
    """A tooltip has the values of what is pointed at, and leaves with the pointer and Escape."""
    data = made.analyze()
    page = opened("analyze", data, has_touch=True)
    tooltip = page.locator(".tooltip")
    plot = card(page, "Size by method").locator(".plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    last, change = data["checkpoints"][-1]["total"], data["pairs"][-4]["total"]
    wanted = [f"{last['coded']:.3f}", f"{change['coded']:.3f}", f"{change['xor']:.3f}"]

    def check() -> None:
        text = tooltip.inner_text()
        assert text.startswith("step 1,000 (step-1000)")
        assert all(each in text for each in wanted)

    assert not tooltip.is_visible()
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 100)
    check()
    page.mouse.move(5, 5)
    assert not tooltip.is_visible()
    page.touchscreen.tap(box["x"] + box["width"] - 20, box["y"] + 100)
    check()
    page.keyboard.press("Escape")
    assert not tooltip.is_visible()
    plot.focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    check()
    page.keyboard.press("ArrowLeft")
    assert "step 900" in tooltip.inner_text()
    page.keyboard.press("Tab")
    assert not tooltip.is_visible()
    # A map goes in both directions.
    card(page, "Map of tensors").locator(".plot").focus()
    for key in ["ArrowRight", "ArrowRight", "ArrowDown"]:
        page.keyboard.press(key)
    text = tooltip.inner_text()
    tensor = next(each for each in data["tensors"] if each["name"] in text)
    place = [i for i, pair in enumerate(data["pairs"]) if pair["distance"] == 1][1]
    assert f"{tensor['changes'][place]['difference_given_exponent']:.3f}" in text
    assert tensor["name"] == "layers.1.attn.k_proj.weight"


def test_legends_hide_lines(opened: Any) -> None:
    """A press on a name hides its line, and another one shows it; the keys do the same."""
    page = opened("analyze", made.analyze(steps=4, layers=1))
    chart = card(page, "Size by method")
    lines = chart.locator(".plot path.line")
    before = lines.count()
    key = chart.locator(".legend button").nth(1)
    key.click()
    assert lines.count() == before - 1 and key.get_attribute("aria-pressed") == "false"
    key.focus()
    page.keyboard.press("Enter")
    assert lines.count() == before and key.get_attribute("aria-pressed") == "true"
    for each in chart.locator(".legend button").all():
        each.click()
    assert "Nothing to draw" in chart.locator(".plot svg").text_content()


# The lowest contrast of text with what is behind it, and the text.
CONTRAST = """() => {
    const parse = (text) => {
        const probe = new OffscreenCanvas(1, 1).getContext("2d");
        probe.fillStyle = text;
        probe.fillRect(0, 0, 1, 1);
        return [...probe.getImageData(0, 0, 1, 1).data];
    };
    const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (node) => {
        for (let at = node; at; at = at.parentElement) {
            const colour = parse(getComputedStyle(at).backgroundColor);
            if (colour[3] > 200) return colour;
        }
        return [255, 255, 255, 255];
    };
    let worst = [99, ""];
    let count = 0;
    for (const node of document.querySelectorAll("body *")) {
        const own = [...node.childNodes].some((c) => c.nodeType === 3 && c.data.trim());
        if (!own || ["SCRIPT", "NOSCRIPT", "OPTION"].includes(node.tagName)) continue;
        if (node.closest("[hidden], .unseen, .skip")) continue;
        const style = getComputedStyle(node);
        const isDrawn = node instanceof SVGElement;
        const back = isDrawn && node.classList.contains("in")
            ? parse(getComputedStyle(node.previousElementSibling).fill)
            : behind(isDrawn ? node.closest("div") : node);
        const [a, b] = [light(parse(isDrawn ? style.fill : style.color)), light(back)];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        count += 1;
        if (contrast < worst[0]) worst = [contrast, `${node.tagName} ${node.textContent}`];
    }
    return [...worst, count];
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["analyze", "report"])
def test_text_can_be_read_in_both_themes(opened: Any, kind: str, theme: str) -> None:
    """Text has the contrast of WCAG AA, 4.5, and so do series against the card, 3."""
    data = made.analyze() if kind == "analyze" else made.report()
    data["skipped"] = [{"path": "a", "why": "b"}]
    data["damage"] = [{"object": "a", "what": "b"}]
    page = opened(kind, data, theme=theme)
    for toggle in page.locator(".as-table").all()[:2]:
        toggle.click()
    worst, text, count = page.evaluate(CONTRAST)
    assert worst >= 4.5, text
    assert count > 100
    colours = page.evaluate(
        """() => [..."12345678"].map((i) => {
            const probe = document.createElement("i");
            probe.className = `line c${i}`;
            document.querySelector(".card").append(probe);
            probe.classList.add("probe");
            const colour = getComputedStyle(probe).stroke;
            const back = getComputedStyle(probe.parentElement).backgroundColor;
            probe.remove();
            return [colour, back];
        })"""
    )
    for colour, back in colours:
        high, low = sorted((luminance(colour), luminance(back)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 3, colour


def luminance(colour: str) -> float:
    """How light an `rgb(…)` colour is, as WCAG says."""
    channels = [int(part) / 255 for part in colour[4:-1].split(",")]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_theme_is_the_systems_until_it_is_chosen(opened: Any) -> None:
    """The button changes the theme, and a reload keeps it."""
    page = opened("report", made.report(1, 4), theme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Light theme").click()
    light = page.evaluate(ground)
    assert luminance(dark) < 0.05 and luminance(light) > 0.8
    page.reload()
    assert page.evaluate(ground) == light
    page.get_by_role("button", name="Dark theme").click()
    assert page.evaluate(ground) == dark


@pytest.mark.parametrize("width", [320, 375, 768])
@pytest.mark.parametrize("kind", ["analyze", "report"])
def test_nothing_is_wider_than_a_phone(opened: Any, kind: str, width: int) -> None:
    """The page does not scroll sideways, and charts have marks and stay inside their cards."""
    data = made.analyze() if kind == "analyze" else made.report()
    page = opened(kind, data, width=width)
    for toggle in page.locator(".as-table").all():
        toggle.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for plot in page.locator(".plot").all():
        assert plot.evaluate(MARKS) > 2
        outside = plot.evaluate(
            """plot => [...plot.querySelectorAll("text, canvas")].filter((node) => {
                const own = node.getBoundingClientRect();
                const card = plot.parentElement.getBoundingClientRect();
                return own.width > 0 && (own.left < card.left || own.right > card.right);
            }).map((node) => node.textContent)"""
        )
        assert outside == []


def test_the_picture_follows_the_window(opened: Any) -> None:
    """A narrower window draws charts again."""
    page = opened("analyze", made.analyze(steps=3, layers=1))
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_function("() => document.querySelector('.plot svg').viewBox.baseVal.width < 400")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_focus_can_be_seen_and_motion_is_left_out(opened: Any) -> None:
    """What has the focus has an outline; nothing scrolls smoothly for those who do not want it."""
    page = opened("analyze", made.analyze(steps=3, layers=1), reduced_motion="reduce")
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    for _ in range(16):
        page.keyboard.press("Tab")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) != "none"
    focused = page.evaluate("document.activeElement.closest('section') !== null")
    assert focused


def test_any_part_may_be_missing(opened: Any) -> None:
    """No data, one checkpoint, one pair, one tensor, no steps, nulls and wrong types."""
    one = made.analyze(steps=1, layers=1, engines=False, plan=False)
    two = made.analyze(steps=2, layers=1)
    unnamed = copy.deepcopy(two)
    for checkpoint in unnamed["checkpoints"]:
        checkpoint |= {"step": None, "total": None, "kinds": None}
    for pair in unnamed["pairs"]:
        pair |= {"steps": None, "dtypes": {}}
    single = copy.deepcopy(two)
    single["tensors"] = single["tensors"][:1]
    integers = copy.deepcopy(two)
    for tensor in integers["tensors"]:
        for figures in tensor["alone"]:
            figures |= {"sign": None, "exponent": None, "mantissa": None}
        tensor["changes"] = [None for _ in tensor["changes"]]
    odd = {"checkpoints": [1, None, "x", {}], "pairs": [[], {"distance": 1, "checkpoint": 9}]}
    odd |= {"tensors": [{}, 7], "engines": {"rows": [{}]}, "plan": {"methods": [{}], "inputs": 3}}
    odd |= {"skipped": {"a": 1}}
    no_time = copy.deepcopy(two)
    no_time["plan"]["inputs"] |= {"step_time": None, "copy_speed": None, "keep_every": None}
    same = copy.deepcopy(two)
    for checkpoint in same["checkpoints"]:
        checkpoint["step"] = 5
    for data in ({}, None, [], 3, one, two, unnamed, single, integers, odd, no_time, same):
        page = opened("analyze", data)
        assert page.locator("#summary").count() == 1
        page.close()
    page = opened("analyze", one)
    assert card(page, "Size by method").locator("rect.area").count() == 2
    assert page.locator("#distance, #bits, #engines, #plan").count() == 0
    page = opened("analyze", two)
    assert card(page, "Bits per value by distance").locator("rect.area").count() == 5
    page = opened("analyze", no_time)
    row = cells(page.locator("#plan-table table"))[0]
    assert row[4] == "–" and row[8] == "–"
    page = opened("analyze", {})
    assert "No checkpoint was read." in page.locator("#summary").inner_text()


def test_what_was_left_out_is_said(opened: Any) -> None:
    """Skipped files and tensors that come and go are notices in the summary."""
    data = made.analyze(steps=3, layers=1)
    data["skipped"] = [{"path": "step-3.safetensors", "why": "is cut off"}]
    data["pairs"][0] |= {"only_new": ["a.weight"], "only_base": ["b.weight"]}
    data["pairs"][0]["reshaped"] = [{"name": "c", "old": "BF16 [2, 3]", "new": "BF16 [3, 2]"}]
    page = opened("analyze", data)
    notices = page.locator("#summary .notice").all_inner_texts()
    assert "1 file could not be read" in notices[0]
    assert "step-3.safetensors: is cut off" in notices[0]
    assert "new: a.weight; gone: b.weight; changed: c, BF16 [2, 3] to BF16 [3, 2]" in notices[1]


def test_tables_of_charts_open_and_close(opened: Any) -> None:
    """The button under a chart shows and hides its values."""
    page = opened("analyze", made.analyze(steps=3, layers=1))
    chart = card(page, "Size by method")
    assert values(chart)
    toggle = chart.locator(".as-table")
    assert toggle.inner_text() == "Hide table"
    toggle.click()
    assert toggle.get_attribute("aria-expanded") == "false"
    assert chart.locator(".values table").count() == 0
