"use strict";

/*
 * The graph of a page, decoded from its JSON: nodes, what reads what, and the tree of groups.
 * Nodes are numbered: operations in order (their number is their place), then inputs, weights, outputs.
 */

/** The middle of a long text as an ellipsis. */
function shortened(text, most) {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) * 0.55);
  return text.slice(0, head) + "…" + text.slice(text.length - (most - 1 - head));
}

/** A name for the eye: characters that would turn the direction of what follows, or show nothing, are dots. */
function visible(name) {
  return name.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, "·");
}

/** A name beside other text: what is written from right to left stays by itself. */
function isolated(name) {
  return /[^\u0000-\u02ff]/.test(name) ? `\u2068${name}\u2069` : name;
}

/** A value's name without `%`, and without quotes where it has them. */
function bare(label) {
  const name = label.startsWith("%") ? label.slice(1) : label;
  if (!name.startsWith('"')) return name;
  try {
    return JSON.parse(name.replace(/\\u\{([0-9a-f]+)\}/g, (_, hex) => "\\u" + hex.padStart(4, "0")));
  } catch {
    return name;
  }
}

/** Which attributes tell most: the least number first, what is nothing last. */
function telling({ field, text }) {
  const first = ["window", "heads", "kv_heads", "base", "how", "mode", "axis", "axes", "kernel", "stride"];
  const last = ["head_dim", "rope_dim", "scale", "values", "approximate"];
  if (["0", "none", "false"].includes(text)) return last.length + 1;
  if (first.includes(field)) return first.indexOf(field) - first.length;
  return last.indexOf(field) + 1;
}

class Model {
  constructor(data) {
    this.title = data.title;
    this.subtitle = data.subtitle;
    this.head = data.head;
    this.source = data.source;
    this.classes = data.classes;
    this.ops = data.ops;
    this.nodes = data.nodes.map((node, id) => this.#node(data, node, id));
    this.operations = this.nodes.findIndex((node) => node.kind !== "op");
    if (this.operations < 0) this.operations = this.nodes.length;
    /** For each node its readers: node and operand number. */
    this.readers = this.nodes.map(() => []);
    for (const node of this.nodes)
      node.reads.forEach((read, at) => {
        if (read) this.readers[read.node].push({ node: node.id, at, port: read.port });
      });
    this.#groups(data.groups);
  }

  #node(data, raw, id) {
    const reads = (raw.i ?? []).map((read) =>
      read === null ? null : Array.isArray(read) ? { node: read[0], port: read[1] } : { node: read, port: 0 },
    );
    const op = raw.k ? null : data.ops[raw.o];
    return {
      id,
      kind: raw.k ?? "op",
      op,
      /** The class of an operation decides its colour; inputs, weights and outputs have their own. */
      color: op ? data.classes[op.class].key : raw.k,
      title: op ? op.name : visible(raw.w),
      labels: raw.n.map(visible),
      names: raw.n.map(bare).map(visible),
      types: raw.t.map((t) => data.types[t]),
      reads,
      attributes: raw.a ?? [],
      hint: raw.h,
      span: raw.s,
      remarks: raw.r ?? [],
    };
  }

