"use strict";

/*
 * Starts the page: the bar above, the legend, keys, links.
 */

const started = performance.now();
const page = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

/** Dark or light, by the system or by the button. */
const theme = {
  dark: () => document.documentElement.dataset.theme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches),
  toggle() {
    document.documentElement.dataset.theme = theme.dark() ? "light" : "dark";
  },
};

function start() {
  const models = page.graphs.map((data) => new Model(data));
  const holders = [...document.querySelectorAll(".view")];
  holders.slice(models.length).forEach((holder) => holder.remove());
  const views = models.map((model, at) => new GraphView(holders[at], model));
  byId("title").textContent = page.title ?? models[0].title;
  byId("subtitle").textContent = [...new Set(models.map((m) => m.subtitle))].filter(Boolean).join(" ↔ ");
  const app = { models, views, active: views[0] };
  const panel = new Panel(byId("panel"), {
    go: (model, node) => viewOf(model).selectNode(node),
    goGroup: (model, group) => viewOf(model).selectGroup(group),
    find: (text) => app.search.ask(text),
    unfold: (model, group, how) => {
      const view = viewOf(model);
      view.refold(group, () => view.fold.setOpen(group, how));
      view.selectGroup(group, { centre: false });
    },
  });
  const difference = page.diff ? new Difference(page.diff, models) : null;
  const differences = difference && new DifferencePanel(difference, panel, views);
  Object.assign(app, { difference, differences });
  if (difference) {
    document.body.classList.add("is-diff");
    views.forEach((view, side) => {
      view.tint = (node) => difference.tint(side, node);
      view.tintGroup = (group) => difference.tintGroup(side, group);
      view.holder.querySelector(".side").textContent = models[side].title;
    });
    difference.unfold(views);
  }
  const viewOf = (model) => views[models.indexOf(model)];

  const live = byId("live");
  const tell = (view, box) => {
    app.active = view;
    const { model } = view;
    const side = views.indexOf(view);
    if (differences && box?.node) differences.follow(side, box.node.id);
    if (!box) {
      if (differences) differences.list();
      else panel.graph(model);
      live.textContent = "nothing selected";
    } else if (box.node) {
      panel.node(model, box.node, differences ? differences.extra(side, box.node) : []);
      live.textContent = `${box.node.title} ${box.node.labels[0] ?? ""} ${box.node.types[0] ?? ""}`;
      link(model, box.node);
    } else {
      panel.group(model, box.group, view.fold);
      live.textContent = `${box.group.label}, ${view.fold.isOpen(box.group) ? "unfolded" : "folded"}`;
    }
    document.body.classList.toggle("has-selection", Boolean(box));
  };
  const link = (model, node) => {
    const name = model.linkName(node);
    if (name) history.replaceState(null, "", `#node=${encodeURIComponent(name)}`);
  };

  const indexes = models.map((model, side) => new SearchIndex(model, side, (node) => !side || difference?.state[1].get(node.id) === "added"));
  const search = new Search(indexes, {
    show: (hit) => (hit.node ? views[hit.side].selectNode(hit.node) : views[hit.side].selectGroup(hit.group)),
    mark: (hits) =>
      views.forEach((view, side) => {
        const own = hits.filter((h) => h.side === side);
        view.hits = own.length ? new Set(own.map((h) => (h.node ? h.node.id : `g${h.group.id}`))) : null;
        view.mapImage = null;
        view.draw();
      }),
  });
  app.search = search;

  for (const view of views) {
    view.addEventListener("select", (event) => tell(view, event.detail));
    view.addEventListener("hover", (event) => tip(view, event.detail));
    view.addEventListener("touched", () => {
      search.close();
      tip(view, null);
      app.active = view;
    });
  }
  legend(models, views);
  bar(app, panel);
  keys(app);
  tell(views[0], null);
  for (const view of views) view.peers = views;
  views.forEach((view) => view.home(false));

  const follow = (glide) => {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (differences && asked.has("difference")) return differences.show(Number(asked.get("difference")) - 1);
    const name = asked.get("node");
    if (name === null) return;
    const id = models[0].find(visible(name)) ?? models[0].find(visible(`%${name}`));
    if (id !== undefined) views[0].selectNode(models[0].nodes[id], { glide });
    else live.textContent = `there is no node ${name}`;
  };
  window.addEventListener("hashchange", () => follow(true));
  follow(false);
  requestAnimationFrame(() => requestAnimationFrame(() => (app.firstPaint = performance.now())));
  app.started = started;
  return app;
}

