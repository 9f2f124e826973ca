'use strict';
/* The page about ranks: which one is slow, since when and doing what; then every rank in numbers. */
(up => {
  const MOST_CARDS = 4;         // slow ranks that are told of at once; the others unfold
  const {largest, least, mean} = up.figureParts;
  const PROCESS = [
    'rank', 'host', 'pid', 'step_count', 'recorded_step_count', 'unrecorded_step_ns', 'recorded_step_ns', 'overhead_ratio',
    'event_count', 'failure_count', 'ended',
  ];

  function ranksPage({ranks, summary, devices}) {
    const tables = Object.fromEntries(['ranks', 'clocks', 'processes'].map(id => [id, new up.DataTable(up.byId(`${id}-table`))]));
    const measure = up.byId('ranks-measure');
    const map = new up.Chart(up.byId('ranks-map'), () => up.figures.rankMap(ranks, measure.querySelector('input:checked').value));
    measure.addEventListener('change', () => map.refresh());
    new up.Chart(up.byId('ranks-parts'), () => up.figures.rankParts(ranks));
    new up.Chart(up.byId('ranks-devices'), () => devices && up.figures.deviceBars(devices));
    for (const id of ['ranks-map', 'ranks-parts', 'ranks-devices']) up.byId(id).closest('.part').hidden = up.byId(id).hidden;
    up.byId('ranks-table').closest('.part').hidden = !ranks.table.rows.length;
    up.byId('clocks-table').closest('.part').hidden = !ranks.clocks;
    const draw = () => {
      drawVerdict(up.paragraphs(summary.ranks_verdict));
      up.byId('ranks-notices').replaceChildren(...ranks.notices.map(notice => up.noticeItem('ranks', notice)));
      up.byId('ranks-figures').replaceChildren(...keyFigures(ranks, summary));
      drawRanks(tables.ranks, ranks);
      if (ranks.clocks) drawClocks(tables.clocks, ranks.clocks, summary);
      drawProcesses(tables.processes, summary);
    };
    draw();
    return draw;
  }

  function drawVerdict(paragraphs) {
    const cards = paragraphs.map(([first, ...others]) => up.element('div', {'data-level': first.level},
      up.element('p', {class: 'headline'}, up.said('ranks', first)),
      others.length ? up.element('ul', {}, ...others.map(statement => up.element('li', {}, up.said('ranks', statement)))) : null));
    const more = cards.slice(MOST_CARDS);
    const title = up.element('summary', {}, up.text('summary.more_slow', {more_count: more.length}));
    up.byId('ranks-verdict').replaceChildren(...cards.slice(0, MOST_CARDS), ...(more.length ? [up.element('details', {}, title, ...more)] : []));
  }

  /** The few numbers to look at first. */
  function keyFigures({parts, slow, clocks}, {ranks, world_size}) {
    const values = key => parts.rows.map(row => row[parts.columns.indexOf(key)] ?? 0);
    const [own, waiting, wall] = ['own_ns', 'waiting_ns', 'wall_ns'].map(values);
    const names = slow.slice(0, 4).map(({rank}) => up.rankName(rank)).join(up.text('ui.list_separator'));
    const note = parts.since === null ? up.text('ui.figures.all_steps') : up.text('ui.figures.since', {step: parts.since});
    const off = (clocks?.rows ?? []).filter(([, ahead, unsure]) => Math.abs(ahead) > unsure);
    return up.figureElements([
      ['ranks', up.count(ranks.length), up.text('ui.figures.ranks_note', {world_count: world_size})],
      ['slow_ranks', own.length ? up.count(slow.length) : null, `${names}${slow.length > 4 ? ' …' : ''}`],
      ['own', own.length ? fromTo(least(own), largest(own)) : null, note],
      ['waiting', own.length ? up.share(mean(waiting) / (mean(wall) || 1)) : null, note],
      ['clocks', off.length ? up.duration(largest(off.map(row => Math.abs(row[1]))), 2) : null,
        up.text('ui.figures.clocks_note', {unsure_ns: largest(off.map(row => row[2]))})],
    ]);
  }

  /** Two durations in one unit. */
  function fromTo(first, last) {
    const lower = up.number(first / up.durationUnit(last).size, {minimumFractionDigits: 2, maximumFractionDigits: 2});
    return `${lower} – ${up.duration(last, 2)}`;
  }

  /** Every rank with the medians of its steps; the slow ones say since when. */
  function drawRanks(table, {table: {columns, rows, left_out}, slow}) {
    const told = new Map(slow.map(straggler => [straggler.rank, slowness(straggler)]));
    const width = columns.length;
    const shown = columns.map(up.columnOf).filter(({key, index}) => !key.endsWith('_ns') || up.saysAnything(rows, index));
    if (slow.length) shown.splice(1, 0, {...up.columnOf('slow', width), kind: 'text'});
    table.setData(shown, rows.map(row => [...row, told.get(row[0]) ?? '']), {key: 'skew_ns', descending: true});
    up.byId('ranks-left-out').textContent = left_out ? up.text('ui.left_out.rows', {left_count: left_out}) : '';
  }

  const slowness = ({changed, since}) => `▲ ${changed ? up.text('ui.ranks.table.since', {step: since}) : up.text('ui.ranks.table.always')}`;

  function drawClocks(table, {columns, rows, method, compared_count}, {ranks}) {
    const host = new Map(ranks.map(found => [found.rank, found.host]));
    const keys = [...columns, 'host'];
    up.byId('clocks-lead').textContent = up.text(`ui.ranks.clocks.${method}`, {compared_count});
    const shown = ['rank', 'host', ...columns.slice(1)].map(key => up.columnOf(key, keys.indexOf(key)));
    table.setData(shown, rows.map(row => [...row, host.get(row[0]) ?? '']), {key: 'rank', descending: false});
  }

  function drawProcesses(table, {ranks}) {
    const cell = (rank, key) => (key === 'ended' ? up.text(rank.ended ? 'ui.yes' : 'ui.no') : rank[key]);
    table.setData(PROCESS.map(up.columnOf), ranks.map(rank => PROCESS.map(key => cell(rank, key))), {key: 'rank', descending: false});
  }

  up.ranksPage = ranksPage;
})(window.unifiedProfilerReport ??= {});
