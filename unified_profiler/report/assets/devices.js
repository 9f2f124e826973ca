'use strict';
/* The page about devices: whether they worked or waited, and why; step by step, stream by stream, and in tables. */
(up => {
  /* The columns of each table, in order; those that are empty everywhere are left out. */
  const TABLES = {
    gaps: ['rank', 'device', 'step', 'duration_ns', 'cause', 'host_activity', 'host_activity_ns', 'host_region', 'host_source', 'kernel'],
    launches: ['operator', 'work_count', 'launch_ns', 'work_ns', 'delay_ns', 'delay_median_ns', 'delay_max_ns', 'short_count'],
    collectives: [
      'collective', 'rank', 'process_group', 'group_size', 'size_class_bytes', 'collective_count', 'total_bytes', 'duration_ns',
      'duration_median_ns', 'algorithm_bandwidth', 'bus_bandwidth',
    ],
    copies: [
      'name', 'rank', 'device', 'memory', 'copy_count', 'total_bytes', 'duration_ns', 'bandwidth', 'bandwidth_min', 'bandwidth_median',
      'bandwidth_max',
    ],
    queues: [
      'device', 'rank', 'stream', 'empty_share', 'full_ns', 'length_mean', 'length_p25', 'length_median', 'length_p75', 'length_max',
      'change_count',
    ],
    kernels: [
      'kernel', 'call_count', 'duration_ns', 'work_share', 'mean_ns', 'min_ns', 'median_ns', 'p95_ns', 'max_ns', 'variation', 'shapes', 'name',
    ],
    sequences: ['kernel', 'call_count', 'duration_ns', 'gap_ns', 'launch_ns'],
    devices: [
      'device', 'rank', 'idle_share', 'span_ns', 'busy_ns', 'idle_ns', 'compute_ns', 'communication_ns', 'exposed_communication_ns',
      'overlap_ns', 'copy_ns', 'exposed_copy_ns', 'host_late_ns', 'synchronization_ns', 'queue_empty_ns', 'other_stream_ns',
      'device_overhead_ns', 'unknown_ns', 'work_count',
    ],
  };
  TABLES.streams = ['device', 'rank', 'stream', ...TABLES.devices.slice(2)];
  const FIRST = {
    gaps: 'duration_ns', launches: 'launch_ns', collectives: 'duration_ns', copies: 'duration_ns', queues: 'rank', kernels: 'duration_ns',
    sequences: 'call_count', devices: 'rank', streams: 'rank',
  };
  const TITLES = {gaps: {kernel: 'column.next_work', duration_ns: 'column.idle_ns'}, sequences: {kernel: 'column.sequence'}, kernels: {name: 'column.full_name'}};
  const CLASSES = ['compute', 'communication', 'copy'];
  const WORDS = new Set([...CLASSES, 'host_late', 'synchronization', 'queue_empty', 'other_stream', 'device_overhead', 'unknown']);
  const SHOWN_IF_ZERO = new Set(['stream', 'step', 'empty_share', 'short_count', 'idle_share']);

  function devicesPage(data) {
    const {devices: view, summary} = data;
    const several = new Set(summary.devices.map(row => row.rank)).size > 1;
    const tables = Object.keys(TABLES).map(name => [name, new up.DataTable(up.byId(`devices-${name}-table`))]);
    new up.Chart(up.byId('devices-bars'), () => up.figures.deviceBars(view));
    up.byId('devices-bars').closest('.part').hidden = up.byId('devices-bars').hidden;
    const streams = streamsSection(view);
    const redrawSteps = stepsChart(view, several, streams.choose);
    const draw = () => {
      drawVerdict(summary.devices_verdict);
      up.byId('devices-figures').replaceChildren(...keyFigures(summary, view));
      for (const [name, table] of tables) drawTable(name, table, view[name], several);
      redrawSteps();
    };
    draw();
    return () => { draw(); streams.draw(); };
  }

  function drawVerdict([first, ...others]) {
    if (!first) return;
    const list = others.map(statement => up.element('li', {}, up.said('devices', statement)));
    up.byId('devices-verdict').replaceChildren(up.element('div', {'data-level': first.level},
      up.element('p', {class: 'headline'}, up.said('devices', first)), list.length ? up.element('ul', {}, ...list) : null));
  }

  /** The few numbers to look at first: shares of the time between the first and the last work of the devices. */
  function keyFigures({devices}, {launched: {work_count, short_count}}) {
    const sum = key => devices.reduce((total, row) => total + row[key], 0);
    const span = sum('span_ns') || 1;
    const share = key => [up.share(sum(key) / span), up.duration(sum(key), 1)];
    const some = key => (sum(key) ? share(key) : [null]);
    return up.figureElements([
      ['device_count', up.count(devices.length), [...new Set(devices.map(({device}) => device))].slice(0, 4).join(', ')],
      ['device_idle', ...share('idle_ns')],
      ['device_compute', ...share('compute_ns')],
      ['device_communication', ...some('exposed_communication_ns')],
      ['device_copies', ...some('exposed_copy_ns')],
      ['device_short', work_count ? up.share(short_count / work_count) : null, up.text('ui.figures.device_short_note')],
      ['device_work', up.count(sum('work_count')), up.text('ui.figures.device_work_note')],
    ]);
  }

  /** The breakdown of each step of a device that can be chosen. */
  function stepsChart(view, several, choose) {
    const select = up.byId('devices-device');
    const found = [...new Map(up.tableObjects(view.steps).map(row => [`${row.rank} ${row.device}`, row])).values()];
    const fill = () => up.fillSelect(select, found.map((row, at) => [at, up.deviceName(row, several)]));
    fill();
    const chart = new up.Chart(up.byId('devices-steps'), () => up.figures.deviceSteps(view, found[Number(select.value) || 0], choose));
    select.addEventListener('change', () => chart.refresh());
    return () => {
      fill();
      const {left_out: left} = view.steps;
      up.byId('devices-steps-left-out').textContent = left ? up.text('ui.devices.steps.left_out', {left_count: left}) : '';
    };
  }

  /** The timeline of the streams of one step. */
  function streamsSection(view) {
    const data = {timelines: view.timelines, categories: view.categories, left: view.steps_without_timeline};
    return up.stepTimelines('streams', data, {describe, label});
  }

  /** The classes of work and the causes of gaps in words; other names are those of kernels. */
  const label = name => name.split(' + ').map(word => (WORDS.has(word) ? up.word('category', word) : word)).join(' + ');

  /** The name of a piece of work or the cause of a gap, then [label, value] pairs. */
  function describe(slices, slice) {
    const category = slices.categoryName(slice);
    const isGap = !CLASSES.includes(category);
    const length = slices.duration(slice);
    const name = slices.source.names[slices.name[slice]];
    const delay = slices.source.slices.delay[slice];
    const pairs = [
      [up.text('ui.duration'), `${up.duration(length)} (${up.share(length / (slices.source.duration || 1))})`],
      [up.text(isGap ? 'column.cause' : 'column.category'), isGap ? up.text(`hint.cause.${name}`) : up.word('category', category)],
      [up.text('ui.slices.start'), `${slices.start[slice] < 0 ? '' : '+'}${up.duration(slices.start[slice])}`],
    ];
    const [detail, grid, moved] = [slices.text(slice, 'detail'), slices.text(slice, 'grid'), slices.source.slices.bytes[slice]];
    const {name: device, device: stream} = slices.source.tracks[slices.source.slices.track[slice]];
    pairs.push([up.text(stream ? 'column.stream' : 'column.device'), up.visible(stream ? `${stream}, ${device}` : device, 80)]);
    if (detail) pairs.push([up.text(isGap ? 'column.host_activity' : 'column.operator'), up.visible(detail, 400)]);
    if (delay >= 0) pairs.push([up.text('ui.devices.delay'), up.duration(delay)]);
    if (grid) pairs.push([up.text('column.grid'), up.visible(grid, 80)]);
    if (moved >= 0) pairs.push([up.text('column.total_bytes'), up.show('_bytes', moved)]);
    if (moved > 0 && length) pairs.push([up.text('column.bandwidth'), up.number(moved / length, {maximumSignificantDigits: 4})]);
    return [up.visible(label(name)), ...pairs];
  }

  function drawTable(name, table, {columns, rows, left_out, listed_share}, several) {
    const part = up.byId(`devices-${name}-table`).closest('.part');
    part.hidden = !rows.length || (name === 'devices' && rows.length < 2);
    const titles = TITLES[name] ?? {};
    const keys = TABLES[name].filter(key => several || key !== 'rank');
    const shown = keys.map(key => ({...up.columnOf(key, columns.indexOf(key)), ...(key in titles && {title: up.text(titles[key])})}))
      .filter(({key, index}, at) => !at || SHOWN_IF_ZERO.has(key) || up.saysAnything(rows, index));
    const first = shown.some(({key}) => key === FIRST[name]) ? FIRST[name] : shown[0].key;
    table.setData(shown, rows, {key: first, descending: first !== 'rank' && first !== shown[0].key});
    const listed = {shown_count: rows.length, all_count: rows.length + left_out, listed_share};
    up.byId(`devices-${name}-left-out`).textContent = [
      listed_share && left_out ? up.text('ui.devices.table.gaps_listed', listed) : '',
      left_out ? up.text('ui.devices.rows_left_out', {left_count: left_out, name}) : '',
    ].filter(Boolean).join(up.text('ui.sentence_separator'));
  }

  up.devicesPage = devicesPage;
})(window.unifiedProfilerReport ??= {});
