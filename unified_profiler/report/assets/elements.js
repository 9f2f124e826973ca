'use strict';
/* Making elements. Data enters the page only here, as text and attributes, never as HTML. */
(up => {
  /** An element with attributes (`on...`: listeners; true: present; null and false: absent) and children. */
  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
      else if (value === true) made.setAttribute(name, '');
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
    }
    made.append(...children.filter(child => child !== null && child !== undefined));
    return made;
  }

  const isNarrow = () => matchMedia('(max-width: 40rem)').matches;
  const byId = id => document.getElementById(id);

  /** A name in a cell or a list: isolated from the text around it, with the whole name as its title. */
  function nameElement(name, most = 160) {
    const [whole, short] = [up.visible(name), up.visible(name, most)];
    return element('bdi', {class: 'name', title: whole.length > 24 ? whole : null}, short);
  }

  /** Fill a select; options are [value, text]. Keeps the choice if it is still there, and hides a choice of one. */
  function fillSelect(select, options, chosen = select.value) {
    select.replaceChildren(...options.map(([value, text]) => element('option', {value}, text)));
    const kept = options.some(([value]) => String(value) === String(chosen));
    select.value = kept ? chosen : options[0]?.[0] ?? '';
    const label = select.closest('label');
    if (label) label.hidden = options.length < 2;
  }

  /** A small complete table, for the numbers of a chart. */
  function plainTable(headings, rows, caption) {
    const head = element('tr', {}, ...headings.map(heading => element('th', {scope: 'col'}, heading)));
    const cell = (content, at) => (at ? element('td', {}, content) : element('th', {scope: 'row'}, content));
    const body = element('tbody', {}, ...rows.map(row => element('tr', {}, ...row.map(cell))));
    const title = element('caption', {class: 'unseen'}, caption);
    return element('table', {class: 'plain'}, title, element('thead', {}, head), body);
  }

  /** Put the texts of the language into every element of the template that names one. */
  function translatePage() {
    for (const found of document.querySelectorAll('[data-text]')) found.textContent = up.text(found.dataset.text);
    for (const found of document.querySelectorAll('[data-label]')) found.setAttribute('aria-label', up.text(found.dataset.label));
    for (const found of document.querySelectorAll('[data-title]')) found.title = up.text(found.dataset.title);
    for (const found of document.querySelectorAll('[data-placeholder]')) found.placeholder = up.text(found.dataset.placeholder);
  }

  /** Run a function once for many calls in a row. */
  function later(run, milliseconds) {
    let timer;
    return (...values) => { clearTimeout(timer); timer = setTimeout(run, milliseconds, ...values); };
  }

  Object.assign(up, {element, byId, isNarrow, nameElement, fillSelect, plainTable, translatePage, later});
})(window.unifiedProfilerReport ??= {});
