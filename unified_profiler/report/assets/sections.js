'use strict';
/* The sections with tables and canvases: each function sets one up and returns what draws it again (language, colors). */
(up => {
  const HOST = ['self_cpu_share', 'self_cpu_ns', 'cpu_share', 'cpu_ns', 'cpu_average_ns'];
  const DEVICE = ['self_device_share', 'self_device_ns', 'device_ns', 'device_average_ns'];
  const OTHERS = [
    'self_share', 'self_ns', 'total_ns', 'mean_ns', 'min_ns', 'max_ns', 'call_count', 'self_cpu_bytes', 'cpu_bytes', 'self_device_bytes',
    'device_bytes', 'flops',
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

  /** Whether a device did something: then its columns come first. */
  const hasDevice = ({columns, rows}) => columns.includes('self_device_ns') && up.saysAnything(rows, columns.indexOf('self_device_ns'));

  /** The columns to show: keys first, then those which say anything; on a phone numbers before words. */
  function columnsOf(table, keys) {
    const order = ['category', 'framework', ...(hasDevice(table) ? [...DEVICE, ...HOST] : [...HOST, ...DEVICE]), ...OTHERS];
    const others = up.isNarrow() ? [...order.filter(key => !KINDS[key]), ...order.filter(key => KINDS[key])] : order;
    const present = [...keys, ...others].filter(key => table.columns.includes(key));
    const columns = present.map(key => columnOf(key, table.columns.indexOf(key)));
    return columns.filter(({key, index}) => keys.includes(key) || key === 'call_count' || up.saysAnything(table.rows, index));
  }

  const rankOptions = (ranks, withAll) => [
    ...(withAll ? [['', up.text('ui.all_ranks')]] : []),
    ...ranks.map(rank => [String(rank), String(rank)]),
  ];
  const chosenRank = select => (select.value === '' ? null : Number(select.value));

  /**
   * Tools and table of operators or API calls.
   * @param {Function} choose  () -> {tables, keys}: a table per rank and their key columns
   * @param {string[]} firstOrder  the columns to sort by at first: of a table of devices `self_device_ns`, else the first that it has
   */
  function tableSection(id, choose, firstOrder) {
    const part = name => up.byId(`${id}-${name}`);
    const [table, rank, search] = [new up.DataTable(part('table')), part('rank'), part('search')];
    const kept = /^(-?)(\w+)$/.exec(up.chosenInAddress(`${id}-sort`) ?? '');
    table.onsort = ({key, descending}) => up.keepInAddress({[`${id}-sort`]: (descending ? '-' : '') + key});
    table.onchange = (shown, all) => { part('count').textContent = up.text('ui.rows_of', {shown_count: shown, all_count: all}); };
    const draw = () => {
      const {tables, keys} = choose();
      up.fillSelect(rank, tables.map(found => [found.rank ?? '', found.rank === null ? up.text('ui.all_ranks') : String(found.rank)]));
      const chosen = tables.find(found => found.rank === chosenRank(rank)) ?? tables[0];
      const columns = columnsOf(chosen, keys);
      const first = hasDevice(chosen) ? ['self_device_ns', ...firstOrder] : firstOrder;
      const key = [kept?.[2], ...first].find(wanted => columns.some(column => column.key === wanted)) ?? columns.at(-1).key;
      table.setData(columns, chosen.rows, {key, descending: key === kept?.[2] ? kept[1] === '-' : true});
      const nothing = chosen.rows.length ? '' : up.text('ui.nothing');
      part('left-out').textContent = chosen.left_out ? up.text('ui.left_out.rows', {left_count: chosen.left_out}) : nothing;
    };
    table.onclear = () => up.write(search, '');
    up.keepField(search, () => table.setSearch(search.value));
    table.search = search.value.trim().toLowerCase();
    draw();
    up.keepChoice(rank, 'rank');
    rank.addEventListener('change', draw);
    copyButton(part('copy'), () => table.toText());
    draw();
    return {table, draw};
  }

  function copyButton(button, text) {
    button.hidden = !navigator.clipboard;
    button.addEventListener('click', async () => {
      const done = await navigator.clipboard.writeText(text()).then(() => 'ui.copied', () => 'ui.not_copied');
      button.firstElementChild.textContent = up.text(done);
      setTimeout(() => { button.firstElementChild.textContent = up.text('ui.copy'); }, 2000);
    });
  }

  const apiSection = ({api}) => tableSection('api', () => ({tables: api, keys: ['name']}), ['self_ns', 'total_ns']).draw;

  /** What all canvases have: search, reset, the chosen slice in words, the legend, what was left out, and the zoom in the address. */
  function slicesSection(id, document, on) {
    const part = name => up.byId(`${id}-${name}`);
    const says = on.describe ?? describe;
    const keepZoom = up.later(zoom => up.keepInAddress({[id]: zoom}), 300);
    const view = new up.SlicesView(part('canvas'), document.categories, {
      describe: says,
      choose: slice => { part('detail').textContent = slice < 0 ? '' : sentenceOf(says(view.slices, slice)); on.choose?.(slice); },
      activate: on.activate,
      look: (from, to) => keepZoom(view.isWhole() ? '' : `${Math.round(from)}-${Math.round(to)}`),
    });
    const search = () => {
      view.setSearch(part('search').value);
      part('count').textContent = view.flags ? up.text('ui.slices.found', {found_count: view.slices.countOf(view.flags)}) : '';
    };
    up.keepField(part('search'), search);
    part('reset').addEventListener('click', () => { view.choose(-1); view.reset(); });
    const annotate = () => {
      const {source} = view.slices;
      const entry = index => up.element('li', {}, up.categoryMark(document.categories[index]));
      part('legend').replaceChildren(...view.slices.categories().map(entry));
      part('left-out').textContent = [leftOut(source), id === 'timeline' ? up.text('ui.timeline.view') : ''].filter(Boolean).join(' ');
    };
    let zoom = /^(\d+)-(\d+)$/.exec(up.chosenInAddress(id) ?? '');
    return {
      view,
      show(slices) {
        view.setSlices(slices);
        part('detail').textContent = '';
        annotate();
        search();
        if (zoom) view.look(Number(zoom[1]), Number(zoom[2]));
        zoom = null;
      },
      refresh() {
        if (!view.slices) return;
        annotate();
        search();
        view.refresh();
        if (view.selected >= 0) view.on.choose(view.selected);
      },
      /** Highlight what a text finds, and choose the longest of it. */
      find(text) {
        up.write(part('search'), text);
        search();
        view.choose(view.flags ? view.slices.longest(view.flags) : -1);
      },
      goTo() {
        part('canvas').closest('section, .part').scrollIntoView({block: 'start'});
        part('canvas').focus({preventScroll: true});
      },
    };
  }

  function leftOut({left_out: left}) {
    if (left?.count) return up.text('ui.left_out.slices', {left_count: left.count, self_ns: left.self_ns});
    return left?.self_ns ? up.text('ui.left_out.self', {self_ns: left.self_ns}) : '';
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
    for (const [column, found] of [['module', slices.text(slice, 'module')], ['input_shapes', slices.text(slice, 'shapes', 'shapes')]]) {
      if (found) pairs.push(pair(`column.${column}`, up.visible(found, 400)));
    }
    return [slices.label(slice), ...pairs];
  }

  function sentenceOf([name, ...pairs]) {
    return [name, ...pairs.map(([label, value]) => `${label} ${value}`)].join(up.text('ui.slices.separator'));
  }

  /** Decode slices when they are first shown; `changed` makes another source of one, `label` is that of Slices. */
  function decoder(document, {changed = source => source, label} = {}) {
    const decoded = new Map();
    return source => {
      if (!decoded.has(source)) decoded.set(source, new up.Slices(changed(source), document.categories, label));
      return decoded.get(source);
    };
  }

  /** The call tree, from the top down or from the bottom up. */
  function flameSection(document) {
    const decode = decoder(document);
    const decodeUpsideDown = decoder(document, {changed: source => up.fromBottomUp(decode(source))});
    const [rank, direction] = [up.byId('flame-rank'), up.byId('flame-direction')];
    const isUpsideDown = () => direction.querySelector('input:checked').value === 'bottom';
    const draw = () => up.fillSelect(rank, rankOptions(document.flames.map(flame => flame.rank), false));
    const section = slicesSection('flame', document, {
      choose: () => drawPath(), activate: slice => section.view.zoomTo(slice),
      describe: (slices, slice) => (isUpsideDown() ? describeSelf(slices, slice) : describe(slices, slice)),
    });
    const drawPath = () => {
      const {slices, selected} = section.view;
      const zoom = slice => { section.view.choose(slice); section.view.zoomTo(slice); };
      const name = slice => up.nameElement(slices.label(slice), {most: 40});
      const step = slice => up.element('li', {}, up.element('button', {type: 'button', onclick: () => zoom(slice)}, name(slice)));
      up.byId('flame-path').replaceChildren(...(selected < 0 ? [] : slices.path(selected)).map(step));
    };
    const chosen = () => document.flames.find(flame => flame.rank === Number(rank.value));
    const show = () => {
      up.byId('flame-lead').firstElementChild.dataset.text = isUpsideDown() ? 'ui.flame.lead_bottom' : 'ui.flame.lead';
      up.translatePage();
      section.show((isUpsideDown() ? decodeUpsideDown : decode)(chosen()));
      drawPath();
    };
    direction.querySelector(`[value="${up.chosenInAddress('flame-direction') === 'bottom' ? 'bottom' : 'top'}"]`).checked = true;
    direction.addEventListener('change', () => { up.keepInAddress({'flame-direction': isUpsideDown() ? 'bottom' : ''}); show(); });
    draw();
    up.keepChoice(rank, 'rank');
    rank.addEventListener('change', show);
    show();
    return {
      find: section.find, goTo: section.goTo, slices: () => decode(chosen()),
      draw: () => { draw(); section.refresh(); },
    };
  }

  /** In the tree from the bottom up: how much self time of the name at its root came this way. */
  function describeSelf(slices, slice) {
    const whole = slices.source.duration || 1;
    const root = slices.path(slice)[0];
    const spent = `${up.duration(slices.duration(slice))} (${up.share(slices.duration(slice) / whole)})`;
    return [
      slices.label(slice),
      [root === slice ? up.text('ui.slices.self') : up.text('ui.flame.self_of', {name: slices.label(root)}), spent],
      [up.text('column.call_count'), up.count(slices.calls(slice))],
      [up.text('column.category'), up.word('category', slices.categoryName(slice))],
    ];
  }

  Object.assign(up, {apiSection, flameSection, tableSection, slicesSection, rankOptions, chosenRank, decoder, columnOf});
})(window.unifiedProfilerReport ??= {});
