#!/usr/bin/env python3
"""Opens the pages of `dump --html` and `diff --html` in a real Chromium, offline and from files, and uses them.

    pip install playwright
    scripts/check-pages.py [--chromium /usr/bin/chromium] [--shots DIR] [--no-limits]

Makes pages of the committed graphs and of generated decoders with the example `page` of `tallow-ir`, then clicks,
types, folds and follows links in them. Fails where a page writes an error to the console, asks for anything beyond
its own file, or is slower than promised at 5,000 operations: first paint 3 s, search 200 ms. Prints the figures;
with `--no-limits` they are not held against a page, for a machine that is busy with other work.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
FIRST_PAINT_MS = 3000
SEARCH_MS = 200
FRAME_MS = 50
BIG = 250  # layers of 20 operations

# Names that would be markup or break lines, right-to-left ones, very long ones; outputs that are weights and inputs;
# a value that is read twice, and one that nothing reads.
LONG = "a.very.long.module.path." * 20 + "weight"
STRANGE = f"""graph {{
  input %"</script><script>alert(1)</script>": f32[S, 4]
  weight %w = "<img src=x onerror=alert(1)>": f32[4]
  weight %l = "{LONG}": f32[4]
  weight %r = "שלום ‮": f32[4]
  %"<!--": f32[S, 4] = Add(%"</script><script>alert(1)</script>", %w)
  %"--><b>bold</b>": f32[S, 4] = Mul(%"<!--", %"<!--")
  %2: f32[S, 4] = Add(%"--><b>bold</b>", %l)
  %"]]>": f32[S, 4] = Add(%2, %r)
  %unread: f32[S, 4] = Relu(%2)
  output "<script>" = %"]]>"
  output weight = %w
  output input = %"</script><script>alert(1)</script>"
}}
"""

# Edges that pass through a box beside their ends, sampled along their curves.
CROSSED = """() => tallow.views.flatMap((v) => v.scene.edges.filter((e) => !e.tag).flatMap((e) => {
  const others = e.container.children.filter((c) => c !== e.from && c !== e.to);
  for (let i = 1; i < e.points.length; i++) {
    const [a, b] = [e.points[i - 1], e.points[i]];
    const middle = (a.y + b.y) / 2;
    for (let t = 0; t <= 1; t += 0.1) {
      const u = 1 - t;
      const x = u * u * u * a.x + 3 * u * u * t * a.x + 3 * u * t * t * b.x + t * t * t * b.x;
      const y = u * u * u * a.y + 3 * u * u * t * middle + 3 * u * t * t * middle + t * t * t * b.y;
      const hit = others.find((c) => x > c.x + 1 && x < c.x + c.w - 1 && y > c.y + 1 && y < c.y + c.h - 1);
      if (hit) return [[e.from, e.to, hit].map((box) => box?.title ?? box?.group?.label)];
    }
  }
  return [];
}))"""

# Where a box is on the screen. The test of a box is put into the text: the page's policy forbids to evaluate one there.
SPOT = """() => {
  const v = tallow.views[VIEW];
  const box = v.scene.boxes.find((b) => TEST);
  if (!box) return null;
  const frame = v.canvas.getBoundingClientRect();
  const at = (x, y) => [frame.left + (x - v.x) * v.scale, frame.top + (y - v.y) * v.scale];
  return { middle: at(box.x + box.w / 2, box.y + box.h / 2), toggle: at(box.x + 15, box.y + 14), scale: v.scale };
}"""


def pages(folder):
    """Makes the pages; their paths by name."""
    build = ["cargo", "build", "--locked", "--quiet", "-p", "tallow-ir", "--example", "page"]
    subprocess.run(build, cwd=ROOT, check=True)
    run = ["cargo", "run", "--locked", "--quiet", "-p", "tallow-ir", "--example", "page", "--"]
    graphs = sorted((ROOT / "tests/graphs").glob("*/graph.txt"))
    edited = folder / "edited.txt"
    translator = ROOT / "tests/graphs/translator/graph.txt"
    edited.write_text(translator.read_text().replace("= Gelu(%v26) { approximate = false }", "= Relu(%v26)"))
    strange = folder / "strange.txt"
    strange.write_text(STRANGE)
    nothing = folder / "nothing.txt"
    nothing.write_text("graph {\n}\n")
    wanted = {
        "strange": [strange],
        "nothing": [nothing],
        "strange-diff": [strange, nothing],
        **{graph.parent.name: [graph] for graph in graphs},
        "decoder": ["28"],
        "big": [str(BIG)],
        "diff": ["28", "28-edited"],
        "big-diff": [str(BIG), f"{BIG}-edited"],
        "translator-diff": [translator, edited],
        "shorter": ["4", "4-without-2"],
        "equal": ["3", "3"],
    }
    made = {}
    for name, arguments in wanted.items():
        made[name] = folder / f"{name}.html"
        with made[name].open("wb") as out:
            subprocess.run([*run, *map(str, arguments)], cwd=ROOT, check=True, stdout=out)
    return made


class Check:
    """One browser; opens pages and collects what goes wrong."""

    def __init__(self, browser, made, shots, limits):
        self.browser, self.made, self.shots, self.limits = browser, made, shots, limits
        self.failures = []

    def that(self, truth, what):
        if not truth:
            self.failures.append(what)
            print(f"  FAILED: {what}")

    def within(self, figure, limit, what):
        """A figure of speed, in milliseconds."""
        self.that(figure <= limit or not self.limits, f"{what} {figure:.0f} ms, {limit} ms at most")

    def open(self, name, fragment="", scheme="light", size=(1400, 900)):
        context = self.browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, offline=True
        )
        page = context.new_page()
        url = self.made[name].as_uri()
        page.on("console", lambda m: self.that(m.type not in ("error", "warning"), f"{name}: console: {m.text}"))
        page.on("pageerror", lambda e: self.that(False, f"{name}: {e}"))
        page.on("request", lambda r: self.that(r.url.split("#")[0] == url, f"{name}: asks for {r.url}"))
        page.goto(url + fragment)
        self.wait(page, "Boolean(window.tallow && tallow.firstPaint > 0)")
        return page

    def wait(self, page, condition):
        for _ in range(500):
            if page.evaluate(condition):
                return
            page.wait_for_timeout(10)
        self.that(False, f"in five seconds: {condition}")

    def shot(self, page, name):
        if self.shots:
            page.wait_for_timeout(350)
            page.screenshot(path=str(self.shots / f"{name}.png"))

    def settle(self, page):
        """Waits until no view glides."""
        self.wait(page, "tallow.views.every((v) => !v.gliding && !v.waiting)")

    def spot(self, page, test, view=0):
        self.settle(page)
        found = page.evaluate(SPOT.replace("VIEW", str(view)).replace("TEST", test))
        self.that(found is not None, f"a box with {test}")
        return found

    def click(self, page, test, part="middle", view=0):
        found = self.spot(page, test, view)
        if found:
            page.mouse.click(*found[part])
            self.settle(page)

    def first_paint(self, page, name):
        at = page.evaluate("tallow.firstPaint")
        boxes, operations = page.evaluate("[tallow.views[0].scene.boxes.length, tallow.models[0].operations]")
        size = self.made[name].stat().st_size / 1024
        print(f"{name}: {operations} operations, {size:.0f} KiB, first paint {at:.0f} ms, {boxes} boxes")
        self.within(at, FIRST_PAINT_MS, f"{name}: first paint after")

    # What is tried.

    def every_page(self):
        for name in self.made:
            page = self.open(name)
            self.first_paint(page, name)
            overlaps = page.evaluate(
                """() => tallow.views.flatMap((v) => v.scene.containers.flatMap((c) => c.children.flatMap((a, i) =>
                  c.children.slice(i + 1).filter((b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h)
                  .map((b) => [a.title ?? a.group.label, b.title ?? b.group.label]))))"""
            )
            self.that(overlaps == [], f"{name}: boxes lie on each other: {overlaps[:3]}")
            self.shot(page, name)
            if page.evaluate("tallow.models[0].operations") < 2000:
                page.evaluate("tallow.views.forEach((v) => v.all('open'))")
                crossed = page.evaluate(CROSSED)
                self.that(crossed == [], f"{name}: edges pass through boxes: {crossed[:3]}")
            page.context.close()

    def dump(self):
        page = self.open("decoder")
        boxes = page.evaluate("tallow.views[0].scene.boxes.length")
        self.that(boxes <= 40, f"the first picture has {boxes} boxes")
        # The example tells of each layer's projections at three nodes: that is one remark.
        self.that("28 applied" in page.locator("#panel").inner_text(), "a remark at several nodes counts once")

        page.keyboard.press("/")
        page.keyboard.type("layers.17 q_proj")
        self.that(page.locator("#hits li").count() == 1, "one hit for the q projection of layer 17")
        page.keyboard.press("Enter")
        self.settle(page)
        self.that("Matmul" in page.locator("#panel h2").inner_text(), "the panel tells of the hit")
        panel = page.locator("#panel").inner_text()
        for text in ["model.layers.17.self_attn.q_proj.weight", "q8[896, 896]", "layer 17", "self_attn", "f32[S, 896]", "joined-projections"]:
            self.that(text in panel, f"the panel has {text}")
        self.that("layer17.q" in page.evaluate("decodeURIComponent(location.hash)"), "the address names the node")
        self.that(page.locator("#panel .source .here").count() == 1, "the line of the program is marked")
        self.shot(page, "decoder-panel")
        link = page.evaluate("location.hash")

        # To what reads it, by a link in the panel and by keys.
        page.locator("#panel .reader .link").first.click()
        self.settle(page)
        self.that("Reshape" in page.locator("#panel h2").inner_text(), "a link goes to a reader")
        page.keyboard.press("Escape")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Escape")
        self.that(page.evaluate("tallow.views[0].selected") is None, "Escape selects nothing")

        # The stepper of the stack, and folding.
        page.keyboard.press("]")
        self.that(page.evaluate("tallow.views[0].fold.member.values().next().value") == 18, "] turns to layer 18")
        page.evaluate("tallow.views[0].fit(false)")
        mlp = "(b.group && b.group.label === 'mlp')"
        before = page.evaluate("tallow.views[0].scene.boxes.length")
        self.click(page, mlp, "toggle")
        after = page.evaluate("tallow.views[0].scene.boxes.length")
        self.that(after == before + 4, f"mlp unfolds: {before} boxes, then {after}")
        self.shot(page, "decoder-unfolded")
        self.click(page, mlp, "toggle")
        self.that(page.evaluate("tallow.views[0].scene.boxes.length") == before, "mlp folds again")
        self.click(page, "(b.group && b.group.kind === 'stack')", "toggle")
        self.that(page.evaluate("tallow.views[0].scene.boxes.length") == 7, "the stack folds to one box")
        self.click(page, "(b.group && b.group.kind === 'stack')", "toggle")

        # A click on a node.
        page.evaluate("tallow.views[0].fit(false)")
        self.click(page, "(b.node && b.node.title === 'RmsNorm' && b.name === 'attn_norm')")
        panel = page.locator("#panel").inner_text()
        for text in ["RmsNorm", "1e-6", "input_layernorm.weight", "over the last dimension"]:
            self.that(text in panel, f"the panel of a norm has {text}")

        self.moves(page)
        page.locator("#theme").click()
        self.that(page.evaluate("document.documentElement.dataset.theme") == "dark", "the theme changes")
        self.that(page.evaluate("tallow.views[0].palette.page") == "#12151c", "the picture takes the theme")
        page.locator("#legend button").first.click()
        self.that(page.evaluate("tallow.views[0].onlyClass") == "matmul", "the legend shows one kind alone")
        self.shot(page, "decoder-dark-matmul")
        page.locator("#unfold-each").click()
        self.settle(page)
        self.that(page.evaluate("tallow.views[0].scene.boxes.length") > 560, "every layer unfolds")
        page.locator("#fold-all").click()
        self.that(page.evaluate("tallow.views[0].scene.boxes.length") == 7, "all folds")
        page.context.close()

        page = self.open("decoder", link)
        self.settle(page)
        self.that("layer 17" in page.locator("#panel").inner_text(), "a link with a node opens at it")
        page.evaluate("location.hash = '#node=' + encodeURIComponent('%layer3.attn')")
        self.wait(page, "tallow.views[0].selected?.node?.title === 'Sdpa'")
        page.context.close()
        for name, scheme in [("decoder", "dark"), ("translator", "dark")]:
            page = self.open(name, scheme=scheme)
            page.evaluate("tallow.views[0].all('open')")
            self.shot(page, f"{name}-dark-open")
            page.context.close()
        page = self.open("decoder", size=(390, 800))
        self.click(page, "(b.node && b.node.title === 'TokenEmbed')")
        self.that(page.locator("#panel").is_visible(), "the panel shows on a phone once something is selected")
        self.shot(page, "decoder-phone")
        page.context.close()

    def moves(self, page):
        """Wheel, drag, pinch and keys."""
        at = page.evaluate("(({ x, y, scale }) => ({ x, y, scale }))(tallow.views[0])")
        page.mouse.move(300, 400)
        page.mouse.wheel(0, -300)
        self.settle(page)
        self.that(page.evaluate("tallow.views[0].scale") > at["scale"], "the wheel zooms in")
        x = page.evaluate("tallow.views[0].x")
        page.mouse.move(60, 700)
        page.mouse.down()
        page.mouse.move(160, 700, steps=4)
        page.mouse.up()
        self.that(page.evaluate("tallow.views[0].x") < x, "a drag moves")
        scale = page.evaluate("tallow.views[0].scale")
        page.evaluate(
            """() => {
              const c = tallow.views[0].canvas;
              const send = (type, id, x) => c.dispatchEvent(new PointerEvent(type, { pointerId: id, clientX: x, clientY: 300, bubbles: true }));
              c.setPointerCapture = () => {};
              send('pointerdown', 11, 300); send('pointerdown', 12, 400);
              send('pointermove', 12, 500); send('pointerup', 12, 500); send('pointerup', 11, 300);
            }"""
        )
        self.that(page.evaluate("tallow.views[0].scale") > 1.5 * scale, "two fingers zoom")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("0")
        self.settle(page)
        fit = page.evaluate("tallow.views[0].scale")
        page.keyboard.press("+")
        self.settle(page)
        self.that(page.evaluate("tallow.views[0].scale") > fit, "+ zooms in")
        page.keyboard.press("-")
        self.settle(page)
        self.that(abs(page.evaluate("tallow.views[0].scale") - fit) < 1e-6, "- zooms out again")
        page.keyboard.press("Escape")
        y = page.evaluate("tallow.views[0].y")
        page.keyboard.press("ArrowDown")
        self.settle(page)
        self.that(page.evaluate("tallow.views[0].y") > y, "arrows move")

    def big(self):
        page = self.open("big")
        took = {}
        for query in ["matmul", "layers.123", "q8", "layer 200 mlp down", "e", "nothing like this"]:
            page.locator("#query").fill(query)
            took[query] = page.evaluate("tallow.search.took")
        worst = max(took.values())
        print(f"big: search at most {worst:.1f} ms " + str({q: round(t, 1) for q, t in took.items()}))
        self.within(worst, SEARCH_MS, "search took")
        walk = page.evaluate(
            """() => { document.getElementById('query').value = 'layer200.down'; tallow.search.run();
                 const t = performance.now(); tallow.search.walk(0); return performance.now() - t; }"""
        )
        print(f"big: to a hit in a folded layer in {walk:.1f} ms")
        # Unfolding, layout and the panel included.
        self.within(walk, 2 * SEARCH_MS, "a hit took")
        self.that("layer 200" in page.locator("#panel").inner_text(), "the hit is in layer 200")
        unfold = page.evaluate("() => { const t = performance.now(); tallow.views[0].all('each'); return performance.now() - t; }")
        print(f"big: every operation laid out in {unfold:.0f} ms, {page.evaluate('tallow.views[0].scene.boxes.length')} boxes")
        self.within(unfold, FIRST_PAINT_MS, "unfolding all took")
        for where in ["fit", "home"]:
            frames = page.evaluate(
                """async (where) => {
                  const v = tallow.views[0];
                  v[where](false);
                  const times = [];
                  for (let i = 0; i < 40; i++) {
                    const t = performance.now();
                    v.pan(3, 5);
                    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
                    times.push(v.painted > t ? performance.now() - t : 0);
                  }
                  return times.sort((a, b) => a - b);
                }""",
                where,
            )
            middle, late = frames[len(frames) // 2] / 2, frames[int(len(frames) * 0.9)] / 2
            print(f"big: unfolded, a frame of moving ({where}) takes {middle:.1f} ms, nine in ten at most {late:.1f} ms")
            self.within(middle, FRAME_MS, "a frame takes")
        self.shot(page, "big-each")
        page.context.close()

    def diff(self):
        for scheme in ["light", "dark"]:
            page = self.open("diff", scheme=scheme)
            self.that(page.locator("#panel .entry").count() == page.evaluate("tallow.difference.entries.length"), "every entry is listed")
            places = "tallow.views.map((v) => [v.x, v.y, v.scale].join())"
            for at in range(page.locator("#panel .entry").count()):
                before = page.evaluate(places)
                page.locator("#panel .entry").nth(at).click()
                self.settle(page)
                after = page.evaluate(places)
                self.that(before[0] != after[0] and before[1] != after[1], f"both sides move to entry {at}")
                self.that(page.evaluate("tallow.views.some((v) => v.selected)"), f"entry {at} selects its place")
                self.shot(page, f"diff-{scheme}-entry-{at}")
                page.locator("#panel .link").first.click()
            page.evaluate("document.activeElement.blur()")
            page.keyboard.press("n")
            self.settle(page)
            # A node on the left has its partner in the middle of the right.
            page.evaluate("tallow.views[0].selectNode(tallow.models[0].nodes[tallow.models[0].find('%layer12.up')])")
            self.settle(page)
            partner = page.evaluate("tallow.views[1].selected?.node?.labels[0]")
            self.that(partner == "%layer12.up", f"the partner of %layer12.up is selected, not {partner}")
            off = page.evaluate(
                """() => { const v = tallow.views[1], b = v.selected;
                     return [(b.x + b.w / 2 - v.x) * v.scale - v.w / 2, (b.y + b.h / 2 - v.y) * v.scale - v.h / 2].map(Math.abs); }"""
            )
            self.that(max(off) < 3, f"the partner stands in the middle, off by {off}")
            page.context.close()
        page = self.open("shorter")
        frames = page.evaluate(
            """tallow.difference.groups.map((groups, side) => [...groups]
                 .map(([id, state]) => [tallow.models[side].groups[id], state]).filter(([g]) => g.kind !== 'module')
                 .map(([g, state]) => `${g.label} ${state}`).sort().join(', '))"""
        )
        self.that(frames == ["layer 0–3 changed, layer 2 removed", ""], f"frames follow from what differs: {frames}")
        layers = page.evaluate("tallow.models[1].groups.filter((g) => g.kind === 'layer').map((g) => g.label).sort().join()")
        self.that(layers == "layer 0,layer 1,layer 3", f"the layers that are left: {layers}")
        page.context.close()
        for name in ["diff", "big-diff", "translator-diff", "shorter"]:
            page = self.open(name)
            cut = page.evaluate("tallow.views.filter((v) => v.x > 1 || v.x + v.w / v.scale < v.scene.w - 1).length")
            self.that(cut == 0, f"{name} begins with all of its width in sight")
            page.set_viewport_size({"width": 1300, "height": 760})
            page.wait_for_timeout(100)
            scales = page.evaluate("tallow.views.map((v) => v.scale)")
            self.that(scales[0] == scales[1], f"both sides of {name} begin at one scale: {scales}")
            page.context.close()
        page = self.open("equal")
        self.that("No difference" in page.locator("#panel").inner_text(), "equal graphs say so")
        page.context.close()

    def frames(self):
        """Where no frames come, as in a hidden tab, pages are painted all the same."""
        context = self.browser.new_context(viewport={"width": 1400, "height": 900}, offline=True)
        page = context.new_page()
        page.on("pageerror", lambda e: self.that(False, f"without frames: {e}"))
        page.add_init_script("window.requestAnimationFrame = () => 0; window.cancelAnimationFrame = () => {};")
        page.goto(self.made["diff"].as_uri())
        blank = """tallow.views.some(({ canvas: c }) => {
          const { data } = c.getContext('2d').getImageData(0, 0, c.width, c.height);
          return data.every((byte, at) => byte === data[at % 4]);
        })"""
        self.wait(page, f"!({blank})")
        page.keyboard.press("n")
        self.settle(page)
        self.that(page.evaluate("tallow.views.some((v) => v.selected)"), "n selects without frames")
        self.that(not page.evaluate(blank), "n paints without frames")
        # A canvas is empty after it took another size; it is painted before that is shown.
        page.evaluate(
            f"new ResizeObserver(() => (tallow.blank = (tallow.sizes = (tallow.sizes ?? 0) + 1) > 1 && {blank})).observe(tallow.views[0].holder)"
        )
        page.wait_for_timeout(50)
        page.set_viewport_size({"width": 1400, "height": 700})
        self.wait(page, "tallow.sizes > 1")
        self.that(page.evaluate("tallow.blank") is False, "another size is painted at once")
        context.close()

    def policy(self):
        """The policy refuses what a page would never ask for."""
        context = self.browser.new_context()
        page = context.new_page()
        page.goto(self.made["decoder"].as_uri())
        blocked = page.evaluate(
            """async () => {
              const seen = [];
              document.addEventListener('securitypolicyviolation', (e) => seen.push(e.effectiveDirective));
              await fetch('https://example.invalid/').catch(() => {});
              const image = document.createElement('img');
              image.src = 'https://example.invalid/a.png';
              document.body.append(image);
              const script = document.createElement('script');
              script.src = 'https://example.invalid/a.js';
              document.body.append(script);
              await new Promise((done) => setTimeout(done, 200));
              return seen;
            }"""
        )
        for directive in ["connect-src", "img-src", "script-src-elem"]:
            self.that(directive in blocked, f"the policy refuses {directive}")
        context.close()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--chromium", default="/usr/bin/chromium")
    arguments.add_argument("--shots", type=pathlib.Path, help="a folder for pictures of the pages")
    arguments.add_argument("--no-limits", action="store_true", help="print the figures of speed, but do not fail on them")
    given = arguments.parse_args()
    if given.shots:
        given.shots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        made = pages(pathlib.Path(folder))
        browser = playwright.chromium.launch(executable_path=given.chromium, args=FLAGS)
        check = Check(browser, made, given.shots, not given.no_limits)
        for part in [check.every_page, check.dump, check.big, check.diff, check.frames, check.policy]:
            part()
        browser.close()
    print(f"{len(check.failures)} failures" if check.failures else "all fine")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
