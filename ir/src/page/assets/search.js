"use strict";

/*
 * Search over operations, values, weights, element types, remarks and groups. All words of the query must occur.
 */

/** Longer lists are cut; all hits are walked through and marked still. */
const MOST_LISTED = 200;

class SearchIndex {
  /** `side` is the number of the view; `keep(node)` leaves out nodes that another index has. */
  constructor(model, side = 0, keep = () => true) {
    this.model = model;
    this.side = side;
    const dtype = (type) => type.split("[")[0];
    this.entries = [];
    for (const group of model.groups) {
      if (group.kind === "part") continue;
      const path = model.path(group).map((g) => g.label);
      if (side) continue;
      this.entries.push({ side, model, group, text: path.join(" ").toLowerCase(), title: group.label });
    }
    for (const node of model.nodes) {
      // A weight that is read is found at its reader.
      if ((node.kind === "weight" && model.readers[node.id].length) || !keep(node)) continue;
      const weights = model.weights(node);
      const words = [node.title, ...node.names, ...node.types.map(dtype), ...node.types];
      for (const [pass, applied] of node.remarks) words.push(pass, applied ? "applied" : "missed");
      for (const weight of weights) words.push(weight.title, dtype(weight.types[0] ?? ""));
      this.entries.push({ side, model, node, text: words.join("\n").toLowerCase(), title: node.title });
    }
  }

  /** Hits in order: groups, then nodes in the order of the graph. */
  find(query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    return this.entries.filter((entry) => words.every((word) => entry.text.includes(word)));
  }
}

class Search {
  /** `show(hit)` is called with each hit that is walked to, `mark(hits)` with all of them. */
  constructor(indexes, { show, mark }) {
    this.indexes = indexes;
    this.show = show;
    this.mark = mark;
    this.field = document.getElementById("query");
    this.list = document.getElementById("hits");
    this.count = document.getElementById("hit-count");
    this.hits = [];
    this.at = -1;
    this.field.addEventListener("input", () => this.run());
    this.field.addEventListener("keydown", (event) => this.#key(event));
    this.list.addEventListener("click", (event) => {
      const item = event.target.closest("[data-at]");
      if (item) this.walk(Number(item.dataset.at));
    });
    this.field.addEventListener("focus", () => this.#open(this.hits.length > 0));
  }

  run() {
    const start = performance.now();
    this.hits = this.indexes.flatMap((index) => index.find(this.field.value));
    this.at = -1;
    this.#fill();
    this.mark(this.hits);
    /** Milliseconds that the last search took, list included. */
    this.took = performance.now() - start;
  }

  /** Searches for a text as if it were typed. */
  ask(text) {
    this.field.value = text;
    this.field.focus();
    this.run();
  }

  #open(open) {
    this.list.hidden = !open;
    this.field.setAttribute("aria-expanded", String(open));
  }

  #fill() {
    const query = this.field.value.trim();
    this.count.textContent = query ? (this.hits.length ? `${this.hits.length}` : "none") : "";
    this.list.replaceChildren();
    this.#open(this.hits.length > 0);
    const rows = document.createDocumentFragment();
    this.hits.slice(0, MOST_LISTED).forEach((hit, at) => rows.append(this.#row(hit, at)));
    if (this.hits.length > MOST_LISTED) {
      const more = element("li", "more", `and ${this.hits.length - MOST_LISTED} more`);
      rows.append(more);
    }
    this.list.append(rows);
  }

  #row(hit, at) {
    const { model } = hit;
    const row = element("li", "hit");
    row.dataset.at = at;
    row.setAttribute("role", "option");
    row.id = `hit-${at}`;
    if (hit.group) {
      const path = model.path(hit.group).slice(0, -1).map((g) => g.label).join(" › ");
      row.append(element("i", "dot group"), element("b", "", hit.group.label), element("span", "", path || "group"));
      return row;
    }
    const { node } = hit;
    const weight = model.weights(node)[0];
    const name = node.kind === "op" ? (weight?.title ?? node.labels[0] ?? "") : node.types[0];
    const dot = element("i", "dot");
    dot.style.background = `var(--${node.color})`;
    row.append(dot, element("b", "", shortened(node.title, 34)), element("span", "", shortened(name ?? "", 46)));
    return row;
  }

  /** Goes to hit `at`, round the end. */
  walk(at) {
    if (!this.hits.length) return;
    this.at = (at + this.hits.length) % this.hits.length;
    this.list.querySelector(".now")?.classList.remove("now");
    const row = this.list.children[this.at];
    if (this.at < MOST_LISTED && row) {
      row.classList.add("now");
      row.scrollIntoView({ block: "nearest" });
      this.field.setAttribute("aria-activedescendant", row.id);
    }
    this.count.textContent = `${this.at + 1}/${this.hits.length}`;
    this.show(this.hits[this.at]);
  }

  clear() {
    this.field.value = "";
    this.run();
    this.field.blur();
  }

  close() {
    this.#open(false);
  }

  #key(event) {
    if (event.key === "Enter") this.walk(this.at + (event.shiftKey ? -1 : 1));
    else if (event.key === "ArrowDown") this.walk(this.at + 1);
    else if (event.key === "ArrowUp") this.walk(this.at - 1);
    else if (event.key === "Escape") this.clear();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
