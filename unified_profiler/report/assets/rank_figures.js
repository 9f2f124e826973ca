'use strict';
/* The figures of the page about ranks: the map of ranks and steps, and what a step of each rank consists of. */
(up => {
  const MOST_LABELS = 3;        // slow ranks that are named above the map; all are outlined
  const MOST_OUTLINED = 32;
  const MOST_TICKS = 16;
  const GAP = 2500;             // cells; fewer of them have lines in between
  const {largest, partBars, ticked, named} = up.figureParts;
  const {rankName, stepName} = up;

  /** Each step of each rank as a cell; `key` is what its color says: skew_ns, own_ns or waiting_ns. */
  function rankMap(view, key) {
    const {ranks, steps} = view;
    const {unit_ns, lines} = view.maps[key];
    if (!steps.length || ranks.length < 2) return null;
    const range = rangeOf(view, key);
    const unit = up.durationUnit(largest(range.map(Math.abs)));
    const rows = ranks.map(rank => ({rank, marked: view.slow.some(slow => slow.rank === rank)}));
    const rowHeight = Math.max(5, Math.min(34, 560 / ranks.length));
    const ticks = ticked(rows, Math.floor(ranks.length * rowHeight / 15));
    const columns = stepTicks(steps);
    const labels = Math.min(view.slow.length, MOST_LABELS);
    const gap = ranks.length * steps.length <= GAP ? 1 : 0;
    return {
      title: up.text(`ui.ranks.map.${key}`), sentence: mapSentence(view, key), height: Math.max(110, ranks.length * rowHeight) + 70 + 20 * labels,
      data: [{
        type: 'heatmap', x: steps.map(String), y: ranks.map(String), xgap: gap, ygap: gap,
        z: lines.map(line => line.map(value => (value === null ? null : value * unit_ns / unit.size))),
        zmin: range[0] / unit.size, zmax: range[1] / unit.size, colorscale: scaleOf(key), hoverongaps: false,
        hovertemplate: `${rankName('%{y}')} · ${stepName('%{x}')}<br>%{z:.3f} ${unit.name}<extra></extra>`,
        colorbar: {title: {text: unit.name, side: 'right'}, thickness: 12, outlinewidth: 0},
      }],
      layout: {
        margin: {l: 10, r: 14, t: 8 + 20 * labels, b: 10}, plot_bgcolor: up.pageColors().line,
        xaxis: {title: up.text('ui.step'), type: 'category', tickvals: columns, ticktext: columns, showgrid: false, tickangle: 0},
        yaxis: {
          type: 'category', autorange: 'reversed', showgrid: false, tickvals: ticks.map(at => String(ranks[at])),
          ticktext: ticks.map(at => named(rows[at], rankName(ranks[at]))),
        },
        ...marksOf(view),
      },
      table: extremes(view, key),
    };
  }

  /** The steps that get a label: the first of each round number of them. */
  function stepTicks(steps) {
    const span = steps.at(-1) - steps[0] + 1;
    const every = [1, 2, 5].flatMap(digit => Array.from({length: 12}, (_, power) => digit * 10 ** power))
      .sort((a, b) => a - b).find(size => span / size <= MOST_TICKS || size >= span);
    return steps.filter((step, at) => !at || Math.floor(step / every) !== Math.floor(steps[at - 1] / every)).map(String);
  }

  /** The durations that the ends of the scale stand for: single cells may exceed them, and what is usual stays pale. */
  function rangeOf({maps, slow, threshold_ns}, key) {
    const {unit_ns, lines} = maps[key];
    const values = lines.flat().filter(value => value !== null).map(value => value * unit_ns).sort((a, b) => a - b);
    const at = part => values[Math.round(part * (values.length - 1))] ?? 0;
    if (key !== 'skew_ns') return [at(0.01), Math.max(at(0.99), at(0.01) + 1)];
    const most = Math.max(at(0.99), -at(0.01), threshold_ns, largest(slow.map(({extra_ns}) => extra_ns)), 1);
    return [-most, most];
  }

  function scaleOf(key) {
    const {panel, accent, mark} = up.pageColors();
    if (key === 'skew_ns') return [[0, accent], [0.5, panel], [1, mark]];
    return [[0, panel], [1, key === 'own_ns' ? mark : accent]];
  }

  /** Outline what is slow, and name the slowest above the map, where each begins. */
  function marksOf({ranks, steps, slow}) {
    const {ink, panel} = up.pageColors();
    const found = slow.slice(0, MOST_OUTLINED).map(straggler => (
      {...straggler, row: ranks.indexOf(straggler.rank), from: steps.indexOf(straggler.since) - 0.5}));
    const shapes = found.map(({row, from}) => (
      {type: 'rect', x0: from, x1: steps.length - 0.5, y0: row - 0.5, y1: row + 0.5, line: {color: ink, width: 1.5}}));
    const annotations = found.slice(0, MOST_LABELS).map(({rank, since, changed, from}, at) => ({
      x: from, y: 1, yref: 'paper', yanchor: 'bottom', yshift: 2 + 20 * at, showarrow: false, bgcolor: panel,
      xanchor: from > steps.length / 2 ? 'right' : 'left', font: {size: 12, color: ink},
      text: `▾ ${rankName(rank)} · ${changed ? up.text('ui.ranks.since', {step: since}) : up.text('ui.ranks.always')}`,
    }));
    const lines = found.slice(0, MOST_LABELS).filter(({changed}) => changed).map(({row, from}) => (
      {type: 'line', x0: from, x1: from, y0: -0.5, y1: row - 0.5, line: {color: ink, width: 1, dash: 'dot'}}));
    return {shapes: [...shapes, ...lines], annotations};
  }

  function mapSentence(view, key) {
    return [
      up.text('ui.ranks.map.size', {rank_count: view.ranks.length, step_count: view.steps.length}),
      up.text(`ui.ranks.map.${key}_meaning`),
      view.slow.length ? up.text('ui.ranks.map.outlined') : '',
      view.steps_left_out ? up.text('ui.left_out.map_steps', {left_count: view.steps_left_out}) : '',
      leftOutRanks(view),
    ].filter(Boolean).join(up.text('ui.sentence_separator'));
  }

  const leftOutRanks = ({ranks_left_out: left}) => (left ? up.text('ui.left_out.ranks', {left_count: left}) : '');

  /** For each step the rank with the most and the one with the least. */
  function extremes({ranks, steps, maps}, key) {
    const {unit_ns, lines} = maps[key];
    const told = (rank, at) => [rankName(ranks[rank]), up.duration(lines[rank][at] * unit_ns)];
    return {
      headings: [up.text('ui.step'), up.text('ui.most'), '', up.text('ui.least'), ''],
      rows: steps.map((step, at) => {
        const present = [...ranks.keys()].filter(rank => lines[rank][at] !== null).sort((a, b) => lines[b][at] - lines[a][at]);
        return [String(step), ...(present.length ? [...told(present[0], at), ...told(present.at(-1), at)] : [])];
      }),
    };
  }

  /** A stacked bar for each rank: what it does by itself, and below or above that, with the others. */
  function rankParts(view) {
    const {columns, rows, since} = view.parts;
    const value = (row, key) => row[columns.indexOf(key)] ?? 0;
    const found = rows.filter(row => view.ranks.includes(value(row, 'rank'))).map(row => ({
      ...Object.fromEntries(columns.map(key => [key, value(row, key)])),
      transfer_ns: value(row, 'collective_ns') - value(row, 'waiting_ns'), label: String(value(row, 'rank')),
      name: rankName(value(row, 'rank')), marked: view.slow.some(({rank}) => rank === value(row, 'rank')),
    }));
    if (!found.length) return null;
    const present = up.RANK_PARTS.filter(key => found.some(row => row[key]));
    const sentence = [
      since === null ? '' : up.text('ui.ranks.parts.since', {step: since, rank: view.slow[0].rank}),
      up.text('ui.ranks.parts.sentence'), leftOutRanks(view),
    ].filter(Boolean);
    return {
      ...partBars(found, present, up.text('ui.rank')), title: up.text('ui.ranks.parts.chart'),
      sentence: sentence.join(up.text('ui.sentence_separator')),
      table: {
        headings: [up.text('ui.rank'), up.text('column.wall_ns'), ...present.map(key => up.text(`part.${key}`))],
        rows: found.map(row => [row.label, ...['wall_ns', ...present].map(key => up.duration(row[key]))]),
      },
    };
  }

  Object.assign(up.figures, {rankMap, rankParts});
})(window.unifiedProfilerReport ??= {});
