"use strict";

/*
 * From a graph and what is folded to a scene: boxes with places and sizes, and edges with points.
 *
 * Each open group is laid out on its own and then stands as one box in the group around it, so that no layout is
 * large. Layouts are kept by the structure of a group: equal layers are laid out once. Values that cross a group's
 * border do so at ports, which lie at the top and at the bottom of it.
 */

/** A value with so many readers in one group is named at each of them instead of drawn to them. */
const MOST_ARROWS = 4;

/** Geometry of groups by structure; each has a number, which takes part in the structure of groups around. */
const layouts = new Map();

class Scene {
  constructor(model, fold) {
    this.model = model;
    this.fold = fold;
    /** The box that shows each operation, undefined where none does. */
    this.boxOf = new Array(model.nodes.length);
    this.anyOne = model.groups.some((group) => fold.isOne(group));
    this.root = this.#container(null, null);
    this.#connect();
    this.#layOut();
    this.#place();
  }

  // Structure: which boxes there are.

  #container(group, parent) {
    const { model, fold } = this;
    const one = group !== null && group.kind === "stack" && fold.isOne(group);
    const body = one ? fold.shown(group) : group;
    const container = {
      kind: "container",
      group,
      body,
      one,
      parent,
      depth: parent ? parent.depth + 1 : 0,
      children: [],
      edges: new Map(),
      ins: new Map(),
      outs: new Map(),
    };
    const [from, to, groups] = body ? [body.from, body.to, body.children] : [0, model.operations, model.top];
    const add = (box) => {
      box.parent = container;
      box.at = container.children.length;
      container.children.push(box);
      return box;
    };
    if (!group) {
      for (const node of model.nodes) {
        const read = node.kind === "weight" && model.readers[node.id].some((r) => model.nodes[r.node].kind === "output");
        if (node.kind === "input" || read) this.boxOf[node.id] = add(this.#node(node));
      }
    }
    let place = from;
    for (const child of groups) {
      for (; place < child.from; place++) this.boxOf[place] = add(this.#node(model.nodes[place]));
      if (fold.isOpen(child)) add(this.#container(child, container));
      else {
        const box = add(this.#closed(child));
        for (let p = child.from; p < child.to; p++) this.boxOf[p] = box;
      }
      place = child.to;
    }
    for (; place < to; place++) this.boxOf[place] = add(this.#node(model.nodes[place]));
    if (!group)
      for (const node of model.nodes) if (node.kind === "output") this.boxOf[node.id] = add(this.#node(node));
    return container;
  }

  #node(node) {
    if (node.kind !== "op") {
      const type = node.types[0] ?? "";
      const title = shortened(node.title, 30);
      const width = Math.max(measure(title, TITLE_FONT), measure(type, SMALL_FONT)) + 34;
      return { kind: node.kind, node, title, name: "", detail: type, w: Math.ceil(width), h: 40 };
    }
    const name = this.model.shortName(node);
    const detail = this.model.detail(node);
    const first = measure(node.title, TITLE_FONT) + (name ? measure(name, NAME_FONT) + 8 : 0);
    const width = Math.max(first, measure(detail, SMALL_FONT)) + 24;
    return { kind: "op", node, title: node.title, name, detail, w: Math.ceil(Math.max(width, 76)), h: detail ? 40 : 28 };
  }

  #closed(group) {
    const counts = new Map();
    for (let p = group.from; p < group.to; p++) {
      const color = this.model.nodes[p].color;
      counts.set(color, (counts.get(color) ?? 0) + 1);
    }
    const operations = group.to - group.from;
    const times = group.kind === "stack" ? group.members.length : 1;
    const size = times > 1 ? `${times} × ${operations / times} operations` : `${operations} operations`;
    const detail = group.like ? `${times > 1 ? `${times} × ` : ""}as ${group.like.label}` : size;
    const title = shortened(group.label, 30);
    const width = Math.max(measure(title, TITLE_FONT) + 22, measure(detail, SMALL_FONT) + 8) + 34;
    return { kind: "group", group, title, detail, times, counts, w: Math.ceil(Math.max(width, 130)), h: 52 };
  }

  // Edges.

  /** The operation that stands for one: itself, or that of the layer that its stack shows. */
  #stands(place) {
    const { model, fold } = this;
    if (!this.anyOne) return place;
    for (;;) {
      const moved = model.around(place).find((g) => g.kind === "stack" && fold.isOne(g) && !this.#inside(fold.shown(g), place));
      if (!moved) return place;
      const shown = fold.shown(moved);
      place = shown.from + ((place - moved.from) % (shown.to - shown.from));
    }
  }

  #inside(group, place) {
    return place >= group.from && place < group.to;
  }

  /**
   * What operand `at` of an operation comes from. In a stack that shows one layer for all, what comes from the
   * layer before is what the first layer reads in its place; null where there is no such thing.
   */
  #source(reader, at, box) {
    const { nodes } = this.model;
    let place = reader;
    for (let c = box.parent; c; c = c.parent) {
      if (!c.one) continue;
      const read = nodes[place].reads[at];
      if (!read || read.node >= this.model.operations) continue;
      if (this.#inside(c.group, read.node) && !this.#inside(c.body, read.node)) {
        place = c.group.from + (place - c.body.from);
        const first = nodes[place].reads[at];
        if (!first || (first.node < this.model.operations && this.#inside(c.group, first.node))) return null;
      }
    }
    const read = nodes[place].reads[at];
    if (!read) return null;
    return read.node < this.model.operations ? { node: this.#stands(read.node), port: read.port } : read;
  }

  #connect() {
    const { model } = this;
    for (const node of model.nodes) {
      const box = this.boxOf[node.id];
      if (!box || (node.kind !== "op" && node.kind !== "output")) continue;
      node.reads.forEach((_, at) => {
        const source = this.#source(node.id, at, box);
        const from = source && this.boxOf[source.node];
        if (from && from !== box) this.#edge(from, box, source);
      });
    }
  }

  /** Draws a value from one box to another, through the ports of the groups between them. */
  #edge(from, to, value) {
    const key = `${value.node}:${value.port}`;
    let [a, b] = [from, to];
    const depth = (box) => box.parent.depth;
    while (a.parent !== b.parent) {
      if (depth(a) >= depth(b)) {
        this.#link(a.parent, a, null, key, value);
        a = a.parent;
      } else {
        this.#link(b.parent, null, b, key, value);
        b = b.parent;
      }
    }
    if (a !== b) this.#link(a.parent, a, b, key, value);
  }

  /** An edge within a container; null stands for its border. */
  #link(container, from, to, key, value) {
    if (!from && !container.ins.has(key)) container.ins.set(key, { value, at: container.ins.size });
    if (!to && !container.outs.has(key)) container.outs.set(key, { value, at: container.outs.size });
    // Between plain boxes one arrow carries all values; at open groups each has its port.
    const plain = from && to && from.kind !== "container" && to.kind !== "container";
    const name = `${from ? from.at : "in"}>${to ? to.at : "out"}${plain ? "" : " " + key}`;
    const had = container.edges.get(name);
    if (!had) container.edges.set(name, { from, to, key, values: [value] });
    else if (!had.values.some((v) => v.node === value.node && v.port === value.port)) had.values.push(value);
  }

  // Geometry.

  #layOut() {
    // Containers from the inside out.
    const order = [this.root];
    for (let i = 0; i < order.length; i++) order.push(...order[i].children.filter((c) => c.kind === "container"));
    this.containers = order;
    for (let i = order.length - 1; i >= 0; i--) this.#arrange(order[i]);
  }

