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

  Object.assign(up, {chosenInAddress, keepInAddress});
})(window.unifiedProfilerReport ??= {});
