'use strict';
/* Choices of the reader in the query of the address, so that a link shows the same view. */
(up => {
  /** A choice that the address names, or null. */
  const chosenInAddress = name => new URLSearchParams(location.search).get(name);

  /** Write choices into the address; an empty one is removed. */
  function keepInAddress(choices) {
    const address = new URL(location.href);
    for (const [name, value] of Object.entries(choices)) {
      if (value) address.searchParams.set(name, value); else address.searchParams.delete(name);
    }
    try {
      history.replaceState(history.state, '', address);
    } catch { /* some browsers refuse it for files, or when it happens often: the choice holds until the page is closed */ }
  }

  /** Let a field begin with the text that the address has for it, and keep there what is typed; `apply` is called for every text. */
  function keepField(field, apply) {
    const keep = up.later(() => keepInAddress({[field.id]: field.value.trim()}), 300);  // browsers limit how often
    const run = up.later(apply, 60);
    field.value = chosenInAddress(field.id) ?? '';
    field.addEventListener('input', () => { run(); keep(); });
  }

  /** Put a text into a field as if it had been typed. */
  function write(field, text) {
    field.value = text;
    field.dispatchEvent(new Event('input'));
  }

  /** Let a select begin with the choice that the address has under a name, if it is there, and keep its choice there. */
  function keepChoice(select, name) {
    const kept = chosenInAddress(name);
    if (kept !== null && [...select.options].some(({value}) => value === kept)) select.value = kept;
    select.addEventListener('change', () => keepInAddress({[name]: select.value}));
  }

  Object.assign(up, {chosenInAddress, keepInAddress, keepField, keepChoice, write});
})(window.unifiedProfilerReport ??= {});
