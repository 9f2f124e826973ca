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

  const LONG_NAME = 24;
  const NAME_END = 12;          // as many characters as report.css keeps room for

  /**
   * A name in a cell or a list: isolated from the text around it, with the whole name as its title.
   * `ends`: where there is little room, its middle is left out, since long names of operators differ in their ends;
   * those of kernels in C++ do not, which end with the types of their arguments.
   */
  function nameElement(name, {most = 160, ends = false} = {}) {
    const [whole, short] = [up.visible(name), [...up.visible(name, most)]];
    const parts = [short.slice(0, -NAME_END), short.slice(-NAME_END)].map(part => part.join(''));
    const children = ends && short.length > NAME_END && !/[)…]$/u.test(short.join('')) ? [element('span', {class: 'start'}, parts[0]), parts[1]] : [short.join('')];
    return element('bdi', {class: 'name', title: whole.length > LONG_NAME ? whole : null}, ...children);
  }

  /** What a table has in the place of its rows if none contains the searched text, with a button that clears the search. */
  function noMatch(search, clear) {
    const button = element('button', {type: 'button', onclick: clear}, up.text('ui.clear_search'));
    return element('p', {class: 'no-match'}, up.text('ui.no_match', {search}), ' ', button);
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

  /** Mark the parent of a window as `data-cut` while the window has more to its right: a scrollbar may be out of sight. */
  function markCutEdge(scrolled) {
    const mark = () => {
      scrolled.parentElement.toggleAttribute('data-cut', scrolled.scrollWidth - scrolled.clientWidth - scrolled.scrollLeft > 1);
    };
    scrolled.addEventListener('scroll', mark, {passive: true});
    const observer = new ResizeObserver(mark);
    for (const sized of [scrolled, ...scrolled.children]) observer.observe(sized);
  }

  /** Run a function once for many calls in a row. */
  function later(run, milliseconds) {
    let timer;
    return (...values) => { clearTimeout(timer); timer = setTimeout(run, milliseconds, ...values); };
  }

  Object.assign(up, {element, byId, isNarrow, nameElement, noMatch, markCutEdge, fillSelect, plainTable, translatePage, later});
})(window.unifiedProfilerReport ??= {});
