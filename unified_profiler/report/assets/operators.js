'use strict';
/* The table of operators, and what is known of the selected one: who calls it, what it calls, where it is drawn. */
(up => {
  const KEYS = {name: ['name'], op: ['op'], shapes: ['name', 'input_shapes'], module: ['module']};
  const RECORDED_BY = {shapes: 'input_shapes', module: 'module'};  // groupings that need an option, and their column
  const MOST_CALLS = 10;
  const empty = [{rank: null, columns: ['name'], rows: [], left_out: 0}];

  /** @param {object} pictures  the sections of the call tree and the timeline, which find a name; null if there is none */
  function operatorsSection({operators, ops}, {flame, timeline}) {
    const grouping = up.byId('operators-grouping');
    const radio = name => grouping.querySelector(`[value=${name}]`);
    const grouped = () => grouping.querySelector('input:checked').value;
    const tablesOf = name => (operators[name].length ? operators[name] : empty);
    for (const name of Object.keys(RECORDED_BY)) radio(name).disabled = !isRecorded(tablesOf(name)[0], RECORDED_BY[name]);
    const wanted = up.chosenInAddress('operators-grouping');
    if (wanted in KEYS && !radio(wanted).disabled) radio(wanted).checked = true;
    const {table, draw} = up.tableSection('operators', () => ({tables: tablesOf(grouped()), keys: KEYS[grouped()]}), ['self_cpu_ns', 'call_count']);

    const namesOf = row => (grouped() === 'op' ? Object.keys(ops).filter(name => ops[name] === row[0]) : row.slice(0, 1).filter(Boolean));
    let selected = null;
    const panel = up.byId('operators-detail');
    const drawDetail = () => panel.replaceChildren(...(selected === null ? [] : detail(selected)));
    table.selectable(row => {
      selected = row;
      up.keepInAddress({operator: row === null ? '' : row[0]});
      const text = row === null ? '' : namesOf(row).map(name => `"${name}"`).join(' | ');
      for (const picture of [flame, timeline]) picture?.find(text);
      drawDetail();
      keepRowInSight();
    });

    /** Scroll the page if the panel, which stays at the lower edge of the window, covers the selected row. */
    function keepRowInSight() {
      const row = up.byId('operators-table').querySelector('tbody [aria-current]');
      const covered = row && selected ? row.getBoundingClientRect().bottom - panel.getBoundingClientRect().top : 0;
      if (covered > 0) scrollBy({top: covered});
    }

    /** The heading, the ways to the pictures, and callers and callees side by side. */
    function detail(row) {
      const go = (picture, key) => picture && up.element('button', {type: 'button', onclick: () => picture.goTo()}, up.text(key));
      const key = KEYS[grouped()][0];
      const title = up.element('h3', {}, row[0] ? up.nameElement(row[0], {most: 120}) : up.nothing(key));
      const ways = namesOf(row).length ? [go(flame, 'ui.operators.in_flame'), go(timeline, 'ui.operators.in_timeline')] : [];
      const close = up.element('button', {type: 'button', class: 'close', 'aria-label': up.text('ui.operators.close'), onclick: () => table.select(table.selected)}, '×');
      const calls = flame && grouped() !== 'module' ? up.callsOf(flame.slices(), name => namesOf(row).includes(name)) : [[], []];
      const tables = calls.map((rows, at) => callTable(rows, at ? 'ui.operators.callees' : 'ui.operators.callers'));
      return [up.element('div', {class: 'ways'}, title, ...ways.filter(Boolean), close), up.element('div', {class: 'columns even'}, ...tables)];
    }

    function callTable(rows, key) {
      if (!rows.length) return null;
      const cells = rows.slice(0, MOST_CALLS).map(({name, label, duration, calls}) => [nameButton(name, label), up.duration(duration), up.count(calls)]);
      const more = {left_count: rows.length - cells.length};
      const headings = [up.text(key), up.text('ui.slices.total'), up.text('column.call_count')];
      return up.element('div', {}, up.plainTable(headings, cells, up.text(key)),
        more.left_count > 0 ? up.element('p', {class: 'note'}, up.text('ui.chart.more_rows', more)) : null);
    }

    /** A name that selects its own row, if it has one. */
    function nameButton(name, label) {
      if (name === null) return up.text('ui.operators.outermost');
      const has = tablesOf('name').some(({rows}) => rows.some(([found]) => found === name));
      const shown = up.nameElement(label, {most: 60});
      return has ? up.element('button', {type: 'button', class: 'link', onclick: () => select(name)}, shown) : shown;
    }

    function select(name) {
      if (grouped() !== 'name') { radio('name').checked = true; regroup(); }
      const row = table.rows.findIndex(([found]) => found === name);
      if (row >= 0 && !table.order.includes(row)) { up.byId('operators-search').value = ''; table.setSearch(''); }
      if (row >= 0 && row !== table.selected) table.select(row);
    }

    function regroup() {
      up.keepInAddress({'operators-grouping': grouped() === 'name' ? '' : grouped()});
      draw();
    }

    grouping.addEventListener('change', regroup);
    const named = up.chosenInAddress('operator');
    const first = named ? table.rows.findIndex(([found]) => found === named) : -1;
    if (first >= 0) table.select(first);
    return () => { draw(); drawDetail(); };
  }

  const isRecorded = ({columns, rows}, key) => up.saysAnything(rows, columns.indexOf(key));

  Object.assign(up, {operatorsSection, isRecorded});
})(window.unifiedProfilerReport ??= {});
