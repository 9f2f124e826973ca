'use strict';
/* The figures of the page about devices: what each device did, and what it did in each step. */
(up => {
  const MOST_STACKS = 150;      // stacked bars; more steps are drawn as means of a few
  const {partBars, meansOf} = up.figureParts;

  /** The rows of a table as objects. */
  const objects = ({columns, rows}) => rows.map(row => Object.fromEntries(columns.map((key, at) => [key, row[at]])));

  const deviceName = ({rank, device}, several) => (several ? `${up.rankName(rank)} · ${device}` : device);

  /** A bar for each device: what it did in all steps together, and why it did nothing. */
  function deviceBars(view) {
    const found = objects(view.devices);
    if (found.length < 2) return null;
    const several = new Set(found.map(row => row.rank)).size > 1;
    const rows = found.map(row => ({
      ...row, wall_ns: row.span_ns, name: up.label(deviceName(row, several)), label: several ? String(row.rank) : up.label(row.device, 12),
    }));
    return {
      ...stacked(rows, up.text('ui.devices.bars.axis')), title: up.text('ui.devices.bars.chart'), sentence: sentenceOf(rows),
      table: tableOf(rows, up.text('column.device')),
    };
  }

  /** A bar for each step of a device; of very many, the mean of each few that follow each other. */
  function deviceSteps(view, {rank, device}, onclick) {
    const found = objects(view.steps).filter(row => row.rank === rank && row.device === device)
      .map(row => ({...row, wall_ns: row.span_ns}));
    if (!found.length) return null;
    const named = row => (row.step === null ? up.text('ui.devices.no_step') : up.stepName(row.step));
    const drawn = meansOf(found, MOST_STACKS, ['wall_ns', 'span_ns', ...up.DEVICE_PARTS])
      .map(row => ({...row, ...(row.step === null && {name: named(row), label: '–'}), about: {rank, step: row.step}}));
    return {
      ...stacked(drawn, up.text('ui.step')), title: up.text('ui.devices.steps.chart', {device}), onclick, sentence: sentenceOf(found),
      table: tableOf(found.map(row => ({...row, name: row.step === null ? '–' : String(row.step)})), up.text('ui.step')),
    };
  }

  const present = rows => up.DEVICE_PARTS.filter(key => rows.some(row => row[key]));

  /** Stacked bars; on a phone the legend needs a line for each part. */
  function stacked(rows, title) {
    const made = partBars(rows, present(rows), title);
    return {...made, height: made.height + (up.isNarrow() ? 20 * present(rows).length : 0)};
  }

  function sentenceOf(rows) {
    const span = rows.reduce((sum, row) => sum + row.span_ns, 0) || 1;
    const share = key => rows.reduce((sum, row) => sum + row[key], 0) / span;
    const told = present(rows).map(key => `${up.text(`part.${key}`)} ${up.share(share(key))}`);
    return up.text('ui.devices.sentence', {shares: told.join(up.text('ui.list_separator'))});
  }

  function tableOf(rows, title) {
    const keys = ['span_ns', 'busy_ns', ...present(rows)];
    return {
      headings: [title, ...keys.map(key => up.text(up.has(`part.${key}`) ? `part.${key}` : `column.${key}`))],
      rows: rows.map(row => [row.name, ...keys.map(key => up.duration(row[key]))]),
    };
  }

  Object.assign(up.figures, {deviceBars, deviceSteps});
  Object.assign(up, {deviceName, tableObjects: objects});
})(window.unifiedProfilerReport ??= {});
