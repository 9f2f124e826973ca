'use strict';
/* The color theme of a page: chosen in a select, remembered by the browser, and light on paper. */
(up => {
  const KEY = 'unified-profiler-theme';
  const root = document.documentElement;

  /** Let a select choose the theme; `changed` draws again what has colors of its own. */
  function themeChoice(select, changed = () => {}) {
    function show(theme) {
      if (theme === 'auto') delete root.dataset.theme; else root.dataset.theme = theme;
      changed();
    }
    select.value = root.dataset.theme ?? 'auto';
    select.addEventListener('change', () => { remember(select.value); show(select.value); });
    addEventListener('beforeprint', () => show('light'));
    addEventListener('afterprint', () => show(select.value));
  }

  function remember(theme) {
    try {
      localStorage.setItem(KEY, theme === 'auto' ? '' : theme);
    } catch { /* it holds until the page is closed */ }
  }

  Object.assign(up, {themeChoice});
})(window.unifiedProfilerReport ??= {});
