'use strict';
/* What the other charts show: pure functions from the document to a figure, {title, sentence, data, layout, height, table}. */
(up => {
  const HORIZONTAL = 24;        // steps that get a line each
  const MOST_STACKS = 150;      // stacked bars; more steps are drawn as means of a few
  const {hover, scaledBy, largest, least, mean, grouped} = up.figureParts;
  const {stepName} = up;

  /** Where each recorded step of a rank went; of very many, the mean of each few that follow each other. */
  function stepParts(document, rank, onclick) {
    const column = name => document.breakdown.columns.indexOf(name);
    const keys = up.STEP_PARTS;
    const rows = document.breakdown.rows.filter(row => row[column('rank')] === rank)
      .map(row => Object.fromEntries(['step', 'wall_ns', ...keys].map(key => [key, row[column(key)]])));
    if (!rows.length) return null;
    const present = keys.filter(key => rows.some(row => row[key]));
    const wall = rows.reduce((sum, row) => sum + row.wall_ns, 0) || 1;
    const shares = present.map(key => `${up.text(`part.${key}`)} ${up.share(rows.reduce((sum, row) => sum + row[key], 0) / wall)}`);
    const drawn = meansOf(rows, MOST_STACKS, ['wall_ns', ...keys]).map(row => ({...row, about: {rank, step: row.step}}));
    return {
      ...partBars(drawn, present, up.text('ui.step')), title: up.text('ui.parts.chart'), onclick,
      sentence: up.text('ui.parts.sentence', {shares: shares.join(up.text('ui.list_separator'))}),
      table: {
        headings: [up.text('ui.step'), up.text('column.wall_ns'), ...present.map(key => up.text(`part.${key}`))],
        rows: rows.map(row => [String(row.step), ...['wall_ns', ...present].map(key => up.duration(row[key]))]),
      },
    };
  }

  /** Rows, or the means of stretches of them if there are more than so many; `name` says which steps they are. */
  function meansOf(rows, most, keys) {
    const size = Math.ceil(rows.length / most);
    return Array.from({length: Math.ceil(rows.length / size)}, (_, at) => {
      const stretch = rows.slice(at * size, (at + 1) * size);
      const means = Object.fromEntries(keys.map(key => [key, mean(stretch.map(row => row[key]))]));
      const name = size === 1 ? stepName(stretch[0].step) : up.text('ui.steps_range', {first: stretch[0].step, last: stretch.at(-1).step});
      return {...means, step: stretch[0].step, label: String(stretch[0].step), name};
    });
  }

  /**
   * Stacked bars: a few lie below each other, many stand side by side.
   * @param {object[]} rows  each with a `name`, a short `label`, `wall_ns`, the parts; perhaps `marked`, and `about`
   *   for what a click on it tells
   * @param {string} title  what the rows are
   */
  function partBars(rows, keys, title) {
    const unit = up.durationUnit(largest(rows.map(row => row.wall_ns)));
    const horizontal = rows.length <= HORIZONTAL;
    const positions = rows.map((_, at) => at);
    const told = (row, key) => `${up.text(`part.${key}`)}<br>${up.duration(row[key])} (${up.share(row[key] / (row.wall_ns || 1))})`;
    const data = keys.map(key => {
      const values = scaledBy(rows.map(row => row[key]), unit);
      return {
        type: 'bar', name: up.text(`part.${key}`), orientation: horizontal ? 'h' : 'v',
        x: horizontal ? values : positions, y: horizontal ? positions : values,
        text: rows.map(row => `${row.name} · ${told(row, key)}`),
        textposition: 'none', hovertemplate: hover, customdata: rows.map(({about}) => about), showlegend: true,
        marker: {color: up.PARTS[key], pattern: up.PART_PATTERNS[key] ?? {}},
      };
    });
    const measured = {title: unit.name, rangemode: 'tozero'};
    const ticked = horizontal ? positions : up.figureParts.ticked(rows, 12);
    const ticktext = ticked.map(at => up.figureParts.named(rows[at], horizontal ? rows[at].name : rows[at].label));
    const labels = {tickvals: ticked, ticktext, showgrid: false, zeroline: false};
    const layout = horizontal
      ? {xaxis: measured, yaxis: {...labels, autorange: 'reversed'}}
      : {bargap: rows.length > 80 ? 0 : 0.15, xaxis: {...labels, title}, yaxis: measured};
    return {data, layout, height: horizontal ? 110 + rows.length * 26 : 300};
  }

  /** Horizontal bars, the longest on top, one color or series each. */
  function bars({title, sentence, names, series, headings, rows}) {
    const unit = up.durationUnit(largest(series.flatMap(({values}) => values)));
    const positions = names.map((_, at) => at);
    const data = series.map(({name, values, colors, texts, pattern, range}) => ({
      type: 'bar', orientation: 'h', name, x: scaledBy(values, unit), y: positions, text: texts, textposition: 'none', hovertemplate: hover,
      marker: {color: colors, pattern: {shape: pattern ?? '', size: 6}}, showlegend: series.length > 1,
      ...(range && {error_x: whiskers(range, unit)}),
    }));
    const ticktext = names.map(name => up.label(name, 32));
    const ticks = {tickvals: positions, ticktext, autorange: 'reversed', showgrid: false, zeroline: false};
    const height = 90 + names.length * (series.length > 1 ? 30 : 24) + (series.length > 1 ? 30 : 0);
    const layout = {barmode: 'group', xaxis: {title: unit.name, rangemode: 'tozero'}, yaxis: ticks};
    return {title, sentence, data, height, layout, table: {headings, rows}};
  }

  /** Lines from the least to the most. */
  const whiskers = ({above, below}, unit) => ({
    type: 'data', symmetric: false, color: '#7c8794', thickness: 1.2, width: 3,
    array: scaledBy(above, unit), arrayminus: scaledBy(below, unit),
  });

  /** Time by category: on the processor, and on the device if there was one. */
  function categories(document) {
    const found = document.summary.categories.filter(row => row.self_cpu_ns || row.self_device_ns);
    if (!found.length) return null;
    found.sort((a, b) => b.self_cpu_ns + (b.self_device_ns ?? 0) - a.self_cpu_ns - (a.self_device_ns ?? 0));
    const names = found.map(row => up.word('category', row.category));
    const kinds = ['cpu', 'device'].filter(kind => found.some(row => row[`self_${kind}_ns`]));
    const told = (row, kind) => `${up.duration(row[`self_${kind}_ns`] ?? 0)} (${up.share(row[`self_${kind}_share`] ?? 0)})`;
    const series = kinds.map(kind => ({
      name: up.text(`ui.categories.${kind}`), values: found.map(row => row[`self_${kind}_ns`] ?? 0), pattern: kind === 'device' ? '/' : '',
      colors: found.map(row => up.categoryColor(row.category)),
      texts: found.map((row, at) => `${up.label(names[at])}<br>${told(row, kind)}<br>${up.text('ui.calls', row)}`),
    }));
    return bars({
      title: up.text('ui.categories.chart'), names, series,
      sentence: up.text('ui.categories.sentence', {category: found[0].category, self_share: found[0][`self_${kinds[0]}_share`]}),
      headings: [up.text('column.category'), ...kinds.map(kind => up.text(`ui.categories.${kind}`)), up.text('column.call_count')],
      rows: found.map((row, at) => [names[at], ...kinds.map(kind => told(row, kind)), up.count(row.call_count ?? 0)]),
    });
  }

  /** The user's regions: their time in a step, and between the least and the most of all steps. */
  function regions(document, rank) {
    const column = name => document.regions.columns.indexOf(name);
    const ofRank = document.regions.rows.filter(row => row[column('rank')] === rank);
    const byName = grouped(ofRank.map(row => [row[column('name')], row[column('total_ns')]]));
    if (!byName.size) return null;
    const found = [...byName].map(([name, values]) => ({name, values, mean: mean(values), least: least(values), most: largest(values)}))
      .sort((a, b) => b.mean - a.mean).slice(0, 20);
    const range = {above: found.map(row => row.most - row.mean), below: found.map(row => row.mean - row.least)};
    const times = row => [row.mean, row.least, row.most].map(value => up.duration(value));
    const texts = found.map(row => `${up.label(row.name)}<br>${times(row)[0]}<br>${times(row)[1]} – ${times(row)[2]}`);
    return bars({
      title: up.text('ui.regions.chart'), sentence: up.text('ui.regions.sentence'), names: found.map(row => row.name),
      series: [{name: '', values: found.map(row => row.mean), colors: '#7d9cc4', texts, range}],
      headings: ['column.region', 'ui.mean', 'ui.least', 'ui.most', 'ui.step_count'].map(key => up.text(key)),
      rows: found.map(row => [up.nameElement(row.name), ...times(row), up.count(row.values.length)]),
    });
  }

  Object.assign(up.figures, {stepParts, categories, regions});
  Object.assign(up.figureParts, {partBars, meansOf});
})(window.unifiedProfilerReport ??= {});
