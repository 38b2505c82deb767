"use strict";

/*
 * One graph on one canvas: what is in sight, what is folded, what is selected.
 */

const MIN_SCALE = 0.02;
const MAX_SCALE = 3;
/** What one begins with is not smaller than this, even where its sides are out of sight. */
const READABLE_SCALE = 0.5;
/** A frame that has not come after so long, in milliseconds, is not waited for. */
const LATE_FRAME = 100;

/** Calls `act` with the next frame; without one where none comes, as in a hidden tab. */
function soon(act) {
  const once = () => {
    cancelAnimationFrame(frame);
    clearTimeout(late);
    act();
  };
  const frame = requestAnimationFrame(once);
  const late = setTimeout(once, LATE_FRAME);
}

class GraphView extends EventTarget {
  constructor(holder, model) {
    super();
    this.holder = holder;
    this.model = model;
    this.fold = new Fold(model);
    this.canvas = holder.querySelector("canvas.graph");
    this.map = holder.querySelector("canvas.map");
    this.context = this.canvas.getContext("2d");
    Object.assign(this, { x: 0, y: 0, scale: 1, w: 1, h: 1, ratio: 1 });
    this.selected = null;
    this.hovered = null;
    this.hits = null;
    this.onlyClass = null;
    this.tint = null;
    this.tintGroup = null;
    /** The views that begin at one scale with this one, itself included. */
    this.peers = [this];
    this.retheme();
    this.rebuild();
    new Input(this);
    // A canvas loses its picture with its size, and this is the last step before the frame is shown.
    new ResizeObserver(() => this.#resize() && this.#paint()).observe(holder);
    this.canvas.addEventListener("contextrestored", () => this.draw());
    document.addEventListener("visibilitychange", () => this.draw());
    this.#resize();
    this.fit(false);
  }

  retheme() {
    this.palette = new Palette(this.model.classes);
    this.mapImage = null;
    this.draw();
  }

  /** Lays out again after a change of what is folded. */
  rebuild() {
    this.scene = new Scene(this.model, this.fold);
    this.mapImage = null;
    this.hovered = null;
    if (this.selected) this.selected = this.#boxOf(this.selected);
    this.draw();
  }

  /** The box in the present scene that shows what a box of an earlier one showed. */
  #boxOf(box) {
    if (box.node) return this.scene.boxOf[box.node.id] ?? null;
    return this.groupBox(box.group);
  }

  groupBox(group) {
    return this.scene.boxes.find((b) => b.group === group) ?? null;
  }

  // Painting.

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    soon(() => this.waiting && this.#paint());
  }

