'use strict';
/* The slices of a timeline or call tree: decoded, in lanes (one per track and depth), and found by time. */
(up => {
  class Slices {
    /** @param {Function} label  writes a name in the language of now, if it is not to be as it is */
    constructor(source, categories, label = name => name) {
      const {slices} = source;
      this.source = source;
      this.categoryNames = categories;
      this.count = slices.start.length;
      this.start = sums(slices.start);
      this.end = Float64Array.from(this.start, (start, at) => start + slices.duration[at]);
      this.category = Uint8Array.from(slices.category);
      this.name = Uint32Array.from(slices.name);
      this.lanes = lanesOf(slices);
      const steps = new Set(this.name.filter((_, slice) => this.categoryName(slice) === 'step'));
      this.write = () => source.names.map((name, at) => up.visible(steps.has(at) ? stepLabel(name) : label(name)));
    }

    /** All names as they are shown: those that are words of ours in the language of now. */
    get labels() {
      if (this.language !== up.language()) Object.assign(this, {language: up.language(), written: this.write()});
      return this.written;
    }

    label(slice) { return this.labels[this.name[slice]]; }

    duration(slice) { return this.source.slices.duration[slice]; }
    self(slice) { return this.source.slices.self[slice]; }
    calls(slice) { return this.source.slices.count?.[slice] ?? null; }

    categoryName(slice) { return this.categoryNames[this.category[slice]]; }

    /** A text about a slice from one of the lists of its source (`modules` for `module`), or null. */
    text(slice, key, list = `${key}s`) {
      const index = this.source.slices[key]?.[slice] ?? -1;
      return index < 0 ? null : this.source[list][index];
    }

    /** For each slice the one that it is directly within, or -1. */
    parents() {
      this.parentOf ??= this.findParents();
      return this.parentOf;
    }

    findParents() {
      const parents = new Int32Array(this.count).fill(-1);
      this.lanes.forEach((lane, at) => {
        const outer = this.lanes[at - 1];
        if (!outer || outer.track !== lane.track) return;
        let around = outer.first;
        for (let slice = lane.first; slice < lane.last; slice++) {
          while (around < outer.last && this.end[around] < this.end[slice]) around++;
          if (around < outer.last && this.start[around] <= this.start[slice]) parents[slice] = around;
        }
      });
      return parents;
    }

    /** The first slice of a lane, from `from` on, that ends after a time; the lane's end if there is none. */
    firstEndingAfter(lane, time, from = lane.first) {
      let [low, high] = [from, lane.last];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.end[middle] > time) high = middle; else low = middle + 1;
      }
      return low;
    }

    /** The slice of a lane at a time, or -1. Slices shorter than the tolerance count as that long. */
    at(lane, time, tolerance = 0) {
      const found = this.firstEndingAfter(lane, time - tolerance);
      return found < lane.last && this.start[found] <= time + tolerance ? found : -1;
    }

    laneOf(slice) { return this.lanes.find(lane => slice < lane.last); }

    /** What a slice is within, from the outermost on; the slice itself is the last. */
    path(slice) {
      const lane = this.laneOf(slice);
      const outer = this.lanes.filter(other => other.track === lane.track && other.depth < lane.depth);
      return [...outer.map(other => this.at(other, this.start[slice])).filter(found => found >= 0), slice];
    }

    /** A flag per slice: whether its name or module contains a text, or is exactly it, in quotes; of several texts, one; null for none. */
    matching(text) {
      const wanted = text.toLowerCase().split('|').map(part => part.trim()).filter(Boolean).map(part => /^"(.+)"$/.exec(part) ?? part);
      if (!wanted.length) return null;
      const matches = found => Number(wanted.some(part => (typeof part === 'string' ? found.includes(part) : found === part[1])));
      const ofName = this.source.names.map((name, at) => matches(name.toLowerCase()) || matches(this.labels[at].toLowerCase()));
      const ofModule = (this.source.modules ?? []).map(module => matches(module.toLowerCase()));
      const {module} = this.source.slices;
      return Uint8Array.from(this.name, (name, slice) => ofName[name] || ofModule[module?.[slice]] || 0);
    }

    /** How many slices have a flag. */
    countOf(flags) { return flags.reduce((count, flag) => count + flag, 0); }

    /** The longest slice with a flag, or -1. */
    longest(flags) {
      let longest = -1;
      flags.forEach((flag, slice) => { if (flag && !(this.duration(slice) <= this.duration(longest))) longest = slice; });
      return longest;
    }

    /** Indices of the categories that occur. */
    categories() { return [...new Set(this.category)].sort((a, b) => a - b); }
  }

  /** The name of a step, `step 2`, or of all of them together, `step`. */
  function stepLabel(name) {
    const [, number] = /^step (\d+)$/.exec(name) ?? [];
    if (number !== undefined) return up.text('ui.step_number', {step: number});
    return name === 'step' ? up.word('category', 'step') : name;
  }

  function sums(deltas) {
    const found = new Float64Array(deltas.length);
    let sum = 0;
    for (let at = 0; at < deltas.length; at++) found[at] = sum += deltas[at];
    return found;
  }

  /** Slices are sorted by track and depth: a lane is a run of equal ones. Empty tracks have no lanes. */
  function lanesOf({track, depth}) {
    const lanes = [];
    for (let first = 0; first < track.length;) {
      let last = first + 1;
      while (last < track.length && track[last] === track[first] && depth[last] === depth[first]) last++;
      lanes.push({track: track[first], depth: depth[first], first, last});
      first = last;
    }
    return lanes;
  }

  up.Slices = Slices;
})(window.unifiedProfilerReport ??= {});