  /** Finds values with many readers in a container: those get a name at each reader. */
  #tagged(container) {
    const readers = new Map();
    for (const edge of container.edges.values())
      if (edge.to) readers.set(edge.key, (readers.get(edge.key) ?? 0) + 1);
    return (edge) => edge.to !== null && readers.get(edge.key) > MOST_ARROWS;
  }

  #arrange(container) {
    const tagged = this.#tagged(container);
    const edges = [...container.edges.values()];
    const labelled = new Set();
    for (const edge of edges) {
      edge.tag = tagged(edge) && edge.values.length === 1;
      const type = edge.values.length > 1 ? `${edge.values.length} values` : this.model.type(edge.values[0]);
      // One label a value is enough in each group, and outside of those that it comes into.
      edge.label = edge.tag || labelled.has(edge.key) || !edge.to || !edge.from ? "" : shortened(type, 30);
      if (!edge.tag && edge.to) labelled.add(edge.key);
      if (edge.tag) edge.text = shortened(bare(this.model.valueName(edge.values[0])), 20);
    }
    const size = (c) => (c.kind === "container" ? `#${c.layout.id}:${c.w}` : `${c.w}x${c.h}`);
    const end = (box, border, edge) => (box ? box.at : `${border}${(border === "i" ? container.ins : container.outs).get(edge.key).at}`);
    const structure = [
      container.group ? "g" : "root",
      container.children.map(size).join(" "),
      edges.map((e) => `${end(e.from, "i", e)}>${end(e.to, "o", e)}${this.#portNames(e)}${e.label.length}${e.tag ? e.text : ""}`).join(" "),
    ].join("|");
    let layout = layouts.get(structure);
    if (!layout) {
      layout = arrange(container, edges);
      layout.id = layouts.size;
      layouts.set(structure, layout);
    }
    container.layout = layout;
    container.edgeList = edges;
    const header = container.group ? measure(headerText(container), TITLE_FONT) + (container.one ? 150 : 60) : 0;
    container.extra = Math.max(0, header - layout.w) / 2;
    container.w = layout.w + 2 * container.extra;
    container.h = layout.h;
  }

  /** Which ports of open groups an edge goes to: they are part of the structure around. */
  #portNames(edge) {
    const out = edge.from?.kind === "container" ? edge.from.outs.get(edge.key)?.at : "";
    const into = edge.to?.kind === "container" ? edge.to.ins.get(edge.key)?.at : "";
    return `(${out},${into})`;
  }

  /** Boxes and edges in the plane, from the outside in. */
  #place() {
    this.boxes = [];
    this.edges = [];
    const root = this.root;
    Object.assign(root, { x: 0, y: 0 });
    for (const container of this.containers) {
      const { layout } = container;
      const [x0, y0] = [container.x + container.extra, container.y];
      container.children.forEach((child, at) => {
        const spot = layout.spots[at];
        child.x = x0 + spot.x - child.w / 2;
        child.y = y0 + spot.y - child.h / 2;
        this.boxes.push(child);
      });
      container.edgeList.forEach((edge, at) => {
        const path = layout.paths[at];
        const points = path.points.map((p) => ({ x: x0 + p.x, y: y0 + p.y }));
        const tag = edge.tag ? { x: x0 + path.tag.x, y: y0 + path.tag.y, w: path.tag.w, h: path.tag.h } : null;
        const label = edge.label ? { x: x0 + path.x, y: y0 + path.y, text: edge.label } : null;
        this.edges.push({ ...edge, container, points, tag, label });
      });
    }
    // Ends at open groups move to the ports, which are known only now.
    for (const edge of this.edges) {
      const last = edge.points.length - 1;
      if (edge.from?.kind === "container" && !edge.tag) edge.points[0] = this.#port(edge.from, edge.from.outs.get(edge.key), "outs");
      if (edge.to?.kind === "container") edge.points[last] = this.#port(edge.to, edge.to.ins.get(edge.key), "ins");
      if (!edge.from && !edge.tag) edge.points[0] = this.#port(edge.container, edge.container.ins.get(edge.key), "ins");
      if (!edge.to) edge.points[last] = this.#port(edge.container, edge.container.outs.get(edge.key), "outs");
      const xs = edge.points.map((p) => p.x);
      const ys = edge.points.map((p) => p.y);
      edge.box = { x: Math.min(...xs), y: Math.min(...ys), r: Math.max(...xs), b: Math.max(...ys) };
      edge.hits = new Set(edge.values.map((v) => v.node));
    }
    for (const container of this.containers) if (container.one) container.loopLines = this.#loops(container);
    this.#sparse();
    this.w = root.w;
    this.h = root.h;
  }

  /** Takes away labels that would lie on others. */
  #sparse() {
    const CELL = 128;
    const cells = new Map();
    for (const edge of this.edges) {
      if (!edge.label) continue;
      const w = measure(edge.label.text, LABEL_FONT) + 6;
      const own = { x: edge.label.x - w / 2, y: edge.label.y - 7, r: edge.label.x + w / 2, b: edge.label.y + 7 };
      const at = (x, y) => `${Math.floor(x / CELL)},${Math.floor(y / CELL)}`;
      const near = new Set([at(own.x, own.y), at(own.r, own.y), at(own.x, own.b), at(own.r, own.b)]);
      const meets = (o) => own.x < o.r && own.r > o.x && own.y < o.b && own.b > o.y;
      if ([...near].some((cell) => cells.get(cell)?.some(meets))) {
        edge.label = null;
        continue;
      }
      for (const cell of near) cells.has(cell) ? cells.get(cell).push(own) : cells.set(cell, [own]);
    }
  }

  /** For values that pass from layer to layer: the ports where they leave and where they come in. */
  #loops(container) {
    const { nodes } = this.model;
    const [layer, second] = container.group.members;
    // What the second layer reads from the first one, and what that one reads in place of it.
    const pairs = new Map();
    for (let place = second.from; place < second.to; place++)
      nodes[place].reads.forEach((read, at) => {
        const first = nodes[place - second.from + layer.from].reads[at];
        if (read && first && this.#inside(layer, read.node) && !this.#inside(container.group, first.node)) pairs.set(`${read.node}:${read.port}`, [read, first]);
      });
    const out = [];
    for (const [read, first] of pairs.values()) {
      const leaves = container.outs.get(`${this.#stands(read.node)}:${read.port}`);
      const from = first.node < this.model.operations ? this.#stands(first.node) : first.node;
      const comes = container.ins.get(`${from}:${first.port}`);
      if (leaves && comes) out.push([this.#port(container, leaves, "outs"), this.#port(container, comes, "ins")]);
    }
    return out;
  }

  #port(container, port, side) {
    const x = container.layout[side][port.at];
    return { x: container.x + container.extra + x, y: side === "ins" ? container.y : container.y + container.h };
  }
}
