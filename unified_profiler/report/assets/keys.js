'use strict';
/* Keys of a whole page: `/` goes to the search, `?` shows an overview of all keys. Neither acts while somebody types. */
(up => {
  const FIELDS = 'input:not([type=checkbox], [type=radio]), select, textarea, [contenteditable]';

  /**
   * Listen to `/` and `?`.
   * dialog: an empty <dialog>, which becomes the overview; button: opens it, too; search: returns the field to go to;
   * keys: what the overview lists, as [[key, ...], key of a text].
   */
  function keyboardHelp({dialog, button, search, keys}) {
    fill(dialog, keys);
    button.addEventListener('click', () => dialog.showModal());
    dialog.addEventListener('click', ({target}) => { if (target === dialog) dialog.close(); });
    const actions = {'/': () => goTo(search()), '?': () => dialog.showModal()};
    document.addEventListener('keydown', event => {
      if (!actions[event.key] || dialog.open || event.ctrlKey || event.altKey || event.metaKey || event.target.closest?.(FIELDS)) return;
      event.preventDefault();
      actions[event.key]();
    });
  }

  function goTo(field) {
    field?.focus();
    field?.select();
  }

  /** The texts come with the language: they are put in by `translatePage`. */
  function fill(dialog, keys) {
    const key = name => up.element('kbd', {}, name);
    const row = ([names, text]) => up.element('div', {}, up.element('dt', {}, ...names.map(key)), up.element('dd', {'data-text': text}));
    dialog.classList.add('overview-of-keys');
    dialog.setAttribute('aria-labelledby', `${dialog.id}-title`);
    dialog.append(
      up.element('h2', {id: `${dialog.id}-title`, 'data-text': 'ui.keys.title'}),
      up.element('button', {type: 'button', 'data-label': 'ui.keys.close', onclick: () => dialog.close()}, '×'),
      up.element('dl', {}, ...keys.map(row)),
    );
  }

  Object.assign(up, {keyboardHelp});
})(window.unifiedProfilerReport ??= {});