  #groups(raw) {
    this.groups = raw.map((group, id) => ({ ...group, id, children: [] }));
    /** Groups that stand in no other. */
    this.top = [];
    for (const group of this.groups) {
      const around = group.parent === null ? this.top : this.groups[group.parent].children;
      around.push(group);
    }
    const byPlace = (a, b) => a.from - b.from;
    this.top.sort(byPlace);
    for (const group of this.groups) group.children.sort(byPlace);
    /** The innermost group of each operation, or -1: groups stand after those around them. */
    this.home = new Int32Array(this.operations).fill(-1);
    for (const group of this.groups) this.home.fill(group.id, group.from, group.to);
    for (const group of this.groups) if (group.kind === "stack") group.members = this.#members(group);
    // Layers that look like an earlier one say so.
    const looks = new Map();
    for (const group of [...this.groups].sort((a, b) => a.from - b.from || b.to - a.to)) {
      if (group.kind !== "layer" && group.kind !== "stack") continue;
      const look = (group.members?.[0] ?? group).look;
      const first = looks.get(look);
      if (first === undefined) looks.set(look, group);
      else if (group.from >= first.to) group.like = first.members?.[0] ?? first;
    }
  }

  /** The layers of a stack, also those that stand in parts of it. */
  #members(stack) {
    const members = [];
    const todo = [...stack.children];
    while (todo.length) {
      const group = todo.pop();
      if (group.kind === "layer") members.push(group);
      else if (group.kind === "part") todo.push(...group.children);
    }
    return members.sort((a, b) => a.from - b.from);
  }

  /** The groups around a node, from the outside in. */
  around(id) {
    const out = [];
    let at = id < this.operations ? this.home[id] : -1;
    while (at >= 0) {
      out.push(this.groups[at]);
      at = this.groups[at].parent ?? -1;
    }
    return out.reverse();
  }

  /** The groups around a group, itself included, from the outside in. */
  path(group) {
    const out = [];
    for (let at = group; at; at = at.parent === null ? null : this.groups[at.parent]) out.push(at);
    return out.reverse();
  }

  /** A value's type. */
  type(read) {
    return this.nodes[read.node].types[read.port] ?? "";
  }

  /** A value's name for people: that of the weight or input, or that of the result. */
  valueName(read) {
    const node = this.nodes[read.node];
    return node.kind === "op" ? (node.labels[read.port] ?? "") : node.title;
  }

  /** The names of the weights that an operation reads. */
  weights(node) {
    const read = node.reads.filter((r) => r && this.nodes[r.node].kind === "weight");
    return read.map((r) => this.nodes[r.node]);
  }

  /** The node of a link: `#node=%layer0.q`, or the name of an input, weight or output. */
  find(name) {
    this.byName ??= this.#index();
    return this.byName.get(name);
  }

  #index() {
    const index = new Map();
    for (const node of this.nodes) {
      if (node.kind === "op") node.labels.forEach((label) => index.set(label, node.id));
      else if (!index.has(node.title)) index.set(node.title, node.id);
    }
    return index;
  }

  /** What stands in a link for a node. */
  linkName(node) {
    return node.kind === "op" ? (node.labels[0] ?? "") : node.title;
  }

  /** The second line of an operation's box. */
  detail(node) {
    const weights = this.weights(node);
    if (weights.length) {
      // Matrices tell more than gains and biases.
      const first = weights.find((weight) => (weight.types[0] ?? "").includes(", ")) ?? weights[0];
      const parts = first.title.split(".");
      const last = parts.pop();
      const name = last === "weight" && parts.length ? parts.pop() : parts.length ? `${parts.pop()}.${last}` : last;
      const more = weights.length > 1 ? ` +${weights.length - 1}` : "";
      return `${isolated(shortened(name, 26))} ${shortened(first.types[0] ?? "", 24)}${more}`;
    }
    const shown = node.attributes.map((text, at) => ({ field: node.op.fields[at], text }));
    shown.sort((a, b) => telling(a) - telling(b));
    const [first, second] = shown;
    if (!first) return "";
    const one = ({ field, text }) => (/^[[a-z"]/.test(text) && shown.length === 1 ? text : `${field} ${text}`);
    return shortened(second ? `${one(first)} · ${one(second)}` : one(first), 34);
  }

  /** The last word of a value's name, where it has one that tells something. */
  shortName(node) {
    const name = node.names[0] ?? "";
    if (!name || /^\d+$/.test(name)) return "";
    const last = name.split(".").filter((part) => !/^\d+$/.test(part)).pop() ?? name;
    return /^v?\d+$/.test(last) ? "" : shortened(last, 18);
  }
}
