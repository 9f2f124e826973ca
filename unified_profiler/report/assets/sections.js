'use strict';
/* The sections with tables and canvases: each function sets one up and returns what draws it again (language, colors). */
(up => {
  const KEYS = {name: ['name'], op: ['op'], shapes: ['name', 'input_shapes'], module: ['module']};
  const ORDER = [
    'category', 'framework', 'self_cpu_share', 'self_cpu_ns', 'cpu_share', 'cpu_ns', 'cpu_average_ns',
    'self_share', 'self_ns', 'total_ns', 'mean_ns', 'min_ns', 'max_ns', 'call_count', 'self_device_share', 'self_device_ns',
    'device_ns', 'device_average_ns', 'self_cpu_bytes', 'cpu_bytes', 'self_device_bytes', 'device_bytes', 'flops',
  ];
  const KINDS = {
    name: 'name', op: 'name', module: 'name', host: 'name', input_shapes: 'name', framework: 'text', category: 'category', ended: 'text',
    device: 'text', cause: 'category', host_activity: 'name', host_region: 'text', host_source: 'name', kernel: 'name', operator: 'name',
    memory: 'text', collective: 'name', shapes: 'text',
  };

  const kindOf = key => KINDS[key] ?? (key.endsWith('_share') ? 'share' : 'number');

  /** A column of a table, by its key and its position in the rows. */
  const columnOf = (key, index) => ({
    key, index, kind: kindOf(key), title: up.text(`column.${key}`), hint: up.has(`hint.${key}`) ? up.text(`hint.${key}`) : null,
  });

  /** The columns to show: keys first, then those which say anything; on a phone numbers before words. */
  function columnsOf(table, keys) {
    const others = up.isNarrow() ? [...ORDER.filter(key => !KINDS[key]), ...ORDER.filter(key => KINDS[key])] : ORDER;
    const present = [...keys, ...others].filter(key => table.columns.includes(key));
    const columns = present.map(key => columnOf(key, table.columns.indexOf(key)));
    return columns.filter(({key, index}) => keys.includes(key) || key === 'call_count' || up.saysAnything(table.rows, index));
  }

  const rankOptions = (ranks, withAll) => [
    ...(withAll ? [['', up.text('ui.all_ranks')]] : []),
    ...ranks.map(rank => [String(rank), String(rank)]),
  ];
  const chosenRank = select => (select.value === '' ? null : Number(select.value));

  /** Tools and table of operators or API calls; `choose` gives the rank tables and their key columns. */
  function tableSection(id, choose, firstOrder) {
    const table = new up.DataTable(up.byId(`${id}-table`));
    const rank = up.byId(`${id}-rank`);
    table.onchange = (shown, all) => { up.byId(`${id}-count`).textContent = up.text('ui.rows_of', {shown_count: shown, all_count: all}); };
    const draw = () => {
      const {tables, keys} = choose();
      up.fillSelect(rank, tables.map(found => [found.rank ?? '', found.rank === null ? up.text('ui.all_ranks') : String(found.rank)]));
      const chosen = tables.find(found => found.rank === chosenRank(rank)) ?? tables[0];
      const columns = columnsOf(chosen, keys);
      const key = firstOrder.find(wanted => columns.some(column => column.key === wanted)) ?? columns.at(-1).key;
      table.setData(columns, chosen.rows, {key, descending: true});
      const nothing = chosen.rows.length ? '' : up.text('ui.nothing');
      up.byId(`${id}-left-out`).textContent = chosen.left_out ? up.text('ui.left_out.rows', {left_count: chosen.left_out}) : nothing;
    };
    rank.addEventListener('change', draw);
    up.byId(`${id}-search`).addEventListener('input', up.later(event => table.setSearch(event.target.value), 60));
    copyButton(up.byId(`${id}-copy`), () => table.toText());
    draw();
    return draw;
  }

  function copyButton(button, text) {
    button.hidden = !navigator.clipboard;
    button.addEventListener('click', async () => {
      const done = await navigator.clipboard.writeText(text()).then(() => 'ui.copied', () => 'ui.not_copied');
      button.firstElementChild.textContent = up.text(done);
      setTimeout(() => { button.firstElementChild.textContent = up.text('ui.copy'); }, 2000);
    });
  }

  function operatorsSection({operators}) {
    const grouping = up.byId('operators-grouping');
    const chosen = () => grouping.querySelector('input:checked').value;
    const empty = [{rank: null, columns: ['name'], rows: [], left_out: 0}];
    const choose = () => ({tables: operators[chosen()].length ? operators[chosen()] : empty, keys: KEYS[chosen()]});
    const draw = tableSection('operators', choose, ['self_cpu_ns', 'self_device_ns', 'call_count']);
    grouping.addEventListener('change', draw);
    return draw;
  }

  const apiSection = ({api}) => tableSection('api', () => ({tables: api, keys: ['name']}), ['self_ns', 'total_ns']);

  /** What both canvases have: search, reset, the chosen slice in words, the legend, what was left out. */
  function slicesSection(id, document, on) {
    const part = name => up.byId(`${id}-${name}`);
    const view = new up.SlicesView(part('canvas'), document.categories, {
      describe: on.describe ?? describe,
      choose: slice => { part('detail').textContent = slice < 0 ? '' : sentenceOf((on.describe ?? describe)(view.slices, slice)); on.choose?.(slice); },
      activate: on.activate,
    });
    const search = () => {
      view.setSearch(part('search').value);
      part('count').textContent = view.flags ? up.text('ui.slices.found', {found_count: view.slices.countOf(view.flags)}) : '';
    };
    part('search').addEventListener('input', up.later(search, 60));
    part('reset').addEventListener('click', () => { view.choose(-1); view.reset(); });
    const annotate = () => {
      const {source} = view.slices;
      const entry = index => up.element('li', {}, up.categoryMark(document.categories[index]));
      part('legend').replaceChildren(...view.slices.categories().map(entry));
      part('left-out').textContent = [
        source.left_out?.count ? up.text('ui.left_out.slices', {left_count: source.left_out.count, self_ns: source.left_out.self_ns}) : '',
        id === 'timeline' ? up.text('ui.timeline.view') : '',
      ].filter(Boolean).join(' ');
    };
    return {
      view,
      show(slices) { view.setSlices(slices); part('detail').textContent = ''; annotate(); search(); },
      refresh() { if (view.slices) { annotate(); search(); view.refresh(); if (view.selected >= 0) view.on.choose(view.selected); } },
    };
  }

  /** The name, then [label, value] pairs. */
  function describe(slices, slice) {
    const whole = slices.source.duration || 1;
    const pair = (key, value) => [up.text(key), value];
    const pairs = [
      pair('ui.slices.total', `${up.duration(slices.duration(slice))} (${up.share(slices.duration(slice) / whole)})`),
      pair('ui.slices.self', `${up.duration(slices.self(slice))} (${up.share(slices.self(slice) / whole)})`),
      pair('column.category', up.word('category', slices.categoryName(slice))),
    ];
    if (slices.calls(slice) !== null) pairs.push(pair('column.call_count', up.count(slices.calls(slice))));
    else pairs.push(pair('ui.slices.start', `${slices.start[slice] < 0 ? '' : '+'}${up.duration(slices.start[slice])}`));
    if (slices.detail(slice)) pairs.push(pair('ui.slices.detail', up.visible(slices.detail(slice), 400)));
    return [up.visible(slices.source.names[slices.name[slice]]), ...pairs];
  }

  function sentenceOf([name, ...pairs]) {
    return [name, ...pairs.map(([label, value]) => `${label} ${value}`)].join(up.text('ui.slices.separator'));
  }

  /** Decode slices when they are first shown. */
  function decoder(document) {
    const decoded = new Map();
    return source => {
      if (!decoded.has(source)) decoded.set(source, new up.Slices(source, document.categories));
      return decoded.get(source);
    };
  }

  function flameSection(document) {
    const decode = decoder(document);
    const rank = up.byId('flame-rank');
    const draw = () => up.fillSelect(rank, rankOptions(document.flames.map(flame => flame.rank), false));
    const section = slicesSection('flame', document, {choose: () => drawPath(), activate: slice => section.view.zoomTo(slice)});
    const drawPath = () => {
      const {slices, selected} = section.view;
      const zoom = slice => { section.view.choose(slice); section.view.zoomTo(slice); };
      const name = slice => up.nameElement(slices.source.names[slices.name[slice]], 40);
      const step = slice => up.element('li', {}, up.element('button', {type: 'button', onclick: () => zoom(slice)}, name(slice)));
      up.byId('flame-path').replaceChildren(...(selected < 0 ? [] : slices.path(selected)).map(step));
    };
    const show = () => { section.show(decode(document.flames.find(flame => flame.rank === Number(rank.value)))); drawPath(); };
    rank.addEventListener('change', show);
    draw();
    show();
    return () => { draw(); section.refresh(); };
  }

  Object.assign(up, {operatorsSection, apiSection, flameSection, slicesSection, rankOptions, chosenRank, decoder, columnOf});
})(window.unifiedProfilerReport ??= {});
