"use strict";

/*
 * Two graphs side by side: which nodes are partners, what differs, and the list of differences.
 */

/** So many entries are listed, and folds open at so many of them. */
const MOST_ENTRIES = 500;
const MOST_UNFOLDED = 100;

class Difference {
  constructor(data, models) {
    this.models = models;
    this.entries = data.entries;
    /** For each side the partner of each node on the other, or undefined. */
    this.partner = [new Map(), new Map()];
    data.partner.forEach((right, left) => {
      if (right === null) return;
      this.partner[0].set(left, right);
      this.partner[1].set(right, left);
    });
    /** For each side the state of nodes that differ: removed, added, changed or follows. */
    this.state = [new Map(), new Map()];
    /** For each side the changes of a node against its partner. */
    this.changes = [new Map(), new Map()];
    for (const [left, right, changes] of data.changes) {
      const state = changes.every((c) => c.follows) ? "follows" : "changed";
      this.#note(0, left, state);
      this.#note(1, right, state);
      this.changes[0].set(left, changes);
      this.changes[1].set(right, changes);
    }
    for (const node of data.removed) this.#note(0, node, "removed");
    for (const node of data.added) this.#note(1, node, "added");
    // An entry may tell of nodes that are paired: those that give another output, say.
    for (const entry of this.entries)
      for (const spot of entry.spots)
        spot.forEach((nodes, side) => {
          for (const node of nodes) if ((this.state[side].get(node) ?? "follows") === "follows") this.#note(side, node, "changed");
        });
    this.#weights();
    this.groups = models.map((model, side) => this.#groupStates(model, side));
  }

  #note(side, id, state) {
    this.state[side].set(id, state);
  }

  /** A weight has no box of its own: what reads one that differs stands out. */
  #weights() {
    this.models.forEach((model, side) => {
      for (const [id, state] of [...this.state[side]]) {
        if (model.nodes[id].kind !== "weight" || state === "follows") continue;
        for (const { node } of model.readers[id])
          if ((this.state[side].get(node) ?? "follows") === "follows") this.#note(side, node, "changed");
      }
    });
  }

  /** The state of each group: that of its nodes where all have one, else changed where any differs. */
  #groupStates(model, side) {
    const out = new Map();
    const sums = new Map();
    const order = [...this.state[side]].filter(([, state]) => state !== "follows");
    for (const [id, state] of order)
      for (const group of model.around(id)) {
        const sum = sums.get(group.id) ?? { n: 0, state };
        sum.n += 1;
        if (sum.state !== state) sum.state = "changed";
        sums.set(group.id, sum);
      }
    for (const [id, { n, state }] of sums) {
      const group = model.groups[id];
      out.set(id, n === group.to - group.from ? state : "changed");
    }
    // What is gone on one side has left a gap in a group of the other.
    const gone = side ? "removed" : "added";
    const gaps = new Map();
    for (const [id, state] of this.state[1 - side]) {
      if (state !== gone) continue;
      for (const group of this.models[1 - side].around(id).reverse()) {
        if (!gaps.has(group.id)) gaps.set(group.id, this.#across(1 - side, group));
        const across = gaps.get(group.id);
        for (const other of across ?? []) if (!out.has(other.id)) out.set(other.id, "changed");
        if (across) break;
      }
    }
    return out;
  }

  /** The groups on the other side that hold the partners of all that has one in a group; null where nothing has. */
  #across(side, group) {
    const other = this.models[1 - side];
    let shared = null;
    for (let id = group.from; id < group.to && shared?.length !== 0; id++) {
      const partner = this.partner[side].get(id);
      if (partner === undefined) continue;
      const around = other.around(partner);
      shared = shared?.filter((g, at) => around[at] === g) ?? around;
    }
    return shared;
  }

  /** What colours a box. */
  tint(side, node) {
    const state = this.state[side].get(node.id);
    return state === "follows" ? null : state;
  }

  tintGroup(side, group) {
    return this.groups[side].get(group.id);
  }

  /** The partner of a node; of one without, that of the nearest node that it reads, or that reads it. */
  nearest(side, id) {
    const exact = this.partner[side].get(id);
    if (exact !== undefined) return { id: exact, exact: true };
    const model = this.models[side];
    const seen = new Set([id]);
    let front = [id];
    for (let depth = 0; depth < 40 && front.length; depth++) {
      const next = [];
      for (const at of front) {
        const near = [...model.nodes[at].reads.filter(Boolean).map((r) => r.node), ...model.readers[at].map((r) => r.node)];
        for (const other of near) {
          if (seen.has(other) || model.nodes[other].kind === "weight") continue;
          seen.add(other);
          const partner = this.partner[side].get(other);
          if (partner !== undefined) return { id: partner, exact: false };
          next.push(other);
        }
      }
      front = next;
    }
    return null;
  }

  /** Opens in both views what holds the first place of each entry, and nothing else. */
  unfold(views) {
    views.forEach((view, side) => {
      view.fold.closeAll();
      for (const entry of this.entries.slice(0, MOST_UNFOLDED).reverse()) {
        const first = entry.spots[0]?.[side] ?? [];
        for (const id of first.slice(0, 8)) view.fold.reveal(this.models[side].around(this.#shown(side, id)));
      }
      view.rebuild();
    });
    // Where that is too wide to be read, less is open: on both sides the same, from the inside out.
    const tooWide = () => views.some((view) => view.scene.w * READABLE_SCALE > view.w);
    for (let depth = Math.max(...views.map((view) => view.fold.depth())); depth > 0 && tooWide(); depth--)
      for (const view of views) if (view.fold.closeFrom(depth)) view.rebuild();
  }

  /** A weight is shown at its reader. */
  #shown(side, id) {
    const model = this.models[side];
    return model.nodes[id].kind === "weight" ? (model.readers[id][0]?.node ?? id) : id;
  }
}

