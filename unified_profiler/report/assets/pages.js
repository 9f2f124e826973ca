'use strict';
/* Which page of the file is shown: the one that the address names (#ranks), else the report itself. */
(up => {
  const root = document.documentElement;

  const MOVES = ['wheel', 'touchstart', 'keydown', 'pointerdown'];
  let moved = false;            // whether the reader has moved since the page was opened

  function followAddress() {
    for (const move of MOVES) addEventListener(move, () => { moved = true; }, {once: true, passive: true});
    addEventListener('hashchange', () => turn(true));
    if (location.protocol === 'about:') addEventListener('click', followLink);
    turn(false);
    arrive();
  }

  const addressed = () => up.byId(decodeURIComponent(location.hash.slice(1)));

  /** Follow a link in an iframe with `srcdoc`: its base URL is that of the page around it, where the link would lead. */
  function followLink(event) {
    const link = event.target.closest('a[href^="#"]');
    if (!link) return;
    event.preventDefault();
    location.assign(`about:srcdoc${link.hash}`);
  }

  /** Show what the address names at the place that it has now: what stands above it has been drawn meanwhile. */
  function arrive() {
    const target = addressed();
    if (!moved && target && target.id !== root.dataset.page) target.scrollIntoView({behavior: 'instant'});
  }

  /** Turn to the page that holds what the address names; what is on no page, as the main part, is on this one. */
  function turn(moveFocus) {
    const target = addressed();
    const section = target?.closest('main > section');
    const page = section?.classList.contains('page') ? section.id : '';
    if ((target && !section) || page === (root.dataset.page ?? '')) return;
    if (page) root.dataset.page = page; else delete root.dataset.page;
    for (const link of document.querySelectorAll('.top nav a')) {
      if (link.hash !== `#${page}`) { link.removeAttribute('aria-current'); continue; }
      link.setAttribute('aria-current', 'page');
      link.scrollIntoView({inline: 'nearest', block: 'nearest'});
    }
    if (!target || target.id === page) scrollTo({top: 0, behavior: 'instant'}); else target.scrollIntoView({behavior: 'instant'});
    if (moveFocus && section) { section.tabIndex = -1; section.focus({preventScroll: true}); }
    up.showCharts();
  }

  Object.assign(up, {followAddress, arrive});
})(window.unifiedProfilerReport ??= {});
