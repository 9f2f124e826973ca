'use strict';
/* The page "How to read this", and the links to it from the sections that it is about. */
(up => {
  /** Add a link behind the heading of each section and part that the page explains. */
  function addReadingLinks() {
    for (const explanation of document.querySelectorAll('#reading [data-about]')) {
      const heading = document.querySelector(explanation.dataset.about);
      const link = up.element('a', {href: `#${explanation.id}`, class: 'reading', 'data-text': 'ui.reading.link'});
      heading?.after(link);
    }
  }

  Object.assign(up, {addReadingLinks});
})(window.unifiedProfilerReport ??= {});
