"use strict";

/*
 * Paints a scene on a canvas. Only what is in sight is painted, and small things lose their texts first, so that
 * graphs of thousands of boxes move smoothly.
 */

/** Colours of the style sheet, read once a theme. */
class Palette {
  constructor(classes) {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(`--${name}`).trim();
    this.of = Object.fromEntries(
      [...classes.map((c) => c.key), "input", "output", "weight"].map((key) => [key, get(key)]),
    );
    for (const name of ["page", "box", "text", "muted", "line", "edge", "accent", "hit", "group", "group2", "label", "removed", "added", "changed"])
      this[name] = get(name);
  }
}

/** Below these scales texts and labels are left out. */
const LABEL_SCALE = 0.62;
const TEXT_SCALE = 0.34;
/** Below this one boxes are plain rectangles, and edges straight. */
const SHAPE_SCALE = 0.14;

/** The part of a stack's header that turns to the layer before and after: where it begins, and its text. */
function stepper(box) {
  const title = measure(box.group.label, TITLE_FONT) + 8 + measure(`×${box.group.members.length}`, TITLE_FONT);
  const text = `‹  ${box.body.label}  ›`;
  return { from: box.x + 28 + title + 22, text, width: measure(text, NAME_FONT) };
}

class Painter {
  /** `marks` tells what stands out: `{selected, hovered, hits, dim(box), tint(node)}`. */
  constructor(context, palette, view, marks) {
    Object.assign(this, { c: context, palette, view, marks });
  }

  paint(scene) {
    const { view } = this;
    const seen = { x: view.x, y: view.y, r: view.x + view.w / view.scale, b: view.y + view.h / view.scale };
    const inSight = (b) => b.x < seen.r && b.x + b.w > seen.x && b.y < seen.b && b.y + b.h > seen.y;
    const boxes = scene.boxes.filter(inSight);
    if (view.scale < SHAPE_SCALE) return this.#sketch(scene, boxes, seen);
    for (const box of boxes) if (box.kind === "container") this.#container(box);
    const edges = scene.edges.filter((e) => e.box.x < seen.r && e.box.r > seen.x - 60 && e.box.y < seen.b && e.box.b > seen.y);
    const lit = [];
    for (const edge of edges) (this.#isLit(edge) ? lit : null)?.push(edge) ?? this.#edge(edge, false);
    for (const edge of lit) this.#edge(edge, true);
    for (const box of boxes) if (box.kind === "container") this.#loops(box);
    for (const box of boxes) if (box.kind === "container") this.#header(box);
    for (const box of boxes) if (box.kind !== "container") this.#box(box);
    if (view.scale >= LABEL_SCALE) for (const edge of edges) if (edge.label) this.#label(edge);
  }

  /** From far away: as few and as plain shapes as there are colours. */
  #sketch(scene, boxes, seen) {
    const { c, palette, view, marks } = this;
    const thin = 1 / view.scale;
    for (const box of boxes)
      if (box.kind === "container") {
        c.fillStyle = box.depth % 2 ? palette.group : palette.group2;
        c.fillRect(box.x, box.y, box.w, box.h);
        c.strokeStyle = marks.tintGroup?.(box.group) ? palette[marks.tintGroup(box.group)] : palette.line;
        c.lineWidth = thin;
        c.strokeRect(box.x, box.y, box.w, box.h);
      }
    c.beginPath();
    for (const edge of scene.edges) {
      if (edge.tag || edge.box.y > seen.b || edge.box.b < seen.y || (edge.box.b - edge.box.y) * view.scale < 3) continue;
      edge.points.forEach((p, at) => (at ? c.lineTo(p.x, p.y) : c.moveTo(p.x, p.y)));
    }
    c.strokeStyle = palette.edge;
    c.globalAlpha = 0.6;
    c.stroke();
    c.globalAlpha = 1;
    const byColor = new Map();
    for (const box of boxes) {
      if (box.kind === "container") continue;
      const tint = box.node ? marks.tint?.(box.node) : marks.tintGroup?.(box.group);
      const hit = marks.hits?.has(box.node ? box.node.id : `g${box.group.id}`);
      const color = hit ? palette.hit : tint ? palette[tint] : box.node ? palette.of[box.node.color] : palette.muted;
      const key = marks.dim(box) ? palette.line : color;
      byColor.has(key) ? byColor.get(key).push(box) : byColor.set(key, [box]);
    }
    for (const [color, all] of byColor) {
      c.fillStyle = color;
      for (const box of all) c.fillRect(box.x, box.y, box.w, box.h);
    }
    for (const box of [marks.selected, marks.hovered]) {
      if (!box) continue;
      c.strokeStyle = palette.accent;
      c.lineWidth = 2.5 * thin;
      c.strokeRect(box.x, box.y, box.w, box.h);
    }
  }