/** What is under the pointer, in a few lines. */
function tip(view, detail) {
  const out = byId("tip");
  out.hidden = !detail;
  if (!detail) return;
  const { box, x, y } = detail;
  const lines = box.node
    ? [box.node.title, ...box.node.labels.map((label, port) => `${label}: ${box.node.types[port] ?? ""}`), ...view.model.weights(box.node).map((w) => `${w.title}: ${w.types[0]}`)]
    : [box.group.label, box.detail, "double click unfolds"];
  if (box.node && box.node.kind !== "op") lines.push(box.node.types[0] ?? "");
  out.replaceChildren(...lines.filter(Boolean).map((line, at) => element("div", at ? "" : "first", shortened(line, 90))));
  const [w, h] = [out.offsetWidth, out.offsetHeight];
  out.style.left = `${Math.min(x + 14, innerWidth - w - 8)}px`;
  out.style.top = `${y + 18 + h > innerHeight ? y - h - 10 : y + 18}px`;
}

/** The colours that occur, each a button that shows its kind alone. */
function legend(models, views) {
  const used = new Set(models.flatMap((m) => m.nodes.map((n) => n.color)));
  const root = byId("legend");
  const entries = [...models[0].classes.filter((c) => used.has(c.key)), { key: "input", label: "input" }, { key: "output", label: "output" }];
  for (const { key, label } of entries) {
    const entry = button("", () => {
      const on = views[0].onlyClass === key ? null : key;
      views.forEach((view) => {
        view.onlyClass = on;
        view.draw();
      });
      for (const other of root.children) other.setAttribute("aria-pressed", String(other === entry && on !== null));
    });
    entry.setAttribute("aria-pressed", "false");
    const dot = element("i", "dot");
    dot.style.background = `var(--${key})`;
    entry.append(dot, label);
    root.append(entry);
  }
}

function bar(app, panel) {
  const each = (act) => () => app.views.forEach(act);
  const acts = {
    "fold-all": each((v) => v.all("close")),
    "unfold-all": each((v) => v.all("open")),
    "unfold-each": each((v) => v.all("each")),
    "zoom-out": () => app.active.zoom(1 / 1.4),
    "zoom-in": () => app.active.zoom(1.4),
    fit: each((v) => v.fit()),
    theme: () => {
      theme.toggle();
      app.views.forEach((v) => v.retheme());
    },
    "panel-toggle": () => document.body.classList.toggle("no-panel"),
  };
  for (const [id, act] of Object.entries(acts)) byId(id).addEventListener("click", act);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => app.views.forEach((v) => v.retheme()));
}

function keys(app) {
  /** From a selected node along an edge: up to what it reads, down to what reads it, sideways among those. */
  const walk = (key) => {
    const view = app.active;
    const { model, selected } = view;
    const node = selected?.node;
    if (!node) return false;
    const reads = node.reads.filter((r) => r && model.nodes[r.node].kind !== "weight");
    const readers = model.readers[node.id];
    const near = key === "ArrowUp" ? reads.map((r) => r.node) : key === "ArrowDown" ? readers.map((r) => r.node) : null;
    if (near) {
      if (near.length) view.selectNode(model.nodes[near[0]]);
      return true;
    }
    const before = reads[0] ? model.readers[reads[0].node].map((r) => r.node) : [];
    const at = before.indexOf(node.id);
    if (before.length > 1) view.selectNode(model.nodes[before[(at + (key === "ArrowRight" ? 1 : before.length - 1)) % before.length]]);
    return true;
  };
  const steps = { ArrowUp: [0, -80], ArrowDown: [0, 80], ArrowLeft: [-80, 0], ArrowRight: [80, 0] };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest?.("input, textarea");
    const view = app.active;
    if (event.key === "Escape") {
      if (app.search.field.value) app.search.clear();
      else view.select(null);
    } else if (typing) return;
    else if (event.key === "/") {
      app.search.field.focus();
      app.search.field.select();
    } else if (event.key === "+" || event.key === "=") view.zoom(1.3);
    else if (event.key === "-") view.zoom(1 / 1.3);
    else if (event.key === "0") view.fit();
    else if (steps[event.key]) {
      if (event.shiftKey || !walk(event.key)) view.pan(...steps[event.key], true);
    } else if (app.differences && (event.key === "n" || event.key === "p")) app.differences.step(event.key === "n" ? 1 : -1);
    else if (event.key === "[" || event.key === "]") {
      const groups = view.selected?.node ? view.model.around(view.selected.node.id) : view.selected ? [view.selected.group] : [];
      const stack = groups.find((g) => g.kind === "stack" && view.fold.isOne(g)) ?? view.model.groups.find((g) => g.kind === "stack" && view.fold.isOne(g));
      if (stack) view.step(stack, event.key === "]" ? 1 : -1);
    } else if (event.key === "Enter" && view.selected?.group && !event.target.closest?.("button")) view.toggle(view.selected.group);
    else return;
    event.preventDefault();
  });
}

/** For scripts that try the page: the views, their scenes, the search. */
window.tallow = start();
