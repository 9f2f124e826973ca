'use strict';
/* What the call tree says about calls: who calls a name and what it calls, and the tree from the bottom up. */
(up => {
  const DEEPEST = 40;           // callers of callers in the tree from the bottom up
  const SMALLEST = 1 / 5000;    // of the whole: smaller nodes of that tree are left out

  /** The callers of some names and what they call: two lists of {name, label, duration, calls}, the longest first. */
  function callsOf(slices, isWanted) {
    const parents = slices.parents();
    const {names} = slices.source;
    const [callers, callees] = [new Map(), new Map()];
    const nameOf = slice => (slice < 0 ? null : names[slices.name[slice]]);
    /* The time and calls of a slice, for the name of another one. */
    const add = (sums, slice, named) => {
      const name = nameOf(named);
      const sum = sums.get(name) ?? {name, label: named < 0 ? null : slices.label(named), duration: 0, calls: 0};
      sums.set(name, {...sum, duration: sum.duration + slices.duration(slice), calls: sum.calls + slices.calls(slice)});
    };
    for (let slice = 0; slice < slices.count; slice++) {
      const caller = parents[slice];
      if (isWanted(nameOf(slice))) add(callers, slice, caller);
      if (caller >= 0 && isWanted(nameOf(caller))) add(callees, slice, slice);
    }
    return [callers, callees].map(sums => [...sums.values()].sort((a, b) => b.duration - a.duration));
  }

  /** The source of the tree upside down: names by their self time, and below each name its callers. */
  function fromBottomUp(slices) {
    const roots = new Map();
    const parents = slices.parents();
    for (let slice = 0; slice < slices.count; slice++) addPath(roots, slices, parents, slice);
    const nodes = layOut([...roots.values()]);
    return {...slices.source, ...asSource(nodes, slices), left_out: {count: 0, self_ns: leftOut(nodes, slices)}};
  }

  /** Add the self time of a slice to its name, and along its callers. */
  function addPath(roots, slices, parents, first) {
    const [self, calls, track] = [slices.self(first), slices.calls(first), slices.source.slices.track[first]];
    if (!self) return;
    let below = roots;
    for (let slice = first, depth = 0; slice >= 0 && depth < DEEPEST; slice = parents[slice], depth++) {
      const key = depth ? slices.name[slice] : `${track} ${slices.name[slice]}`;
      let node = below.get(key);
      if (!node) below.set(key, node = {name: slices.name[slice], category: slices.category[slice], track, depth, duration: 0, calls: 0, below: new Map()});
      node.duration += self;
      node.calls += calls;
      below = node.below;
    }
  }

  /** Place the nodes of each track side by side, the longest first, and the callers of each node below it. */
  function layOut(roots) {
    const placed = [];
    const least = SMALLEST * roots.reduce((sum, node) => sum + node.duration, 0);
    const place = (nodes, begin) => {
      for (const node of nodes.filter(({duration}) => duration >= least).sort((a, b) => b.duration - a.duration)) {
        placed.push({...node, start: begin});
        place([...node.below.values()], begin);
        begin += node.duration;
      }
    };
    for (const track of new Set(roots.map(node => node.track))) place(roots.filter(node => node.track === track), 0);
    return placed.sort((a, b) => a.track - b.track || a.depth - b.depth || a.start - b.start);
  }

  function asSource(nodes, {source}) {
    const column = key => nodes.map(node => node[key]);
    const start = nodes.map((node, at) => node.start - (nodes[at - 1]?.start ?? 0));
    return {
      duration: Math.max(1, ...nodes.filter(({depth}) => !depth).map(node => node.start + node.duration)),
      tracks: source.tracks,
      slices: {
        start, track: column('track'), depth: column('depth'), duration: column('duration'), name: column('name'),
        category: column('category'), count: column('calls'), self: nodes.map(node => (node.depth ? 0 : node.duration)),
      },
    };
  }

  /** The self time that no node of the tree has: that of small names, and of what the call tree lacks itself. */
  function leftOut(nodes, {source}) {
    const shown = nodes.reduce((sum, node) => sum + (node.depth ? 0 : node.duration), 0);
    const all = source.slices.self.reduce((sum, self) => sum + self, 0) + (source.left_out?.self_ns ?? 0);
    return Math.max(0, all - shown);
  }

  Object.assign(up, {callsOf, fromBottomUp});
})(window.unifiedProfilerReport ??= {});
