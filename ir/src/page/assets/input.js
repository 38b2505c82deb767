"use strict";

/*
 * Mouse, fingers and wheel on the canvas of a view, and on its small map.
 */

class Input {
  constructor(view) {
    this.view = view;
    this.#listen();
  }

  #point(event) {
    const box = this.view.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  #listen() {
    const { canvas } = this.view;
    const fingers = new Map();
    let moved = 0;
    let spread = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, this.#point(event));
      moved = 0;
      spread = this.#spread(fingers);
      this.view.gliding = null;
      this.#touch();
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = this.#point(event);
      const before = fingers.get(event.pointerId);
      if (!before) return this.#hover(now, event);
      fingers.set(event.pointerId, now);
      moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
      if (fingers.size === 1) {
        if (moved > 3) {
          canvas.classList.add("dragging");
          this.view.pan(before.x - now.x, before.y - now.y);
        }
        return;
      }
      const wide = this.#spread(fingers);
      const [a, b] = [...fingers.values()];
      if (spread > 0 && wide > 0) this.view.zoom(wide / spread, { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 }, false);
      spread = wide;
    });
    const up = (event) => {
      const single = fingers.size === 1;
      fingers.delete(event.pointerId);
      canvas.classList.remove("dragging");
      if (event.type === "pointerup" && single && moved <= 3) this.#click(this.#point(event));
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => this.#hover(null));
    canvas.addEventListener("dblclick", (event) => {
      const found = this.view.at(this.#point(event));
      if (found?.box.group && found.part === "body") this.view.toggle(found.box.group);
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.#touch();
        const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
        // A pinch on a touch pad arrives as a wheel with the control key.
        if (event.shiftKey) return this.view.pan((event.deltaX || event.deltaY) * unit, 0);
        const speed = event.ctrlKey ? 0.01 : 0.0016;
        const by = Math.max(-120, Math.min(120, event.deltaY * unit));
        this.view.zoom(Math.exp(-by * speed), this.#point(event), false);
      },
      { passive: false },
    );
    const jump = (event) => {
      if (event.buttons !== 1 || !this.view.mapFrame) return;
      const box = this.view.map.getBoundingClientRect();
      const { s, left, top } = this.view.mapFrame;
      const [x, y] = [(event.clientX - box.left - left) / s, (event.clientY - box.top - top) / s];
      this.#touch();
      this.view.go({ x: x - this.view.w / 2 / this.view.scale, y: y - this.view.h / 2 / this.view.scale }, false);
    };
    this.view.map.addEventListener("pointerdown", jump);
    this.view.map.addEventListener("pointermove", jump);
  }

  #touch() {
    this.view.touched = true;
    this.view.dispatchEvent(new Event("touched"));
  }

  #spread(fingers) {
    if (fingers.size < 2) return 0;
    const [a, b] = [...fingers.values()];
    return Math.hypot(a.x - b.x, a.y - b.y);
  }

  #hover(point, event) {
    const found = point && this.view.at(point);
    const box = found?.box ?? null;
    this.view.canvas.style.cursor = !box || (box.kind === "container" && found.part === "body") ? "" : "pointer";
    const plain = box?.kind === "container" ? null : box;
    if (plain !== this.view.hovered) {
      this.view.hovered = plain;
      this.view.draw();
    }
    this.view.dispatchEvent(new CustomEvent("hover", { detail: plain && { box: plain, x: event.clientX, y: event.clientY } }));
  }

  #click(point) {
    const found = this.view.at(point);
    if (!found) return this.view.select(null);
    const { box, part } = found;
    if (part === "toggle") return this.view.toggle(box.group);
    if (part === "next") return this.view.step(box.group, 1);
    if (part === "previous") return this.view.step(box.group, -1);
    this.view.select(box);
  }
}