  #paint() {
    this.waiting = false;
    const { context: c, ratio, scale } = this;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.fillStyle = this.palette.page;
    c.fillRect(0, 0, this.canvas.width, this.canvas.height);
    c.setTransform(ratio * scale, 0, 0, ratio * scale, -this.x * ratio * scale, -this.y * ratio * scale);
    const dim = (box) => {
      if (!this.onlyClass || !box || box.kind === "container") return false;
      return box.node ? box.node.color !== this.onlyClass : !box.counts?.has(this.onlyClass);
    };
    const { selected, hovered, hits, tint, tintGroup } = this;
    new Painter(c, this.palette, this, { selected, hovered, hits, dim, tint, tintGroup }).paint(this.scene);
    this.#paintMap();
    this.painted = performance.now();
  }

  #paintMap() {
    const { map, scene, ratio } = this;
    const [w, h] = [map.clientWidth * ratio, map.clientHeight * ratio];
    if (!w || !h) return;
    if (map.width !== w || map.height !== h) Object.assign(map, { width: w, height: h }), (this.mapImage = null);
    const s = Math.min(w / scene.w, h / scene.h) * 0.94;
    const [left, top] = [(w - scene.w * s) / 2, (h - scene.h * s) / 2];
    this.mapFrame = { s: s / ratio, left: left / ratio, top: top / ratio };
    if (!this.mapImage) {
      this.mapImage = document.createElement("canvas");
      Object.assign(this.mapImage, { width: w, height: h });
      const c = this.mapImage.getContext("2d");
      for (const box of scene.boxes) {
        c.fillStyle = box.kind === "container" ? this.palette.group2 : box.node ? this.palette.of[box.node.color] : this.palette.muted;
        if (this.hits?.has(box.node?.id)) c.fillStyle = this.palette.hit;
        c.fillRect(left + box.x * s, top + box.y * s, Math.max(box.w * s, 1), Math.max(box.h * s, 1));
      }
    }
    const c = map.getContext("2d");
    c.clearRect(0, 0, w, h);
    c.drawImage(this.mapImage, 0, 0);
    c.strokeStyle = this.palette.accent;
    c.lineWidth = 1.5 * ratio;
    // What is in sight, as far as it is on the map.
    const within = (at, most) => Math.min(Math.max(at, ratio), most - ratio);
    const [x, y] = [within(left + this.x * s, w), within(top + this.y * s, h)];
    const right = within(left + (this.x + this.w / this.scale) * s, w);
    const bottom = within(top + (this.y + this.h / this.scale) * s, h);
    c.strokeRect(x, y, right - x, bottom - y);
    map.style.visibility = this.#allInSight() ? "hidden" : "visible";
  }

  #allInSight() {
    const [w, h] = [this.w / this.scale, this.h / this.scale];
    return this.x <= 20 && this.y <= 20 && this.x + w >= this.scene.w - 20 && this.y + h >= this.scene.h - 20;
  }

  /** Takes the size of what holds the canvas; whether that is another one, and the picture is gone. */
  #resize() {
    const box = this.holder.getBoundingClientRect();
    this.ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.max(box.width, 1), Math.max(box.height, 1)];
    // What was in the middle stays there, or the first picture begins anew.
    this.x += (this.w - w) / 2 / this.scale;
    Object.assign(this, { w, h });
    for (const view of this.peers) if (!view.touched) view.home(false);
    const [width, height] = [Math.round(w * this.ratio), Math.round(h * this.ratio)];
    if (this.canvas.width === width && this.canvas.height === height) return false;
    Object.assign(this.canvas, { width, height });
    this.draw();
    return true;
  }

  // Where one looks.

  /** Moves to a place: at once, or in a glide. */
  go(target, glide = true) {
    this.gliding = null;
    if (glide) this.touched = true;
    const goal = { x: this.x, y: this.y, scale: this.scale, ...target };
    if (!glide || document.hidden || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      Object.assign(this, goal);
      this.draw();
      this.#moved();
      return;
    }
    const from = { x: this.x + this.w / 2 / this.scale, y: this.y + this.h / 2 / this.scale, z: Math.log(this.scale) };
    const to = { x: goal.x + this.w / 2 / goal.scale, y: goal.y + this.h / 2 / goal.scale, z: Math.log(goal.scale) };
    const start = performance.now();
    const run = (this.gliding = () => {
      if (this.gliding !== run) return;
      const t = Math.min((performance.now() - start) / 260, 1);
      const e = 1 - (1 - t) ** 3;
      const mix = (key) => from[key] + (to[key] - from[key]) * e;
      this.scale = Math.exp(mix("z"));
      this.x = mix("x") - this.w / 2 / this.scale;
      this.y = mix("y") - this.h / 2 / this.scale;
      this.draw();
      if (t < 1) soon(run);
      else {
        this.gliding = null;
        this.#moved();
      }
    });
    run();
  }

  #moved() {
    this.dispatchEvent(new Event("moved"));
  }

  /** All of it; where that would be too small to read, the top at a readable size. */
  fit(glide = true) {
    const { w, h } = this.scene;
    const whole = Math.min(this.w / w, this.h / h, 1.25);
    const scale = Math.max(whole, Math.min(MIN_SCALE * 4, whole));
    this.go({ scale, x: (w - this.w / scale) / 2, y: (h - this.h / scale) / 2 }, glide);
  }

  /** The scale of what one begins with: all of it where that can be read, else all of its width. */
  #homeScale() {
    const { w, h } = this.scene;
    const whole = Math.min(this.w / w, this.h / h, 1.25);
    return whole >= 0.55 ? whole : Math.min(1, Math.max(READABLE_SCALE, this.w / w));
  }

  /** What one begins with: readable, and from the top unless all is in sight. */
  home(glide = true) {
    const { w, h } = this.scene;
    const scale = Math.min(...this.peers.map((view) => view.#homeScale()));
    const fromTop = this.peers.some((view) => view.scene.h * scale > view.h + 1);
    const [seenW, seenH] = [this.w / scale, this.h / scale];
    const first = this.scene.boxes.find((b) => b.kind === "input") ?? { x: w / 2, w: 0 };
    const x = w <= seenW + 1 ? (w - seenW) / 2 : first.x + first.w / 2 - seenW / 2;
    this.go({ scale, x, y: fromTop ? 0 : (h - seenH) / 2 }, glide);
  }

  zoom(factor, at = { x: this.w / 2, y: this.h / 2 }, glide = true) {
    const scale = Math.min(Math.max(this.scale * factor, MIN_SCALE), MAX_SCALE);
    const x = this.x + at.x / this.scale - at.x / scale;
    const y = this.y + at.y / this.scale - at.y / scale;
    this.go({ x, y, scale }, glide);
  }

  pan(dx, dy, glide = false) {
    this.go({ x: this.x + dx / this.scale, y: this.y + dy / this.scale }, glide);
  }

  /** Moves a box to the middle. */
  centre(box, glide = true, scale = Math.max(this.scale, 0.8)) {
    const high = Math.min(box.h, (this.h / scale) * 0.8);
    this.go({ scale, x: box.x + box.w / 2 - this.w / 2 / scale, y: box.y + high / 2 - this.h / 2 / scale }, glide);
  }

  // Folding.

  /** Folds or unfolds; the group stays where it is on the screen. */
  refold(group, change) {
    const before = this.groupBox(group);
    const from = before && { x: (before.x + Math.min(before.w, 100) / 2 - this.x) * this.scale, y: (before.y - this.y) * this.scale };
    change();
    this.rebuild();
    const after = this.groupBox(group);
    if (from && after) {
      const [cx, cy] = [Math.min(Math.max(from.x, 0), this.w), Math.min(Math.max(from.y, 20), this.h)];
      this.go({ x: after.x + Math.min(after.w, 100) / 2 - cx / this.scale, y: after.y - cy / this.scale }, false);
      if (after.kind === "container") this.#bringIn(after);
    }
    this.dispatchEvent(new Event("folded"));
  }

  /** Moves a group that was opened so far into sight as it fits. */
  #bringIn(box) {
    const [w, h] = [this.w / this.scale, this.h / this.scale];
    const margin = 16 / this.scale;
    const shift = (at, size, seen, length) => {
      if (size + 2 * margin >= length) return at - margin;
      return Math.min(Math.max(seen, at + size + margin - length), at - margin);
    };
    const x = shift(box.x, box.w, this.x, w);
    const y = shift(box.y, box.h, this.y, h);
    const wide = box.w + 2 * margin >= w ? box.x + box.w / 2 - w / 2 : x;
    this.go({ x: wide, y });
  }

  toggle(group) {
    this.refold(group, () => this.fold.toggle(group));
  }

  step(group, by) {
    const at = this.selected?.node && this.#offset(group, this.selected.node.id);
    this.refold(group, () => this.fold.step(group, by));
    const shown = this.fold.shown(group);
    if (at !== null && at !== undefined) this.selectNode(this.model.nodes[shown.from + at], { centre: false });
  }

  /** Where in its layer a node of a stack stands; null for one outside. */
  #offset(stack, id) {
    if (id < stack.from || id >= stack.to) return null;
    const layer = stack.members[0];
    return (id - stack.from) % (layer.to - layer.from);
  }

  all(how) {
    if (how === "close") this.fold.closeAll();
    else if (how === "each") this.fold.openEach();
    else this.fold.openAll();
    this.rebuild();
    this.home();
    this.dispatchEvent(new Event("folded"));
  }

  // Selection.

  select(box, { quiet = false } = {}) {
    this.selected = box;
    this.draw();
    if (!quiet) this.dispatchEvent(new CustomEvent("select", { detail: box }));
  }

  /** Selects a node, unfolding what is around it. */
  selectNode(node, { centre = true, quiet = false, glide = true, scale } = {}) {
    // A weight is shown at what reads it.
    let shown = node;
    this.touched = true;
    if (!this.scene.boxOf[node.id] && node.kind === "weight") {
      const reader = this.model.readers[node.id][0];
      if (reader) shown = this.model.nodes[reader.node];
    }
    if (this.fold.reveal(this.model.around(shown.id))) {
      this.rebuild();
      this.dispatchEvent(new Event("folded"));
    }
    const box = this.scene.boxOf[shown.id];
    if (!box) return null;
    this.selected = box;
    if (centre) this.centre(box, glide, scale);
    this.draw();
    if (!quiet) this.dispatchEvent(new CustomEvent("select", { detail: node === shown ? box : { node, kind: "weight" } }));
    return box;
  }

  selectGroup(group, options = {}) {
    const around = this.model.path(group).slice(0, -1);
    if (this.fold.reveal(around)) this.rebuild();
    let box = this.groupBox(group);
    // A layer that its stack shows has no frame of its own.
    if (!box) box = this.groupBox(around[around.length - 1] ?? group);
    if (!box) return;
    if (options.centre !== false) this.centre(box);
    this.select(box, options);
  }

  /** What is at a point of the screen: a box, and which part of it. */
  at(point) {
    const p = { x: this.x + point.x / this.scale, y: this.y + point.y / this.scale };
    const { boxes } = this.scene;
    let found = null;
    for (const box of boxes)
      if (p.x >= box.x && p.x <= box.x + box.w && p.y >= box.y && p.y <= box.y + box.h)
        if (!found || box.kind !== "container" || box.depth > found.depth || found.kind !== "container") found = found && found.kind !== "container" ? found : box;
    if (!found) return null;
    const sign = found.group && p.x < found.x + 26 && p.y < found.y + 26;
    let part = sign ? "toggle" : "body";
    if (found.one && p.y < found.y + HEADER) {
      const { from, width } = stepper(found);
      if (p.x > from + width / 2 && p.x < from + width + 10) part = "next";
      else if (p.x > from - 10 && p.x <= from + width / 2) part = "previous";
    }
    return { box: found, part };
  }
}
