"use strict";

/*
 * The layout of one group by dagre, with the ports at its border, and what it needs: sizes of texts.
 */

const HEADER = 26;
const PAD = 18;
/** The height that the name of a value takes above an open group. */
const TAG_ROOM = 26;
const FONT = '"Inter", "Segoe UI", system-ui, -apple-system, "Helvetica Neue", "DejaVu Sans", sans-serif';

const measure = (() => {
  const context = document.createElement("canvas").getContext("2d");
  const known = new Map();
  return (text, font) => {
    const key = font + "\n" + text;
    let width = known.get(key);
    if (width === undefined) {
      context.font = font;
      width = context.measureText(text).width;
      known.set(key, width);
    }
    return width;
  };
})();

const TITLE_FONT = `600 13px ${FONT}`;
const NAME_FONT = `12px ${FONT}`;
const SMALL_FONT = `11px ${FONT}`;
const LABEL_FONT = `10px ${FONT}`;

function headerText(container) {
  const { group } = container;
  return group.kind === "stack" ? `${group.label}  ×${group.members.length}` : group.label;
}

/** A box as dagre sees it: with the room that the names of tagged values take beside or above it. */
function outline(box, tags) {
  if (!tags.length) return { width: box.w, height: box.h, tags };
  if (box.kind === "container") return { width: box.w, height: box.h + 2 * TAG_ROOM, tags };
  const width = Math.max(...tags.map((tag) => tag.w));
  return { width: box.w + 2 * (width + 18), height: Math.max(box.h, tags.length * 20), tags };
}