/** A statement with the parts that differ marked. */
function statement(place, kind) {
  const line = element("code", `statement ${kind}`);
  let at = 0;
  for (const [from, to] of place.marks) {
    line.append(place.text.slice(at, from), element("mark", "", place.text.slice(from, to)));
    at = to;
  }
  line.append(place.text.slice(at));
  return line;
}

/** The list of differences, and what the panel tells of one of them and of a node. */
class DifferencePanel {
  constructor(difference, panel, views) {
    Object.assign(this, { difference, panel, views, at: -1 });
  }

  /** All differences. */
  list() {
    const { entries, models } = this.difference;
    const head = element("header");
    head.append(element("h2", "", entries.length ? `${entries.length} difference${entries.length > 1 ? "s" : ""}` : "No difference"));
    const sides = element("p", "doc");
    sides.append(element("b", "removed", models[0].title), " → ", element("b", "added", models[1].title));
    head.append(sides);
    const list = element("ol", "entries");
    entries.slice(0, MOST_ENTRIES).forEach((entry, at) => {
      const item = element("li");
      const row = button("", () => this.show(at), `entry ${tone(entry.kind)}`);
      row.append(element("b", "", entry.kind), element("span", "", entry.text));
      if (entry.count > 1) row.append(element("i", "", `×${entry.count}`));
      item.append(row);
      list.append(item);
    });
    if (entries.length > MOST_ENTRIES) list.append(element("li", "doc", `and ${entries.length - MOST_ENTRIES} more, by n and p`));
    const note = element("p", "doc", "n and p go to the next and the previous difference. A node that is selected on one side has its partner in the middle of the other.");
    this.panel.show(head, list, note);
  }

  /** One difference: both views go to its place number `spot`. */
  show(at, spot = 0) {
    const { entries } = this.difference;
    if (!entries.length) return;
    this.at = (at + entries.length) % entries.length;
    const entry = entries[this.at];
    const place = entry.spots[spot] ?? [[], []];
    history.replaceState(null, "", `#difference=${this.at + 1}`);
    const scale = this.#scale();
    place.forEach((nodes, side) => {
      if (nodes.length) this.views[side].selectNode(this.difference.models[side].nodes[nodes[0]], { quiet: true, scale });
    });
    place.forEach((nodes, side) => {
      const other = place[1 - side];
      if (!nodes.length && other.length) this.follow(1 - side, other[0]);
    });
    const head = element("header");
    head.append(this.#back(), element("h2", "", entry.kind), element("p", "", entry.text));
    const part = (title, places, kind) => {
      if (!places.length) return null;
      const out = element("section");
      out.append(element("h3", "", title), ...places.map((p) => statement(p, kind)));
      return out;
    };
    const spots = element("div", "acts wrap");
    if (entry.spots.length > 1)
      entry.spots.slice(0, 60).forEach((s, n) => {
        const side = s[0].length ? 0 : 1;
        const model = this.difference.models[side];
        const groups = s[side].length ? model.around(s[side][0]) : [];
        const layer = groups.filter((g) => g.kind === "layer").pop();
        spots.append(button(layer?.label ?? `place ${n + 1}`, () => this.show(this.at, n), n === spot ? "chip now" : "chip"));
      });
    this.panel.show(head, part("Left", entry.left, "removed"), part("Right", entry.right, "added"), spots);
  }

  #back() {
    return button("‹ all differences", () => this.list(), "link");
  }

  step(by) {
    this.show(this.at < 0 && by < 0 ? -1 : this.at + by);
  }

  /** One scale for both views: the larger, readable one. */
  #scale() {
    return Math.max(0.8, Math.min(1.4, ...this.views.map((view) => view.scale)));
  }

  /** Moves the other view to the partner of a node. */
  follow(side, id) {
    const other = this.views[1 - side];
    const near = this.difference.nearest(side, id);
    if (!near) return;
    const box = other.selectNode(this.difference.models[1 - side].nodes[near.id], { quiet: true, scale: this.#scale() });
    if (box && !near.exact) other.select(null, { quiet: true });
  }

  /** What stands above a node's own facts: its state, and in what it differs. */
  extra(side, node) {
    const { difference } = this;
    const state = difference.state[side].get(node.id);
    const partner = difference.partner[side].get(node.id);
    const out = [this.#back()];
    const note = element("p", `state ${state === "follows" ? "" : (state ?? "")}`);
    note.textContent =
      state === "removed" ? "only in the left graph" : state === "added" ? "only in the right graph" : state === "changed" ? "changed" : state === "follows" ? "reads what has changed" : "the same on both sides";
    out.push(note);
    if (partner !== undefined) {
      const other = difference.models[1 - side];
      const link = button(`${other.nodes[partner].title} ${other.nodes[partner].labels[0] ?? ""}`, () => this.views[1 - side].selectNode(other.nodes[partner]), "link");
      const row = element("p", "doc", side ? "left: " : "right: ");
      row.append(link);
      out.push(row);
    }
    const changes = difference.changes[side].get(node.id) ?? [];
    if (changes.length) {
      const table = element("table", "changes");
      for (const change of changes) {
        const row = element("tr", change.follows ? "follows" : "");
        row.append(element("th", "", change.what), element("td", "removed", change.left ?? "–"), element("td", "added", change.right ?? "–"));
        table.append(row);
      }
      out.push(table);
    }
    return out;
  }
}

/** The colour of a kind of difference. */
function tone(kind) {
  return kind === "removed" || kind === "added" ? kind : "changed";
}
