'use strict';
/* Draws slices on a canvas: one pass over what is in view, in which slices narrower than a pixel share it. */
(up => {
  const AXIS = 26, TRACK = 24, LANE = 19, GAP = 6;
  const LABEL_FROM = 26;
  const FONT_SIZE = 11.5;

  const OWN_LANE = /^(main thread|worker|lane|thread|mindspore operators)((?: \d+)?(?: \(\d+\))?)$/;

  /** The name of a lane: in the language of now if it is one of ours, else as the native profiler has it. */
  function laneName(name) {
    const [, own, number] = OWN_LANE.exec(name) ?? [];
    return own ? up.word('lane', own) + number : name;
  }

  class SlicesPainter {
    constructor(canvas, categories) {
      Object.assign(this, {canvas, categories, widths: new Map()});
      this.context = canvas.getContext('2d');
      this.recolor();
    }

    recolor() {
      this.page = up.pageColors();
      const faded = color => up.mixed(color, this.page.panel, 0.78);
      this.fills = this.categories.map(up.categoryColor);
      this.inks = this.fills.map(up.inkOn);
      this.fadedFills = this.fills.map(faded);
      this.fadedInks = this.fadedFills.map(up.inkOn);
      this.widths.clear();
    }

    /** Give every lane its place; tracks have a line for their names unless there is only one without a name. */
    layOut(slices) {
      this.slices = slices;
      this.tops = new Map();
      this.titles = [];
      let y = AXIS;
      let track = null;
      for (const lane of slices.lanes) {
        if (lane.track !== track) {
          track = lane.track;
          y += this.titles.length || y > AXIS ? GAP : 0;
          const {name, device} = slices.source.tracks[track];
          if (name) {
            this.titles.push({y, name, device});
            y += TRACK;
          } else y += GAP;
        }
        this.tops.set(lane, y);
        y += LANE;
      }
      this.contentHeight = y + GAP;
      this.widths.clear();
    }

    laneAt(y) {
      for (const [lane, top] of this.tops) if (y >= top && y < top + LANE) return lane;
      return null;
    }

    /** @param {object} view  {from, to, top, width, height}: the time in view, how far it is scrolled, the size in pixels */
    draw(view, {flags = null, selected = -1, hovered = -1} = {}) {
      const {context, page} = this;
      this.view = view;
      this.scale = view.width / (view.to - view.from);
      context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
      context.fillStyle = page.panel;
      context.fillRect(0, 0, view.width, view.height);
      context.font = `${FONT_SIZE}px ${page.font}`;
      context.textBaseline = 'middle';
      const ticks = this.ticks();
      this.drawGrid(ticks);
      [this.faded, this.full] = [this.fills.map(() => []), this.fills.map(() => [])];
      this.labels = {'#000000': [], '#ffffff': []};
      for (const [lane, top] of this.tops) {
        const y = top - view.top;
        if (y < AXIS - LANE || y > view.height) continue;
        this.collectLane(lane, y, flags, false);
        if (flags) this.collectLane(lane, y, flags, true);
      }
      this.fillCollected();
      this.drawTitles();
      this.outline(hovered, page.soft, 1);
      this.outline(selected, page.mark, 2);
      this.drawAxis(ticks);
    }

    /**
     * Collect what is to be drawn of a lane: boxes, and runs of pixels where slices are narrower than two.
     * With flags, everything is drawn faded first, then the slices found over it, so that none hides behind its neighbors.
     */
    collectLane(lane, y, flags, onlyFound) {
      const {slices, scale, view: {from, to}} = this;
      const {start, end, category} = slices;
      const rectangles = flags && !onlyFound ? this.faded : this.full;
      let [color, left, right] = [-1, 0, 0];
      for (let at = slices.firstEndingAfter(lane, from); at < lane.last && start[at] < to; at++) {
        if (onlyFound && !flags[at]) continue;
        const [first, last] = [(start[at] - from) * scale, (end[at] - from) * scale];
        if (last - first >= 2) { this.collectBox(at, first, last, y, rectangles); continue; }
        const pixel = Math.floor(first);
        if (category[at] !== color || pixel > right) {
          if (color >= 0) rectangles[color].push(left, y, right - left);
          [color, left, right] = [category[at], pixel, pixel];
        }
        right = Math.max(right, pixel + 1);
        const pixelEnd = from + (pixel + 1) / scale;
        if (!onlyFound && at + 1 < lane.last && end[at + 1] <= pixelEnd) at = slices.firstEndingAfter(lane, pixelEnd, at + 1) - 1;
      }
      if (color >= 0) rectangles[color].push(left, y, right - left);
    }

    collectBox(slice, left, right, y, rectangles) {
      const category = this.slices.category[slice];
      const [x, end] = [Math.max(left, -1), Math.min(right, this.view.width + 1)];
      rectangles[category].push(x, y, Math.max(end - x - (right - left > 4 ? 1 : 0.5), 1));
      if (end - x < LABEL_FROM) return;
      const text = this.fitted(this.slices.name[slice], end - Math.max(x, 0) - 9);
      const ink = (rectangles === this.faded ? this.fadedInks : this.inks)[category];
      if (text) this.labels[ink].push({text, x: Math.max(x, 0) + 4, y: y + LANE / 2});
    }

    /** Color by color, which is several times as fast as in the order of time. */
    fillCollected() {
      const {context} = this;
      for (const [rectangles, fills] of [[this.faded, this.fadedFills], [this.full, this.fills]]) {
        rectangles.forEach((flat, category) => {
          context.fillStyle = fills[category];
          for (let at = 0; at < flat.length; at += 3) context.fillRect(flat[at], flat[at + 1], flat[at + 2], LANE - 1);
        });
      }
      for (const [ink, labels] of Object.entries(this.labels)) {
        context.fillStyle = ink;
        for (const {text, x, y} of labels) context.fillText(text, x, y);
      }
    }

    /** As much of a name as fits; widths are measured once per name. */
    fitted(name, room) {
      const label = this.slices.labels[name];
      let width = this.widths.get(name);
      if (width === undefined) this.widths.set(name, width = this.context.measureText(label).width);
      if (width <= room) return label;
      const characters = Math.floor(label.length * room / width) - 1;
      return characters < 2 ? '' : `${label.slice(0, characters)}…`;
    }

    drawTitles() {
      const {context, page, view} = this;
      context.font = `600 ${FONT_SIZE}px ${page.font}`;
      for (const {y, name, device} of this.titles) {
        const text = [laneName(name), device].filter(Boolean).map(part => up.visible(part, 80)).join(' · ');
        const top = y - view.top;
        if (top < AXIS - TRACK || top > view.height) continue;
        context.fillStyle = page.line;
        context.fillRect(0, top, view.width, 1);
        context.fillStyle = page.soft;
        context.fillText(text, 6, top + TRACK / 2 + 1, view.width - 12);
      }
      context.font = `${FONT_SIZE}px ${page.font}`;
    }

    outline(slice, color, width) {
      if (slice < 0) return;
      const {context, slices, scale, view} = this;
      const y = this.tops.get(slices.laneOf(slice)) - view.top;
      const left = Math.max((slices.start[slice] - view.from) * scale, -4);
      const right = Math.min((slices.end[slice] - view.from) * scale, view.width + 4);
      if (right < 0 || left > view.width) return;
      context.strokeStyle = color;
      context.lineWidth = width;
      context.strokeRect(left - 0.5, y - 0.5, Math.max(right - left, 2), LANE);
    }

    /** Times at round numbers, about every 110 pixels. */
    ticks() {
      const {from, to, width} = this.view;
      const rough = (to - from) * 110 / width;
      const power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map(factor => factor * power).find(found => found >= rough);
      const unit = up.durationUnit(Math.max(to, 1));
      const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step / unit.size) - 1e-9)));
      const ticks = [];
      for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
        ticks.push({x: (time - from) * this.scale, text: `${(time / unit.size).toFixed(digits)} ${unit.name}`});
      }
      return ticks;
    }

    drawGrid(ticks) {
      this.context.fillStyle = this.page.line;
      for (const {x} of ticks) this.context.fillRect(Math.round(x), AXIS, 1, this.view.height - AXIS);
    }

    /** The times on top, over everything, and a line that says which part of the whole is in view. */
    drawAxis(ticks) {
      const {context, page, view, slices} = this;
      context.fillStyle = page.panel;
      context.fillRect(0, 0, view.width, AXIS - 2);
      context.fillStyle = page.line;
      context.fillRect(0, AXIS - 3, view.width, 3);
      const whole = slices.source.duration || 1;
      context.fillStyle = page.accent;
      context.fillRect(view.from / whole * view.width, AXIS - 3, Math.max(2, (view.to - view.from) / whole * view.width), 3);
      context.fillStyle = page.soft;
      for (const {x, text} of ticks) {
        const half = context.measureText(text).width / 2;
        context.fillText(text, Math.min(Math.max(x - half, 4), view.width - 2 * half - 4), AXIS / 2 - 1);
      }
    }
  }

  Object.assign(up, {SlicesPainter, LANE_HEIGHT: LANE, AXIS_HEIGHT: AXIS});
})(window.unifiedProfilerReport ??= {});
