"use strict";

/*
 * The side panel: all that is known about the selected node, group or graph.
 */

/** An element with a class and a text. Texts come from models: they never become markup. */
function element(tag, name = "", text = "") {
  const out = document.createElement(tag);
  if (name) out.className = name;
  if (text !== "") out.textContent = text;
  return out;
}

function button(text, act, name = "") {
  const out = element("button", name, text);
  out.type = "button";
  out.addEventListener("click", act);
  return out;
}

/** `code` between back-ticks of a documentation line. */
function documented(text) {
  const line = element("p", "doc");
  text.split("`").forEach((part, at) => part && line.append(at % 2 ? element("code", "", part) : part));
  return line;
}

class Panel {
  /** `go(node)` and `goGroup(group)` follow links; `unfold(group, how)` folds, `find(text)` searches. */
  constructor(root, { go, goGroup, unfold, find }) {
    Object.assign(this, { root, go, goGroup, unfold, find });
  }

  show(...parts) {
    this.root.replaceChildren(...parts.filter(Boolean));
    this.root.scrollTop = 0;
  }

  #section(title, ...parts) {
    const all = parts.flat().filter(Boolean);
    if (!all.length) return null;
    const out = element("section");
    out.append(element("h3", "", title), ...all);
    return out;
  }

  #rows(pairs) {
    if (!pairs.length) return null;
    const list = element("dl");
    for (const [name, value] of pairs) {
      const text = element("dd");
      text.append(value);
      list.append(element("dt", "", name), text);
    }
    return list;
  }

  #crumbs(model, groups) {
    const nav = element("nav", "crumbs");
    nav.setAttribute("aria-label", "Groups around");
    groups
      .filter((g) => g.kind !== "stack" || g === groups[groups.length - 1])
      .forEach((group, at) => {
        if (at) nav.append(element("span", "", "›"));
        nav.append(button(group.label, () => this.goGroup(model, group), "link"));
      });
    return groups.length ? nav : null;
  }

  /** The whole graph: what shows when nothing is selected. */
  graph(model, extra = []) {
    const head = element("header");
    head.append(element("h2", "", model.title), element("p", "doc", model.subtitle));
    const facts = element("ul", "facts");
    for (const line of model.head) facts.append(element("li", "", line));
    const list = (kind) => model.nodes.filter((n) => n.kind === kind).map((n) => this.#link(model, { node: n.id, port: 0 }, n.types[0]));
    const groups = model.top.slice(0, 60).map((group) => {
      const row = element("div", "value");
      const size = group.kind === "stack" ? `×${group.members.length}` : `${group.to - group.from} operations`;
      row.append(button(group.label, () => this.goGroup(model, group), "link"), element("span", "type", size));
      return row;
    });
    this.show(
      head,
      ...extra,
      this.#section("Graph", facts),
      this.#section("Inputs", list("input")),
      this.#section("Outputs", list("output")),
      this.#section("Remarks", this.#passes(model)),
      this.#section("Groups", groups),
      this.#keys(),
    );
  }

  /** How often each pass did something and did not; a click finds where. */
  #passes(model) {
    const passes = new Map();
    const counted = new Set();
    for (const node of model.nodes)
      for (const [pass, applied, , number] of node.remarks) {
        if (number !== undefined && counted.has(number)) continue;
        counted.add(number);
        const sum = passes.get(pass) ?? { applied: 0, missed: 0 };
        sum[applied ? "applied" : "missed"] += 1;
        passes.set(pass, sum);
      }
    return [...passes].map(([pass, { applied, missed }]) => {
      const row = element("div", "value");
      row.append(button(pass, () => this.find(pass), "link"));
      if (applied) row.append(element("span", "type applied", `${applied} applied`));
      if (missed) row.append(element("span", "type missed", `${missed} missed`));
      return row;
    });
  }

  #keys() {
    const keys = [
      ["/", "search; Enter goes from hit to hit"],
      ["+ −", "zoom, as the wheel does"],
      ["0", "all in sight"],
      ["arrows", "move; with a node selected, to what it reads or what reads it"],
      ["Enter", "fold or unfold the selected group"],
      ["[ ]", "the layer before, the layer after"],
      ["Esc", "nothing selected"],
    ];
    const list = element("dl", "keys");
    for (const [key, what] of keys) list.append(element("dt", "", key), element("dd", "", what));
    return this.#section("Keys", list);
  }

  #link(model, read, type) {
    const row = element("div", "value");
    const node = model.nodes[read.node];
    const dot = element("i", "dot");
    dot.style.background = `var(--${node.color})`;
    const name = shortened(model.valueName(read) || node.title, 44);
    const link = button(name, () => this.go(model, node), "link");
    link.title = model.valueName(read);
    row.append(dot, link, element("span", "type", type ?? model.type(read)));
    if (node.kind === "op") row.append(element("span", "from", node.title));
    return row;
  }

  node(model, node, extra = []) {
    const head = element("header");
    const title = element("h2", "", node.title);
    const badge = element("span", "badge", node.op ? model.classes[node.op.class].label : node.kind);
    badge.style.setProperty("--tint", `var(--${node.color})`);
    title.append(" ", badge);
    head.append(this.#crumbs(model, model.around(node.id)) ?? "", title);
    if (node.op) head.append(documented(node.op.doc));
    this.show(
      head,
      ...extra,
      this.#section("Remarks", this.#remarks(node)),
      this.#section("Attributes", this.#rows(node.attributes.map((text, at) => [node.op.fields[at], element("code", "", text)]))),
      this.#section("Reads", this.#operands(model, node)),
      this.#section(node.kind === "op" ? "Gives" : "Value", this.#results(model, node)),
      this.#section("More", this.#more(node)),
      this.#section("Source", this.#source(model, node)),
    );
  }

  #operands(model, node) {
    const forms = node.op?.operands.split("|").map((form) => form.trim().split(/\s+/)) ?? [];
    const form = forms.find((names) => names.length === node.reads.length) ?? forms[0] ?? [];
    return node.reads.map((read, at) => {
      if (!read) return null;
      const row = this.#link(model, read);
      const name = form[at] ?? form[form.length - 1] ?? "";
      if (name) row.prepend(element("span", "role", name.replace(/[?*]$/, "")));
      return row;
    });
  }

  #results(model, node) {
    const count = Math.max(node.types.length, 1);
    return node.types.flatMap((type, port) => {
      const row = element("div", "value");
      const role = node.op?.results.split(/\s+/)[port];
      if (count > 1 && role) row.append(element("span", "role", role.replace("*", "")));
      row.append(element("b", "", node.kind === "op" ? shortened(node.labels[port] ?? "", 44) : node.title), element("span", "type", type));
      const readers = model.readers[node.id].filter((r) => r.port === port);
      const shown = readers.slice(0, 24).map((reader) => {
        const to = model.nodes[reader.node];
        const line = element("div", "value reader");
        const dot = element("i", "dot");
        dot.style.background = `var(--${to.color})`;
        const link = button(to.title, () => this.go(model, to), "link");
        line.append(element("span", "arrow", "→"), dot, link, element("span", "from", shortened(to.labels[0] ?? "", 36)));
        return line;
      });
      if (readers.length > shown.length) shown.push(element("div", "reader", `and ${readers.length - shown.length} more readers`));
      if (!readers.length && node.kind !== "output") shown.push(element("div", "value reader", "no reader"));
      return [row, ...shown];
    });
  }

  #remarks(node) {
    return node.remarks.map(([pass, applied, text]) => {
      const row = element("div", applied ? "remark applied" : "remark missed");
      row.append(element("b", "", applied ? "applied" : "missed"), element("code", "", pass), element("span", "", text));
      return row;
    });
  }

  #more(node) {
    const rows = [];
    if (node.op?.effect) rows.push(["effect", node.op.effect]);
    if (node.hint) rows.push(["wished device", node.hint]);
    return this.#rows(rows);
  }

  /** The lines of the program around the place where the node was written. */
  #source(model, node) {
    if (!node.span || !model.source) return null;
    const [line, column] = node.span;
    model.lines ??= model.source.text.split("\n");
    const pre = element("pre", "source");
    pre.setAttribute("aria-label", `${model.source.name}, line ${line}`);
    model.lines.forEach((text, at) => {
      const row = element("span", at + 1 === line ? "line here" : "line");
      row.append(element("i", "", String(at + 1)));
      if (at + 1 === line && column > 0) {
        const chars = [...text];
        row.append(chars.slice(0, column - 1).join(""), element("mark", "", chars.slice(column - 1).join("") || " "));
      } else row.append(text);
      row.append("\n");
      pre.append(row);
    });
    soon(() => {
      const here = pre.querySelector(".here");
      if (here) pre.scrollTop = here.offsetTop - pre.clientHeight / 2;
    });
    return [element("p", "doc", `${model.source.name}:${line}:${column}`), pre];
  }

  group(model, group, fold, extra = []) {
    const head = element("header");
    head.append(this.#crumbs(model, model.path(group).slice(0, -1)) ?? "", element("h2", "", group.label));
    const size = group.to - group.from;
    const what = {
      stack: `${group.members?.length} layers with the same operations, wired in the same way`,
      layer: "one layer",
      module: "a module, by the names of its weights",
      part: "a part of a long list",
    };
    head.append(element("p", "doc", what[group.kind]));
    const acts = element("div", "acts");
    const open = fold.isOpen(group);
    acts.append(button(open ? "fold" : "unfold", () => this.unfold(model, group, !open)));
    if (group.kind === "stack") {
      if (fold.open.get(group.id) !== "all") acts.append(button("every layer", () => this.unfold(model, group, "all")));
      if (open && !fold.isOne(group)) acts.append(button("one for all", () => this.unfold(model, group, "one")));
    }
    const counts = new Map();
    let weights = 0;
    for (let p = group.from; p < group.to; p++) {
      const node = model.nodes[p];
      counts.set(node, 1);
      weights += model.weights(node).length;
    }
    const byName = new Map();
    for (const node of counts.keys()) byName.set(node.title, { n: (byName.get(node.title)?.n ?? 0) + 1, color: node.color });
    const rows = [...byName].sort((a, b) => b[1].n - a[1].n).map(([name, { n, color }]) => {
      const row = element("div", "value");
      const dot = element("i", "dot");
      dot.style.background = `var(--${color})`;
      row.append(dot, element("b", "", name), element("span", "type", `×${n}`));
      return row;
    });
    const alike = model.groups.filter((g) => g !== group && g.kind === "layer" && group.kind === "layer" && g.look === group.look);
    const same = alike.slice(0, 40).map((g) => button(g.label, () => this.goGroup(model, g), "link chip"));
    this.show(
      head,
      acts,
      ...extra,
      this.#section("Holds", element("p", "doc", `${size} operations, ${weights} weights`), rows),
      this.#section(`The same as ${alike.length} other layers`, same),
      this.#section("Groups inside", group.kind === "stack" ? [] : group.children.map((g) => button(g.label, () => this.goGroup(model, g), "link chip"))),
    );
  }
}
