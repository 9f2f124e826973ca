'use strict';
/* A table of any length: only the rows in view are in the page. Columns sort; the key columns can be searched. */
(up => {
  const ROW_HEIGHT = 30;
  const MARGIN_ROWS = 8;
  const WIDTHS = {name: 200, text: 150, category: 216, share: 92, number: 118};
  const NUMBER_WIDTHS = {ns: 106, bytes: 126, flops: 92, count: 92};  // by the end of the key
  const NARROW_NAME = 170;

  class DataTable {
    /** @param {HTMLElement} host  is filled; must have a label for screen readers */
    constructor(host) {
      this.head = up.element('thead');
      this.body = up.element('tbody');
      this.columnWidths = up.element('colgroup');
      this.table = up.element('table', {}, this.columnWidths, this.head, this.body);
      const label = host.getAttribute('aria-label');
      this.noMatch = up.element('div', {role: 'status'});
      this.window = up.element('div', {class: 'table-window', tabindex: 0, role: 'region', 'aria-label': label}, this.table, this.noMatch);
      this.window.addEventListener('scroll', () => requestAnimationFrame(() => this.drawRows()), {passive: true});
      host.classList.add('data-table');
      host.replaceChildren(this.window);
      up.markCutEdge(this.window);
      this.search = '';
      this.columns = this.rows = this.order = [];
      this.onchange = this.onsort = this.onselect = this.onclear = () => {};
      this.selected = -1;
    }

    /** Let rows be selected by a click and by the arrow keys; `onselect` gets the cells of the row, or null. */
    selectable(onselect) {
      this.onselect = onselect;
      this.table.classList.add('selectable');
      this.body.addEventListener('click', ({target}) => {
        const row = target.closest('tr')?.dataset.row;
        if (row !== undefined && !String(getSelection())) this.select(Number(row));
      });
      this.window.addEventListener('keydown', event => {
        const by = {ArrowDown: 1, ArrowUp: -1}[event.key];
        if (event.key === 'Escape' && this.selected >= 0) this.select(this.selected);
        if (!by || event.target !== this.window) return;
        event.preventDefault();
        const at = this.order.indexOf(this.selected);
        const next = this.order[Math.min(Math.max(at + by, 0), this.order.length - 1)];
        if (next !== undefined) this.select(next);
      });
    }

    /** Select a row; a selected one is no longer selected. */
    select(row) {
      this.selected = row === this.selected ? -1 : row;
      this.reveal(this.order.indexOf(this.selected));
      this.drawRows();
      this.onselect(this.rows[this.selected] ?? null);
    }

    reveal(position) {
      if (position < 0) return;
      const [top, height] = [position * ROW_HEIGHT, this.window.clientHeight - this.head.offsetHeight - ROW_HEIGHT];
      if (top < this.window.scrollTop) this.window.scrollTop = top;
      if (top > this.window.scrollTop + height) this.window.scrollTop = top - height;
    }

    /**
     * Show other data. The search stays, and so does the order if its column is still there.
     * @param {object[]} columns  {key, title, kind, index}: kind is one of WIDTHS, index the position in a row
     * @param {object} sort  {key, descending}: the order to begin with
     */
    setData(columns, rows, sort) {
      if (rows !== this.rows && this.selected >= 0) this.select(this.selected);
      Object.assign(this, {columns, rows, haystack: null});
      if (!columns.some(column => column.key === this.sort?.key)) this.sort = {...sort};
      this.window.setAttribute('aria-label', this.window.parentElement.getAttribute('aria-label'));
      this.drawHead();
      this.arrange();
    }

    setSearch(search) {
      this.search = search.trim().toLowerCase();
      this.arrange();
    }

    sortBy(key) {
      const numeric = ['share', 'number'].includes(this.columns.find(column => column.key === key).kind);
      const descending = this.sort.key === key ? !this.sort.descending : numeric;
      this.sort = {key, descending};
      this.onsort(this.sort);
      this.drawHead();
      this.head.querySelector(`button[data-column="${CSS.escape(key)}"]`).focus({preventScroll: true});
      this.arrange();
    }

    /** Find the rows to show, in their order. */
    arrange() {
      const column = this.columns.find(found => found.key === this.sort?.key);
      this.order = [...this.rows.keys()].filter(row => this.matches(row));
      if (column) this.order.sort(this.comparison(column));
      if (this.selected >= 0 && !this.order.includes(this.selected)) this.select(this.selected);
      this.table.setAttribute('aria-rowcount', this.order.length + 1);
      this.window.scrollTop = 0;
      this.drawRows();
      this.onchange(this.order.length, this.rows.length);
    }

    matches(row) {
      if (!this.search) return true;
      this.haystack ??= this.rows.map(cells => this.searched().map(column => searchable(column, cells)).join('\n').toLowerCase());
      return this.haystack[row].includes(this.search);
    }

    searched() {
      return this.columns.filter(column => ['name', 'text', 'category'].includes(column.kind));
    }

    /** What is not known comes last, in both directions; what is equal stays in the order of the file. */
    comparison({index, kind}) {
      const sign = this.sort.descending ? -1 : 1;
      const value = kind === 'category' ? row => up.word('category', this.rows[row][index]) : row => this.rows[row][index];
      return (left, right) => {
        const [a, b] = [value(left) ?? null, value(right) ?? null];
        if (a === null || b === null) return (a === null) - (b === null) || left - right;
        return sign * (typeof a === 'number' ? a - b : String(a).localeCompare(String(b))) || left - right;
      };
    }

    drawHead() {
      this.table.style.minWidth = `${this.columns.reduce((sum, column) => sum + widthOf(column), 0)}px`;
      const col = column => {
        const made = up.element('col');
        if (column.kind !== 'name') made.style.width = `${widthOf(column)}px`;
        return made;
      };
      this.columnWidths.replaceChildren(...this.columns.map(col));
      this.head.replaceChildren(up.element('tr', {'aria-rowindex': 1}, ...this.columns.map(column => this.heading(column))));
    }

    heading({key, title, hint, kind}) {
      const sorted = this.sort?.key === key ? (this.sort.descending ? 'descending' : 'ascending') : 'none';
      const button = up.element('button', {type: 'button', 'data-column': key, title: hint, onclick: () => this.sortBy(key)}, title);
      return up.element('th', {scope: 'col', class: kind, 'aria-sort': sorted}, button);
    }

    /** Draw the rows in view, and a few more, between two empty rows that stand for all others. */
    drawRows() {
      const count = this.order.length;
      const height = this.window.clientHeight || 600;
      const first = Math.max(0, Math.floor(this.window.scrollTop / ROW_HEIGHT) - MARGIN_ROWS);
      const last = Math.min(count, first + Math.ceil(height / ROW_HEIGHT) + 2 * MARGIN_ROWS);
      const rows = this.order.slice(first, last).map((row, offset) => this.row(row, first + offset));
      this.body.replaceChildren(this.space(first), ...rows, this.space(count - last));
      this.noMatch.replaceChildren(...(this.search && !count ? [up.noMatch(this.search, this.onclear)] : []));
    }

    space(rows) {
      const row = up.element('tr', {'aria-hidden': 'true', class: 'space'}, up.element('td', {colspan: this.columns.length}));
      row.firstChild.style.height = `${rows * ROW_HEIGHT}px`;
      return row;
    }

    row(row, position) {
      const cells = this.columns.map((column, at) => cellElement(column, this.rows[row], at ? 'td' : 'th'));
      const current = row === this.selected ? 'true' : null;
      return up.element('tr', {
        'aria-rowindex': position + 2, 'data-row': row, 'aria-current': current, class: position % 2 ? 'odd' : null,
      }, ...cells);
    }

    /** All rows found, as text for a spreadsheet: tabs between cells, numbers as they are. */
    toText() {
      const cell = value => (typeof value === 'number' ? String(value) : up.visible(value ?? '', 2000).replace(/^[=+\-@]/, "'$&"));
      const lines = this.order.map(row => this.columns.map(column => cell(this.rows[row][column.index])).join('\t'));
      return [this.columns.map(column => column.key).join('\t'), ...lines].join('\n');
    }
  }

  function widthOf({key, kind, title}) {
    if (kind === 'name') return up.isNarrow() ? NARROW_NAME : WIDTHS.name;
    return Math.max((kind === 'number' && NUMBER_WIDTHS[key.split('_').at(-1)]) || WIDTHS[kind], headingWidth(title));
  }

  const ruler = document.createElement('canvas').getContext('2d');

  /** The width of the longest word of a heading, which is not broken within words, and of the room around it. */
  function headingWidth(title) {
    ruler.font = `600 12.8px ${getComputedStyle(document.body).fontFamily}`;
    return Math.ceil(Math.max(...title.split(' ').map(word => ruler.measureText(word).width))) + 24;
  }

  const searchable = ({kind, index}, cells) => (kind === 'category' ? up.word('category', cells[index]) : String(cells[index] ?? ''));

  function cellElement({key, kind, index}, cells, tag) {
    const value = cells[index];
    const cell = up.element(tag, tag === 'th' ? {class: kind, scope: 'row'} : {class: kind});
    if (kind === 'category') cell.append(categoryMark(value));
    else if (kind === 'number') cell.append(up.show(key, value));
    else if (kind === 'share') cell.append(bar(value), up.show(key, value));
    else cell.append((value ?? '') === '' ? nothing(key) : up.nameElement(value, {ends: true}));
    return cell;
  }

  /** What stands for a missing value: of a few columns, what that means. */
  const nothing = key => (up.has(`ui.none.${key}`) ? up.text(`ui.none.${key}`) : '–');

  function bar(share) {
    const made = up.element('span', {class: 'bar', 'aria-hidden': 'true'});
    made.style.setProperty('--share', Math.max(0, Math.min(1, share ?? 0)));
    return made;
  }

  /** A dot in the color of a category, and its name. */
  function categoryMark(category) {
    const dot = up.element('span', {class: 'dot', 'aria-hidden': 'true'});
    dot.style.background = up.categoryColor(category);
    return up.element('span', {class: 'category'}, dot, up.word('category', category ?? 'other'));
  }

  /** Whether a column says anything: those that were not recorded are all 0 or null. */
  const saysAnything = (rows, index) => rows.some(row => ![null, undefined, 0, ''].includes(row[index]));

  Object.assign(up, {DataTable, categoryMark, saysAnything, nothing});
})(window.unifiedProfilerReport ??= {});
