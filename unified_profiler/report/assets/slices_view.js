'use strict';
/* The canvas on which slices are looked at: zoom, pan, choose, by mouse, touch and keyboard. Timeline and call tree share it. */
(up => {
  const SMALLEST = 20;          // nanoseconds that fill the canvas at the deepest zoom
  const STILL = 4;              // pixels a pointer may move within a click
  const GESTURE = 250;          // milliseconds after which turning the wheel is a new gesture

  class SlicesView {
    /**
     * @param {HTMLCanvasElement} canvas  in a .slices-window
     * @param {string[]} categories  names by index
     * @param {object} on  describe(slices, slice) -> [name, ...[label, value]] for the tooltip; choose(slice), -1 for none;
     *   activate(slice, byKeyboard) on a click or Enter; look(from, to) when another part is in view
     */
    constructor(canvas, categories, on) {
      Object.assign(this, {canvas, on, window: canvas.parentElement, slices: null, flags: null, selected: -1, hovered: -1});
      this.painter = new up.SlicesPainter(canvas, categories);
      this.space = up.element('div', {class: 'slices-space'});
      this.tooltip = up.element('div', {class: 'tooltip', hidden: true, 'aria-hidden': 'true'});
      this.window.append(this.space);
      this.window.after(this.tooltip);
      this.pointers = new Map();
      this.listen();
    }

    /** Show other slices, all of them. */
    setSlices(slices) {
      Object.assign(this, {slices, from: 0, to: slices.source.duration || 1, selected: -1, hovered: -1, described: -1});
      this.on.look?.(this.from, this.to);
      this.painter.layOut(slices);
      this.window.scrollTop = 0;
      this.resize();
    }

    setSearch(text) {
      this.flags = this.slices?.matching(text) ?? null;
      this.draw();
    }

    /** Draw again in the colors and language of now. */
    refresh() {
      this.described = -1;
      this.painter.recolor();
      if (this.slices) this.draw();
    }

    resize() {
      if (!this.slices) return;
      const most = Math.max(240, Math.min(innerHeight * 0.72, 680));
      this.height = Math.min(Math.max(this.painter.contentHeight, 90), most);
      this.window.style.height = `${this.height}px`;
      this.space.style.height = `${Math.max(0, this.painter.contentHeight - this.height)}px`;
      this.width = this.window.clientWidth;
      this.canvas.style.height = `${this.height}px`;
      this.canvas.width = Math.round(this.width * devicePixelRatio);
      this.canvas.height = Math.round(this.height * devicePixelRatio);
      this.paint();
    }

    /** Draw at the next frame, however often it is asked for. */
    draw() { this.frame ??= requestAnimationFrame(() => this.paint()); }

    paint() {
      cancelAnimationFrame(this.frame);
      this.frame = null;
      if (!this.slices || !this.width) return;
      const view = {from: this.from, to: this.to, top: this.window.scrollTop, width: this.width, height: this.height};
      this.painter.draw(view, this);
    }

    /* --- what is in view --- */

    look(from, to) {
      const whole = this.slices.source.duration || 1;
      const span = Math.min(whole, Math.max(to - from, SMALLEST));
      this.from = Math.min(Math.max(0, from), whole - span);
      this.to = this.from + span;
      this.on.look?.(this.from, this.to);
      this.draw();
    }

    /** Move there within a moment, so that the eye can follow. */
    glide(from, to) {
      cancelAnimationFrame(this.gliding);
      if (matchMedia('(prefers-reduced-motion: reduce)').matches) return this.look(from, to);
      const begin = {from: this.from, to: this.to, time: performance.now()};
      const move = now => {
        const part = Math.min(1, Math.max(0, (now - begin.time) / 180));
        const eased = 1 - (1 - part) ** 3;
        this.look(begin.from + (from - begin.from) * eased, begin.to + (to - begin.to) * eased);
        if (part < 1) this.gliding = requestAnimationFrame(move);
      };
      this.gliding = requestAnimationFrame(move);
    }

    zoom(factor, x = this.width / 2) {
      const time = this.timeAt(x);
      const span = Math.min(Math.max((this.to - this.from) * factor, SMALLEST), this.slices.source.duration || 1);
      const before = (time - this.from) / (this.to - this.from) * span;
      this.look(time - before, time - before + span);
    }

    pan(pixels) {
      const time = pixels * (this.to - this.from) / this.width;
      this.look(this.from + time, this.to + time);
    }

    reset() { this.glide(0, this.slices.source.duration || 1); }
    zoomTo(slice) { this.glide(this.slices.start[slice], Math.max(this.slices.end[slice], this.slices.start[slice] + 1)); }
    isWhole() { return this.to - this.from >= (this.slices.source.duration || 1) * 0.9999; }
    timeAt(x) { return this.from + x * (this.to - this.from) / this.width; }

    sliceAt({offsetX, offsetY}) {
      const lane = offsetY < up.AXIS_HEIGHT ? null : this.painter.laneAt(offsetY + this.window.scrollTop);
      return lane ? this.slices.at(lane, this.timeAt(offsetX), 1.5 * (this.to - this.from) / this.width) : -1;
    }

    /** Choose a slice and bring it into view. */
    choose(slice) {
      this.selected = slice;
      if (slice >= 0) this.reveal(slice);
      this.on.choose(slice);
      this.draw();
    }

    reveal(slice) {
      const {start, end} = this.slices;
      const span = this.to - this.from;
      if (end[slice] <= this.from || start[slice] >= this.to) this.look(start[slice] - span / 3, start[slice] + 2 * span / 3);
      const top = this.painter.tops.get(this.slices.laneOf(slice));
      const room = {first: this.window.scrollTop + up.AXIS_HEIGHT, last: this.window.scrollTop + this.height - 2 * up.LANE_HEIGHT};
      if (top < room.first) this.window.scrollTop = top - up.AXIS_HEIGHT - up.LANE_HEIGHT;
      if (top > room.last) this.window.scrollTop = top - this.height + 2 * up.LANE_HEIGHT;
    }

    /* --- the keyboard: WASD as in Perfetto, arrows from slice to slice --- */

    key(event) {
      if (!this.slices?.count || event.ctrlKey || event.metaKey || event.altKey) return;
      const action = {
        w: () => this.zoom(0.7), '+': () => this.zoom(0.7), '=': () => this.zoom(0.7),
        s: () => this.zoom(1 / 0.7), '-': () => this.zoom(1 / 0.7),
        a: () => this.pan(-this.width / 8), d: () => this.pan(this.width / 8),
        0: () => this.reset(), Home: () => this.reset(),
        f: () => this.selected >= 0 && this.zoomTo(this.selected),
        Enter: () => this.selected >= 0 && this.on.activate(this.selected, true),
        Escape: () => this.choose(-1),
        ArrowLeft: () => this.step(-1, 0), ArrowRight: () => this.step(1, 0),
        ArrowUp: () => this.step(0, -1), ArrowDown: () => this.step(0, 1),
      }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (action) { event.preventDefault(); action(); }
    }

    step(along, across) {
      if (this.selected < 0) return this.choose(this.firstInView());
      const {slices, selected} = this;
      const lane = slices.laneOf(selected);
      if (along) {
        const next = selected + along;
        if (next >= lane.first && next < lane.last) this.choose(next);
        return;
      }
      const beside = slices.lanes[slices.lanes.indexOf(lane) + across];
      if (beside) this.choose(this.nearest(beside, slices.start[selected]));
    }

    nearest(lane, time) { return Math.min(this.slices.firstEndingAfter(lane, time), lane.last - 1); }
    firstInView() { return this.nearest(this.slices.lanes[0], this.from); }

    /* --- mouse and touch --- */

    listen() {
      const {canvas} = this;
      canvas.addEventListener('keydown', event => this.key(event));
      canvas.addEventListener('pointerdown', event => this.press(event));
      canvas.addEventListener('pointermove', event => (this.pointers.size ? this.drag(event) : this.hover(event)));
      canvas.addEventListener('pointerup', event => this.release(event));
      canvas.addEventListener('pointercancel', event => this.pointers.delete(event.pointerId));
      canvas.addEventListener('pointerleave', () => this.hover(null));
      canvas.addEventListener('dblclick', () => this.slices && this.reset());
      canvas.addEventListener('wheel', event => this.wheel(event), {passive: false});
      this.window.addEventListener('scroll', () => this.draw(), {passive: true});
      addEventListener('wheel', event => { if (event.target !== canvas) this.turnedElsewhere = event.timeStamp; }, {passive: true});
      new ResizeObserver(() => { if (this.window.clientWidth !== this.width) this.resize(); }).observe(this.window);
    }

    press(event) {
      if (event.button || !this.slices) return;
      this.canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, {x: event.offsetX, y: event.offsetY});
      this.moved = this.pointers.size > 1 ? STILL : 0;
      this.hover(null);
    }

    /** One pointer pans, two pinch. */
    drag(event) {
      const last = this.pointers.get(event.pointerId);
      if (!last) return;
      const [dx, dy] = [event.offsetX - last.x, event.offsetY - last.y];
      const other = [...this.pointers.entries()].find(([id]) => id !== event.pointerId)?.[1];
      this.moved += Math.abs(dx) + Math.abs(dy);
      if (other) this.zoom(Math.max(8, Math.abs(last.x - other.x)) / Math.max(8, Math.abs(event.offsetX - other.x)), other.x);
      else if (this.moved >= STILL) { this.pan(-dx); if (event.pointerType === 'mouse') this.window.scrollTop -= dy; }
      this.pointers.set(event.pointerId, {x: event.offsetX, y: event.offsetY});
      this.canvas.classList.toggle('dragged', this.moved >= STILL);
    }

    release(event) {
      const pressed = this.pointers.delete(event.pointerId);
      this.canvas.classList.remove('dragged');
      if (!pressed || this.moved >= STILL) return;
      const slice = this.sliceAt(event);
      this.choose(slice);
      if (slice >= 0) this.on.activate(slice, false);
    }

    /** Zoom at the mouse. Who scrolls past, or cannot zoom out any further, goes on scrolling the page. */
    wheel(event) {
      if (!this.slices?.count) return;
      const passing = event.timeStamp - (this.turnedElsewhere ?? -Infinity) < GESTURE;
      if (passing && !event.ctrlKey) { this.turnedElsewhere = event.timeStamp; return; }
      if (event.deltaY > 0 && !event.shiftKey && this.isWhole() && !event.ctrlKey) return;
      event.preventDefault();
      const pixels = event.deltaMode ? 30 : 1;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan((event.deltaX || event.deltaY) * pixels);
      else this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * pixels / 400))), event.offsetX);
      this.hover(event);
    }

    hover(event) {
      const slice = event && this.slices ? this.sliceAt(event) : -1;
      this.tooltip.hidden = slice < 0;
      if (slice >= 0) this.showTooltip(slice, event);
      if (slice !== this.hovered) { this.hovered = slice; this.draw(); }
    }

    showTooltip(slice, {offsetX, offsetY}) {
      if (slice !== this.described) {
        this.described = slice;
        const [name, ...rows] = this.on.describe(this.slices, slice);
        const cells = rows.flatMap(([label, value]) => [up.element('dt', {}, label), up.element('dd', {}, value)]);
        this.tooltip.replaceChildren(up.element('bdi', {class: 'name'}, name), up.element('dl', {}, ...cells));
      }
      const {offsetWidth: width, offsetHeight: height} = this.tooltip;
      const left = Math.max(0, Math.min(offsetX + 14, this.width - width - 4));
      const below = offsetY + 20 + height < this.height || offsetY < height;
      this.tooltip.style.transform = `translate(${left}px, ${below ? offsetY + 20 : offsetY - height - 10}px)`;
    }
  }

  up.SlicesView = SlicesView;
})(window.unifiedProfilerReport ??= {});