  #isLit(edge) {
    const { selected, hovered } = this.marks;
    for (const box of [selected, hovered])
      if (box && (edge.from === box || edge.to === box || (box.node && edge.hits.has(box.node.id)))) return true;
    return false;
  }

  #rounded(x, y, w, h, r) {
    this.c.beginPath();
    this.c.roundRect(x, y, w, h, r);
  }

  #container(box) {
    const { c, palette, view, marks } = this;
    const { group } = box;
    const tint = marks.tintGroup?.(group);
    if (box.one)
      for (const off of [8, 4]) {
        this.#rounded(box.x + off, box.y + off, box.w, box.h, 12);
        c.fillStyle = palette.group2;
        c.fill();
        c.strokeStyle = palette.line;
        c.lineWidth = 1;
        c.stroke();
      }
    this.#rounded(box.x, box.y, box.w, box.h, 12);
    c.fillStyle = box.depth % 2 ? palette.group : palette.group2;
    c.fill();
    const selected = marks.selected === box;
    c.strokeStyle = selected ? palette.accent : tint ? palette[tint] : palette.line;
    c.lineWidth = selected || tint ? 2 : 1;
    c.stroke();
  }

  /** From where a value leaves a layer, up along its right side, to where it enters the next one. */
  #loops(box) {
    const { c, palette, view } = this;
    c.strokeStyle = palette.edge;
    c.lineWidth = Math.max(1.2, 0.7 / view.scale);
    c.setLineDash([5, 4]);
    (box.loopLines ?? []).forEach(([leaves, comes], at) => {
      const right = box.x + box.w - 7 - at * 3;
      c.beginPath();
      c.moveTo(leaves.x, leaves.y - 9);
      c.arcTo(right, leaves.y - 9, right, comes.y, 10);
      c.arcTo(right, comes.y + 9, comes.x, comes.y + 9, 10);
      c.lineTo(comes.x, comes.y + 9);
      c.stroke();
    });
    c.setLineDash([]);
  }

  /** Above the edges, which enter through it. */
  #header(box) {
    const { c, palette, view } = this;
    const { group } = box;
    if (HEADER * view.scale < 7) return;
    const fill = box.depth % 2 ? palette.group : palette.group2;
    c.fillStyle = fill;
    const end = box.one ? stepper(box) : { from: box.x + 28, width: measure(headerText(box), TITLE_FONT) };
    this.#rounded(box.x + 4, box.y + 4, end.from + end.width - box.x, 20, 6);
    c.globalAlpha = 0.9;
    c.fill();
    c.globalAlpha = 1;
    this.#toggle(box, "−");
    c.fillStyle = palette.muted;
    c.font = TITLE_FONT;
    c.textAlign = "left";
    c.textBaseline = "middle";
    c.fillText(group.label, box.x + 28, box.y + 14);
    if (group.kind !== "stack") return;
    const at = box.x + 28 + measure(group.label, TITLE_FONT) + 8;
    c.fillStyle = palette.accent;
    c.fillText(`×${group.members.length}`, at, box.y + 14);
    if (!box.one) return;
    // The stepper: which layer is shown.
    const { from, text } = stepper(box);
    c.font = NAME_FONT;
    c.fillStyle = palette.text;
    c.fillText(text, from, box.y + 14);
  }

  #toggle(box, sign) {
    const { c, palette } = this;
    this.#rounded(box.x + 8, box.y + 7, 14, 14, 4);
    c.fillStyle = palette.box;
    c.fill();
    c.strokeStyle = palette.muted;
    c.lineWidth = 1;
    c.stroke();
    c.beginPath();
    c.moveTo(box.x + 11.5, box.y + 14);
    c.lineTo(box.x + 18.5, box.y + 14);
    if (sign === "+") {
      c.moveTo(box.x + 15, box.y + 10.5);
      c.lineTo(box.x + 15, box.y + 17.5);
    }
    c.stroke();
  }

  #edge(edge, lit) {
    const { c, palette, view, marks } = this;
    const dim = !lit && (marks.dim(edge.from) || marks.dim(edge.to));
    c.globalAlpha = dim ? 0.25 : 1;
    c.strokeStyle = lit ? palette.accent : palette.edge;
    c.lineWidth = Math.max(lit ? 2 : edge.values.length > 1 ? 1.8 : 1.2, (lit ? 1.4 : 0.7) / view.scale);
    c.beginPath();
    const p = edge.points;
    if (edge.tag) {
      c.moveTo(p[0].x, p[0].y);
      c.lineTo(p[1].x, p[1].y);
    } else {
      c.moveTo(p[0].x, p[0].y);
      for (let i = 1; i < p.length; i++) {
        const [a, b] = [p[i - 1], p[i]];
        const mid = (a.y + b.y) / 2;
        c.bezierCurveTo(a.x, mid, b.x, mid, b.x, b.y);
      }
    }
    c.stroke();
    if (edge.to && view.scale > 0.3) {
      const last = p[p.length - 1];
      const before = p[p.length - 2] ?? last;
      // Arrows arrive from above, those of tags from the left.
      const [dx, dy] = before.y === last.y ? [1, 0] : [0, before.y > last.y ? -1 : 1];
      c.beginPath();
      c.moveTo(last.x, last.y);
      c.lineTo(last.x - 7 * dx - 4 * dy, last.y - 7 * dy - 4 * dx);
      c.lineTo(last.x - 7 * dx + 4 * dy, last.y - 7 * dy + 4 * dx);
      c.closePath();
      c.fillStyle = c.strokeStyle;
      c.fill();
    }
    if (edge.tag) this.#tag(edge);
    c.globalAlpha = 1;
  }

  /** A value named at its reader, in place of a long arrow. */
  #tag(edge) {
    const { c, palette, view } = this;
    const t = edge.tag;
    this.#rounded(t.x - t.w / 2, t.y - t.h / 2, t.w, t.h, 8);
    c.fillStyle = palette.page;
    c.fill();
    c.stroke();
    if (view.scale < TEXT_SCALE) return;
    c.font = LABEL_FONT;
    c.fillStyle = palette.muted;
    c.textAlign = "center";
    c.textBaseline = "middle";
    c.fillText(edge.text, t.x, t.y + 0.5);
  }

  #label(edge) {
    const { c, palette } = this;
    const { x, y, text } = edge.label;
    c.font = LABEL_FONT;
    const w = measure(text, LABEL_FONT) + 6;
    c.globalAlpha = 0.85;
    c.fillStyle = edge.container.depth === 0 ? palette.page : edge.container.depth % 2 ? palette.group : palette.group2;
    c.fillRect(x - w / 2, y - 7, w, 14);
    c.globalAlpha = 1;
    c.fillStyle = this.#isLit(edge) ? palette.accent : palette.label;
    c.textAlign = "center";
    c.textBaseline = "middle";
    c.fillText(text, x, y);
  }

  #box(box) {
    const { c, palette, view, marks } = this;
    const dim = marks.dim(box);
    c.globalAlpha = dim ? 0.28 : 1;
    const isGroup = box.kind === "group";
    const isEnd = box.kind === "input" || box.kind === "output";
    const color = isGroup ? palette.muted : palette.of[box.node.color];
    const radius = isEnd ? box.h / 2 : isGroup ? 10 : 6;
    const tint = isGroup ? marks.tintGroup?.(box.group) : marks.tint?.(box.node);
    if (box.times > 1)
      for (const off of [8, 4]) {
        this.#rounded(box.x + off, box.y + off, box.w, box.h, radius);
        c.fillStyle = palette.group2;
        c.fill();
        c.strokeStyle = palette.line;
        c.lineWidth = 1;
        c.stroke();
      }
    this.#rounded(box.x, box.y, box.w, box.h, radius);
    c.fillStyle = palette.box;
    c.fill();
    if (!isGroup) {
      c.globalAlpha = (dim ? 0.28 : 1) * (tint ? 0.3 : isEnd ? 0.24 : 0.17);
      c.fillStyle = tint ? palette[tint] : color;
      c.fill();
      c.globalAlpha = dim ? 0.28 : 1;
    }
    const hit = marks.hits?.has(isGroup ? `g${box.group.id}` : box.node.id);
    const selected = marks.selected === box;
    c.strokeStyle = selected ? palette.accent : hit ? palette.hit : tint ? palette[tint] : isGroup ? palette.edge : color;
    c.lineWidth = selected || hit || tint ? Math.max(2.5, 1.5 / view.scale) : marks.hovered === box ? 2 : 1;
    c.stroke();
    if (view.scale >= TEXT_SCALE) {
      this.#texts(box, color, isGroup, isEnd);
      if (box.node?.remarks.length) this.#remarked(box);
    }
    c.globalAlpha = 1;
  }

  #texts(box, color, isGroup, isEnd) {
    const { c, palette } = this;
    c.textBaseline = "middle";
    c.textAlign = "left";
    if (isGroup) {
      this.#toggle(box, "+");
      c.font = TITLE_FONT;
      c.fillStyle = palette.text;
      c.fillText(box.title, box.x + 28, box.y + 14.5);
      c.font = SMALL_FONT;
      c.fillStyle = palette.muted;
      c.fillText(box.detail, box.x + 28, box.y + 31);
      this.#composition(box);
      return;
    }
    const lines = box.detail ? [13, 28.5] : [box.h / 2];
    if (isEnd) {
      c.textAlign = "center";
      c.font = TITLE_FONT;
      c.fillStyle = palette.text;
      c.fillText(box.title, box.x + box.w / 2, box.y + lines[0]);
      c.font = SMALL_FONT;
      c.fillStyle = palette.muted;
      c.fillText(box.detail, box.x + box.w / 2, box.y + lines[1]);
      return;
    }
    c.fillStyle = color;
    c.fillRect(box.x + 0.5, box.y + 6, 3, box.h - 12);
    const pair = measure(box.title, TITLE_FONT) + (box.name ? measure(box.name, NAME_FONT) + 8 : 0);
    const left = box.x + (box.detail ? 13 : (box.w - pair) / 2);
    c.font = TITLE_FONT;
    c.fillStyle = palette.text;
    c.fillText(box.title, left, box.y + lines[0] + 0.5);
    if (box.name) {
      c.font = NAME_FONT;
      c.fillStyle = palette.muted;
      c.fillText(box.name, left + measure(box.title, TITLE_FONT) + 8, box.y + lines[0] + 0.5);
    }
    if (box.detail) {
      c.font = SMALL_FONT;
      c.fillStyle = palette.muted;
      c.fillText(box.detail, left, box.y + lines[1]);
    }
  }

  /** A dot on the corner of a box that the compiler has something to say about. */
  #remarked(box) {
    const { c, palette } = this;
    c.beginPath();
    c.arc(box.x + box.w - 1, box.y + 1, 5, 0, 2 * Math.PI);
    c.fillStyle = box.node.remarks.some(([, applied]) => applied) ? palette.added : palette.changed;
    c.fill();
    c.strokeStyle = palette.page;
    c.lineWidth = 1.5;
    c.stroke();
  }

  /** A strip of colours: of what a closed group is made. */
  #composition(box) {
    const { c, palette } = this;
    const all = [...box.counts.values()].reduce((n, m) => n + m, 0);
    let x = box.x + 10;
    const w = box.w - 20;
    for (const [color, n] of [...box.counts].sort((a, b) => b[1] - a[1])) {
      c.fillStyle = palette.of[color];
      c.fillRect(x, box.y + 41, Math.max((w * n) / all - 1, 0.5), 4);
      x += (w * n) / all;
    }
  }
}
