'use strict';
/* Interaction on a diff page: folding, searching and sorting rows, and choosing a language and a color theme. */
(up => {
  const root = document.documentElement;
  const {byId} = up;
  const [table, body, search, onlyDiffering] = ['tree', 'tree-rows', 'search', 'only-differs'].map(byId);
  const columns = [...table.tHead.querySelectorAll('[data-column]')];
  const tree = {wanted: true, children: []};
  const nodes = [...body.rows].map(row => ({
    row, level: Number(row.dataset.level), name: '', button: row.querySelector('button'),
    differs: row.classList.contains('differs'), alone: Boolean(row.querySelector('.only')), children: [], open: true,
  }));
  let before = null;  // which rows were open when a search began

  function grow() {
    const path = [tree];
    for (const node of nodes) {
      path.length = node.level + 1;
      path[node.level].children.push(node);
      path.push(node);
    }
    const partLevel = Number(table.dataset.partLevel);
    /* Two frameworks have different operators below the same row: that alone is no difference of the row. */
    const counts = child => child.differsWithin && !(child.alone && child.level === partLevel);
    eachFromBelow(node => {
      node.differsWithin = node.differs || node.children.some(counts);
      node.open = node.children.some(child => child.children.length) && node.differsWithin;
    });
  }

  function eachFromBelow(visit) { for (let at = nodes.length; at--;) visit(nodes[at]); }

  /** Show what is wanted and in open rows; what a search finds opens the rows around it. */
  function show() {
    let found = 0;
    const words = search.value.trim().toLowerCase();
    const below = (parent, open, matched) => {
      for (const node of parent.children) {
        const matches = matched || node.name.includes(words);
        node.wanted = parent.wanted && (matches || node.foundWithin) && (node.differsWithin || !onlyDiffering.checked);
        node.row.hidden = !(node.wanted && open);
        node.button?.setAttribute('aria-expanded', node.open);
        found += node.wanted;
        below(node, open && node.open, matches);
      }
    };
    below(tree, true, false);
    byId('count').textContent = up.text('ui.diff.rows_of', {shown_count: found, all_count: nodes.length});
    byId('no-match').replaceChildren(...(words && !found ? [up.noMatch(search.value, () => up.write(search, ''))] : []));
  }

  function searched() {
    const words = search.value.trim().toLowerCase();
    if (words) before ??= nodes.map(node => node.open);
    else if (before) { nodes.forEach((node, at) => { node.open = before[at]; }); before = null; }
    eachFromBelow(node => {
      node.foundBelow = Boolean(words) && node.children.some(child => child.foundWithin);
      node.foundWithin = Boolean(words) && (node.foundBelow || node.name.includes(words));
      node.open ||= node.foundBelow;
    });
    show();
  }

  function foldAll(open) { nodes.forEach(node => { node.open = open; }); show(); }

  /** Sort by a column, by default the largest first and names from A to Z; by one that is sorted, in the other direction. */
  function choose(column) {
    const heading = column.closest('th');
    const others = {ascending: 'descending', descending: 'ascending'};
    sort(heading, others[heading.ariaSort] ?? (heading.cellIndex ? 'descending' : 'ascending'));
    up.keepInAddress({sort: column.dataset.column, order: heading.ariaSort});
  }

  /** Sort within each level; what is not known comes last. */
  function sort(heading, direction) {
    const at = heading.cellIndex;
    const largestFirst = direction === 'descending';
    for (const other of heading.parentElement.cells) other.ariaSort = null;
    heading.ariaSort = direction;
    const value = node => (at ? parseFloat(node.row.cells[at].dataset.value) : node.name);
    const sign = largestFirst ? -1 : 1;
    const order = (a, b) => Number.isNaN(a) - Number.isNaN(b) || (a > b ? sign : a < b ? -sign : 0);
    const place = children => {
      children.sort((left, right) => order(value(left), value(right)));
      for (const node of children) { body.append(node.row); place(node.children); }
    };
    place(tree.children);
  }

  function listen() {
    for (const column of columns) {
      const button = up.element('button', {type: 'button', onclick: () => choose(column)});
      column.replaceWith(button);
      button.append(column);
    }
    const of = new Map(nodes.map(node => [node.row, node]));
    body.addEventListener('click', ({target}) => {
      const node = of.get(target.closest('th')?.parentElement);
      if (!node?.button || (target !== node.button && String(getSelection()))) return;
      node.open = !node.open;
      show();
    });
    const keepSearch = up.later(() => up.keepInAddress({search: search.value.trim()}), 300);  // browsers limit how often
    search.addEventListener('input', () => { searched(); keepSearch(); });
    onlyDiffering.addEventListener('change', () => { show(); up.keepInAddress({rows: onlyDiffering.checked && 'different'}); });
    for (const [id, open] of [['fold', false], ['unfold', true]]) {
      byId(id).hidden = !nodes.some(node => node.button);
      byId(id).addEventListener('click', () => foldAll(open));
    }
  }

  /** Put all texts in a language. Names of rows may be words of it, so their order by name and what a search finds may change. */
  function useLanguage(language) {
    up.setLanguage(language);
    up.translatePage();
    for (const node of nodes) node.name = node.row.cells[0].title.toLowerCase();
    const [byName] = table.tHead.rows[0].cells;
    if (byName.ariaSort) sort(byName, byName.ariaSort);
    searched();
  }

  /** Show the view that the address names: what is sought, whether all rows are listed, and their order. */
  function followAddress() {
    search.value = up.chosenInAddress('search') ?? '';
    onlyDiffering.checked = up.chosenInAddress('rows') === 'different';
    searched();
    const sorted = columns.find(column => column.dataset.column === up.chosenInAddress('sort'));
    if (sorted) sort(sorted.closest('th'), up.chosenInAddress('order') === 'ascending' ? 'ascending' : 'descending');
  }

  function settings() {
    const language = byId('language');
    language.value = up.chosenInAddress('language');
    if (language.selectedIndex < 0) language.value = root.lang.slice(0, 2);
    up.useTexts(JSON.parse(byId('translations').textContent), language.value);
    useLanguage(language.value);
    language.addEventListener('change', () => { useLanguage(language.value); up.keepInAddress({language: language.value}); });
    up.themeChoice(byId('theme'));
  }

  grow();
  listen();
  up.markCutEdge(table.parentElement);
  up.keyboardHelp({
    dialog: byId('keys'), button: byId('keys-button'), search: () => search,
    keys: [[['/'], 'ui.keys.search'], [['Enter', 'Space'], 'ui.keys.fold'], [['?'], 'ui.keys.overview'], [['Esc'], 'ui.keys.close']],
  });
  settings();
  followAddress();
  root.dataset.ready = 'complete';
})(window.unifiedProfilerReport);