/** The layout of one container by dagre, with its ports; coordinates begin at its corner. */
function arrange(container, edges) {
  const g = new dagre.graphlib.Graph({ multigraph: true });
  const many = container.children.length > 160;
  g.setGraph({ rankdir: "TB", nodesep: 24, ranksep: 28, edgesep: 14, ranker: many ? "tight-tree" : "network-simplex" });
  const tags = container.children.map(() => []);
  for (const edge of edges) if (edge.tag) tags[edge.to.at].push((edge.room = { w: Math.ceil(measure(edge.text, LABEL_FONT)) + 14, h: 16 }));
  container.children.forEach((child, at) => g.setNode(`n${at}`, outline(child, tags[at])));
  const border = (side, name) => {
    const ports = container[side];
    if (!ports.size) return;
    // One node above all ports, or below, pulls them to the border.
    g.setNode(name, { width: 1, height: 1 });
    for (const { at } of ports.values()) {
      g.setNode(`${name}${at}`, { width: 8, height: 1 });
      const [from, to] = side === "ins" ? [name, `${name}${at}`] : [`${name}${at}`, name];
      g.setEdge(from, to, { weight: 12, minlen: 1, width: 0, height: 0, labelpos: "c" }, "border");
    }
  };
  border("ins", "i");
  border("outs", "o");
  const ends = (edge) => [
    edge.from ? `n${edge.from.at}` : `i${container.ins.get(edge.key).at}`,
    edge.to ? `n${edge.to.at}` : `o${container.outs.get(edge.key).at}`,
  ];
  const straight = new Set();
  edges.forEach((edge, at) => {
    if (edge.tag) return;
    const [from, to] = ends(edge);
    const width = edge.label ? Math.ceil(measure(edge.label, LABEL_FONT)) + 8 : 0;
    // What comes first after a value stands below it; later readers are reached in a bow.
    const first = !straight.has(from);
    straight.add(from);
    g.setEdge(from, to, { weight: first ? 6 : 1, minlen: 1, width, height: edge.label ? 14 : 0, labelpos: "c" }, `e${at}`);
  });
  dagre.layout(g);

  const spots = container.children.map((_, at) => g.node(`n${at}`));
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y, width, height } of spots) {
    [left, right] = [Math.min(left, x - width / 2), Math.max(right, x + width / 2)];
    [top, bottom] = [Math.min(top, y - height / 2), Math.max(bottom, y + height / 2)];
  }
  for (const e of g.edges()) {
    if (e.name === "border") continue;
    const { points, x, width } = g.edge(e);
    for (const p of points) [left, right] = [Math.min(left, p.x), Math.max(right, p.x)];
    if (width) [left, right] = [Math.min(left, x - width / 2), Math.max(right, x + width / 2)];
  }
  if (!spots.length) [left, top, right, bottom] = [0, 0, 60, 0];
  const [padX, padTop, padBottom] = container.group ? [PAD, HEADER + 14, container.outs.size ? 24 : PAD] : [40, 40, 40];
  const move = (p) => ({ x: p.x - left + padX, y: p.y - top + padTop });
  const size = { w: right - left + 2 * padX, h: bottom - top + padTop + padBottom };
  const ports = (side, name) => [...container[side].values()].map(({ at }) => move(g.node(`${name}${at}`)).x);
  const [ins, outs] = [ports("ins", "i"), ports("outs", "o")];
  const middle = spots.map(move);

  // How far each row of boxes reaches up and down from its middle: through a row, edges go straight.
  const rows = new Map();
  spots.forEach(({ y, height }) => {
    const row = Math.round(y - top + padTop);
    rows.set(row, Math.max(rows.get(row) ?? 0, height / 2));
  });
  const through = (p) => {
    const reach = rows.get(Math.round(p.y)) ?? 0;
    return reach > 30 ? [{ x: p.x, y: p.y - reach }, { x: p.x, y: p.y + reach }] : [p];
  };
  const path = (edge, at) => {
    if (edge.tag) return tagged(edge);
    const [from, to] = ends(edge);
    const laid = g.edge(from, to, `e${at}`);
    const points = laid.points.map(move);
    const [first, last] = [points[0], points[points.length - 1]];
    const [a, b] = [g.node(from), g.node(to)];
    const down = a.y < b.y;
    // Downward arrows leave at the bottom and arrive at the top; what lies behind the border is cut off.
    const inset = (box, spot, x) => Math.min(Math.max(x, spot.x - box.w / 2 + 12), spot.x + box.w / 2 - 12);
    if (edge.from && down) Object.assign(first, { x: inset(edge.from, middle[edge.from.at], first.x), y: middle[edge.from.at].y + edge.from.h / 2 });
    if (edge.to && down) Object.assign(last, { x: inset(edge.to, middle[edge.to.at], last.x), y: middle[edge.to.at].y - edge.to.h / 2 });
    // At open groups they meet the ports.
    const port = (box, side) => middle[box.at].x - box.w / 2 + box.extra + box.layout[side][box[side].get(edge.key).at];
    if (edge.from?.kind === "container") first.x = port(edge.from, "outs");
    if (edge.to?.kind === "container") last.x = port(edge.to, "ins");
    let inner = points.slice(1, -1).flatMap(through);
    // Out of a row and into one, past taller boxes beside.
    const [out, into] = [move(a), move(b)];
    if (edge.from) inner.unshift({ x: first.x, y: out.y + (rows.get(Math.round(out.y)) ?? 0) });
    else inner.unshift({ x: out.x, y: out.y + (rows.get(Math.round(out.y)) ?? 0) });
    if (edge.to) inner.push({ x: last.x, y: into.y - (rows.get(Math.round(into.y)) ?? 0) });
    else inner.push({ x: into.x, y: into.y - (rows.get(Math.round(into.y)) ?? 0) });
    if (!edge.from) Object.assign(first, { x: ins[container.ins.get(edge.key).at], y: 0 });
    if (!edge.to) Object.assign(last, { x: outs[container.outs.get(edge.key).at], y: size.h });
    inner = inner.filter((p, n) => !down || (p.y > first.y + 12 && p.y < last.y - 12) || (n > 0 && n < inner.length - 1 && p.y > first.y + 4 && p.y < last.y - 4));
    // Between neighbouring ranks nothing is in the way.
    if (last.y - first.y < 90 && inner.length <= 1) inner = [];
    const label = inner.length ? move({ x: laid.x ?? 0, y: laid.y ?? 0 }) : { x: (first.x + last.x) / 2, y: (first.y + last.y) / 2 };
    return { points: [first, ...inner, last], ...label };
  };
  const placed = tags.map(() => 0);
  const tagged = (edge) => {
    const [box, spot] = [edge.to, middle[edge.to.at]];
    const all = tags[edge.to.at];
    const nth = placed[edge.to.at]++;
    const { w, h } = edge.room;
    if (box.kind === "container") {
      const x = spot.x - box.w / 2 + box.extra + box.layout.ins[box.ins.get(edge.key).at];
      const y = spot.y - box.h / 2;
      return { points: [{ x, y: y - TAG_ROOM + 8 }, { x, y }], tag: { x, y: y - TAG_ROOM + 8, w, h }, x, y };
    }
    const y = spot.y + (nth - (all.length - 1) / 2) * 20;
    const edgeX = spot.x - box.w / 2;
    return { points: [{ x: edgeX - 14, y }, { x: edgeX, y }], tag: { x: edgeX - 14 - w / 2, y, w, h }, x: edgeX, y };
  };
  return { ...size, spots: middle, ins, outs, paths: edges.map(path) };
}
