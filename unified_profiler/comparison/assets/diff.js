'use strict';
/* Interaction on a diff page: folding, searching and sorting rows, and choosing a color theme. */
(() => {
  const root = document.documentElement;
  const byId = id => document.getElementById(id);
  const [table, body, search, onlyDiffering, count] = ['tree', 'tree-rows', 'search', 'only-differs', 'count'].map(byId);
  const tree = {wanted: true, children: []};
  const nodes = [...body.rows].map(row => ({
    row, level: Number(row.dataset.level), name: row.cells[0].title.toLowerCase(), button: row.querySelector('button'),
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
    count.textContent = count.dataset.text.replace('{shown_count}', found.toLocaleString(root.lang))
      .replace('{all_count}', nodes.length.toLocaleString(root.lang));
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

  /** Sort by a column within each level: the largest first, names from A to Z, and what is not known last. */
  function sort(heading) {
    const at = heading.cellIndex;
    const largestFirst = heading.ariaSort ? heading.ariaSort === 'ascending' : at > 0;
    for (const other of heading.parentElement.cells) other.ariaSort = null;
    heading.ariaSort = largestFirst ? 'descending' : 'ascending';
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
    for (const title of table.tHead.querySelectorAll('[data-column]')) {
      const button = document.createElement('button');
      button.type = 'button';
      title.replaceWith(button);
      button.append(title);
      button.addEventListener('click', () => sort(button.parentElement));
    }
    const of = new Map(nodes.map(node => [node.row, node]));
    body.addEventListener('click', ({target}) => {
      const node = of.get(target.closest('th')?.parentElement);
      if (!node?.button || (target !== node.button && String(getSelection()))) return;
      node.open = !node.open;
      show();
    });
    search.addEventListener('input', searched);
    onlyDiffering.addEventListener('change', show);
    for (const [id, open] of [['fold', false], ['unfold', true]]) {
      byId(id).hidden = !nodes.some(node => node.button);
      byId(id).addEventListener('click', () => foldAll(open));
    }
  }

  function useTheme(theme) {
    if (theme === 'auto') delete root.dataset.theme; else root.dataset.theme = theme;
  }

  function settings() {
    const theme = byId('theme');
    theme.value = root.dataset.theme ?? 'auto';
    theme.addEventListener('change', () => {
      useTheme(theme.value);
      try {
        localStorage.setItem('unified-profiler-theme', theme.value === 'auto' ? '' : theme.value);
      } catch { /* it holds until the page is closed */ }
    });
    addEventListener('beforeprint', () => useTheme('light'));
    addEventListener('afterprint', () => useTheme(theme.value));
  }

  grow();
  listen();
  settings();
  searched();
  root.dataset.ready = 'complete';
})();
