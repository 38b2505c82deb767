"use strict";

/*
 * What is folded. A group is closed or open. A stack of equal layers is closed, or open as one layer that
 * stands for all (with a member that is shown), or open as all of its layers.
 */

/** How many boxes the first picture may have for layers to open in it, and for modules. */
const FIRST_BUDGET = { layer: 26, module: 18 };

class Fold {
  constructor(model) {
    this.model = model;
    /** Open groups; of stacks `"one"` or `"all"`, of others `true`. */
    this.open = new Map();
    /** The member that an open stack shows, by stack. */
    this.member = new Map();
    this.#first();
  }

  isOpen(group) {
    return this.open.has(group.id);
  }

  /** Whether a stack shows one layer for all. */
  isOne(group) {
    return this.open.get(group.id) === "one";
  }

  /** The layer that a stack shows. */
  shown(stack) {
    return stack.members[this.member.get(stack.id) ?? 0];
  }

  setOpen(group, open) {
    if (!open) this.open.delete(group.id);
    else this.open.set(group.id, group.kind === "stack" ? (open === true ? "one" : open) : true);
  }

  toggle(group) {
    this.setOpen(group, !this.isOpen(group));
  }

  step(stack, by) {
    const n = stack.members.length;
    this.member.set(stack.id, ((this.member.get(stack.id) ?? 0) + by + n) % n);
    this.#carry(stack);
  }

  /** What is open in one layer of a stack is open in the one that is shown next. */
  #carry(stack) {
    const member = this.shown(stack);
    const open = new Set();
    for (const id of this.open.keys()) {
      const group = this.model.groups[id];
      if (group.from >= stack.from && group.to <= stack.to && group !== stack) {
        const at = (group.from - stack.from) % (member.to - member.from);
        open.add(`${at}:${group.to - group.from}:${group.kind}`);
      }
    }
    const todo = [...member.children];
    while (todo.length) {
      const group = todo.pop();
      if (open.has(`${group.from - member.from}:${group.to - group.from}:${group.kind}`)) this.setOpen(group, true);
      todo.push(...group.children);
    }
  }

  /** Opens every group around a node, so that it shows; stacks turn to its layer. */
  reveal(groups) {
    let changed = false;
    for (const group of groups) {
      if (!this.isOpen(group) && group.kind !== "layer") {
        this.setOpen(group, true);
        changed = true;
      }
      if (group.kind === "layer") {
        const stack = groups.find((g) => g.kind === "stack" && g.members.includes(group));
        if (stack && this.isOne(stack)) {
          const at = stack.members.indexOf(group);
          if (at !== (this.member.get(stack.id) ?? 0)) {
            this.member.set(stack.id, at);
            this.#carry(stack);
            changed = true;
          }
        } else if (!this.isOpen(group)) {
          this.setOpen(group, true);
          changed = true;
        }
      }
    }
    return changed;
  }

  closeAll() {
    this.open.clear();
  }

  /** In how many groups an open one stands at most; a stack and a layer of it count as one. */
  depth() {
    return Math.max(0, ...[...this.open.keys()].map((id) => this.#depthOf(id)));
  }

  /** Closes the open groups that stand in so many others, and whether there were any. */
  closeFrom(depth) {
    const deep = [...this.open.keys()].filter((id) => this.#depthOf(id) >= depth);
    for (const id of deep) this.open.delete(id);
    return deep.length > 0;
  }

  #depthOf(id) {
    return this.model.path(this.model.groups[id]).filter((g) => g.kind !== "stack").length - 1;
  }

  /** Everything open, stacks as one layer each. */
  openAll() {
    for (const group of this.model.groups) this.setOpen(group, true);
  }

  /** Everything open, and every layer by itself. */
  openEach() {
    for (const group of this.model.groups) this.setOpen(group, group.kind === "stack" ? "all" : true);
  }

  /** How many boxes a group shows in itself once open. */
  #size(group) {
    const body = group.kind === "stack" ? group.members[0] : group;
    const hidden = body.children.reduce((n, child) => n + (child.to - child.from) - 1, 0);
    return body.to - body.from - hidden;
  }

  /**
   * The first picture: groups open level by level while it stays readable. Of groups that look the same
   * only the first one opens, as the others have nothing more to tell.
   */
  #first() {
    const model = this.model;
    let shown = model.operations + model.top.reduce((n, g) => n - (g.to - g.from) + 1, 0);
    const looks = new Set();
    let level = [model.top];
    while (level.length) {
      const next = [];
      for (const siblings of level) {
        const all = siblings.reduce((n, group) => n + this.#size(group) - 1, 0);
        for (const group of siblings) {
          const body = group.kind === "stack" ? group.members[0] : group;
          const layer = body.kind === "layer";
          // Modules open together or not at all.
          const more = layer ? this.#size(group) - 1 : all;
          if (shown + more > FIRST_BUDGET[layer ? "layer" : "module"] || (layer && looks.has(body.look))) continue;
          if (layer) looks.add(body.look);
          this.setOpen(group, true);
          next.push(body.children);
        }
        shown += siblings.reduce((n, group) => n + (this.isOpen(group) ? this.#size(group) - 1 : 0), 0);
      }
      level = next.filter((siblings) => siblings.length);
    }
  }
}
