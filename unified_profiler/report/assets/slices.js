'use strict';
/* The slices of a timeline or call tree: decoded, in lanes (one per track and depth), and found by time. */
(up => {
  class Slices {
    constructor(source, categories) {
      const {slices} = source;
      this.source = source;
      this.categoryNames = categories;
      this.count = slices.start.length;
      this.start = sums(slices.start);
      this.end = Float64Array.from(this.start, (start, at) => start + slices.duration[at]);
      this.category = Uint8Array.from(slices.category);
      this.name = Uint32Array.from(slices.name);
      this.lanes = lanesOf(slices);
      this.relabel(name => name);
    }

    /** Write names in the language of now, where they are words of ours. */
    relabel(name) { this.labels = this.source.names.map(found => up.visible(name(found), 200)); }

    duration(slice) { return this.source.slices.duration[slice]; }
    self(slice) { return this.source.slices.self[slice]; }
    calls(slice) { return this.source.slices.count?.[slice] ?? null; }

    categoryName(slice) { return this.categoryNames[this.category[slice]]; }

    /** Module, shapes: whatever else is known. */
    detail(slice) {
      const index = this.source.slices.detail?.[slice] ?? -1;
      return index < 0 ? null : this.source.details[index];
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

    /** Which names contain a text: one flag per name, or null for no text. */
    matching(text) {
      const wanted = text.trim().toLowerCase();
      return wanted ? Uint8Array.from(this.source.names, name => name.toLowerCase().includes(wanted)) : null;
    }

    /** How many slices have a name with a flag. */
    countOf(flags) {
      let count = 0;
      for (let slice = 0; slice < this.count; slice++) count += flags[this.name[slice]];
      return count;
    }

    /** Indices of the categories that occur. */
    categories() { return [...new Set(this.category)].sort((a, b) => a - b); }
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
