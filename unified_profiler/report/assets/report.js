'use strict';
/* Puts the page together: unpacks the document, draws what is looked at first, and the charts after it. */
(up => {
  const root = document.documentElement;
  const nonce = document.currentScript.nonce;
  const redraws = [];

  /** Gzip in base64, as text. */
  async function unpacked(packed) {
    const bytes = Uint8Array.fromBase64?.(packed) ?? Uint8Array.from(atob(packed), character => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return new Response(stream).text();
  }

  async function start() {
    reached('started');
    try {
      const data = JSON.parse(await unpacked(up.byId('packed-document').textContent));
      up.useTexts(data.texts, data.language);
      build(data);
      reached('interactive');
    } catch (error) {
      tell(error);
      throw error;
    }
    await new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)));
    await up.loadPlotly(up.byId('packed-plotly').textContent, nonce).then(up.drawCharts).catch(tell);
    up.arrive();
    reached('complete');
  }

  /** Say how far the page is, to its style and to whoever measures it. */
  function reached(state) {
    root.dataset.ready = state;
    performance.mark(`report-${state}`);
  }

  /** Say on the page what went wrong: a reader will not look into the console. */
  function tell(error) {
    const trouble = up.byId('trouble');
    trouble.hidden = false;
    trouble.textContent = `${up.text('ui.trouble')} ${error}`;
  }

  /** Set up the sections there is something for; the others go, with their links. */
  function build(data) {
    up.byId('parts-lead').firstElementChild.dataset.text = data.devices ? 'ui.parts.lead_host' : 'ui.parts.lead';
    up.translatePage();
    redraw(() => up.drawOverview(data));
    const timeline = when(data.timelines.some(hasSlices), 'timeline', () => up.timelineSection(data));
    if (timeline) redraws.push(timeline.draw);
    for (const [id, there, section] of [
      ['operators', true, up.operatorsSection],
      ['flame', data.flames.some(hasSlices), up.flameSection],
      ['api', data.api.length, up.apiSection],
      ['devices', data.devices, up.devicesPage],
      ['ranks', data.ranks, up.ranksPage],
    ]) {
      const draw = when(there, id, () => section(data));
      if (draw) redraws.push(draw);
    }
    buildCharts(data, timeline?.choose);
    settings();
    followSections();
    up.followAddress();
  }

  const hasSlices = ({slices}) => slices.start.length > 0;

  function redraw(draw) { draw(); redraws.push(draw); }

  function when(there, id, make) {
    if (there) return make();
    up.byId(id).remove();
    document.querySelector(`nav a[href="#${id}"]`)?.parentElement.remove();
    return null;
  }

  function buildCharts(data, onclick) {
    const {figures} = up;
    when(data.steps.some(steps => steps.step.length), 'steps', () => {
      const rank = rankChoice('steps', data.steps.map(steps => steps.rank), true);
      rank.draws(new up.Chart(up.byId('steps-chart'), () => figures.stepTimes(data, rank.chosen(), onclick)));
    });
    const {breakdown, regions, summary} = data;
    when(breakdown.rows.length || summary.categories.length || regions.rows.length, 'parts', () => {
      const column = ({columns, rows}) => rows.map(row => row[columns.indexOf('rank')]);
      const rank = rankChoice('parts', [...new Set([...column(breakdown), ...column(regions)])], false);
      rank.draws(new up.Chart(up.byId('parts-chart'), () => figures.stepParts(data, rank.chosen(), onclick)));
      new up.Chart(up.byId('categories-chart'), () => figures.categories(data));
      rank.draws(new up.Chart(up.byId('regions-chart'), () => figures.regions(data, rank.chosen())));
      const left = breakdown.left_out + regions.left_out;
      redraw(() => { up.byId('parts-left-out').textContent = left ? up.text('ui.left_out.rows', {left_count: left}) : ''; });
    });
    when(data.curves.length, 'hardware', () => {
      const rank = rankChoice('hardware', [...new Set(data.curves.map(curve => curve.rank))], false);
      for (const chart of up.hardwareCharts(data)) {
        up.byId('hardware-charts').append(up.element('div', {id: chart.id}));
        rank.draws(new up.Chart(up.byId(chart.id), () => up.hardwareFigure(data, chart, rank.chosen())));
      }
    });
  }

  /** The select of a rank above charts, and the charts that follow it. */
  function rankChoice(id, ranks, withAll) {
    const select = up.byId(`${id}-rank`);
    const charts = [];
    redraw(() => up.fillSelect(select, up.rankOptions(ranks, withAll && ranks.length > 1)));
    select.addEventListener('change', () => charts.forEach(chart => chart.refresh()));
    return {chosen: () => up.chosenRank(select), draws: chart => charts.push(chart)};
  }

  function settings() {
    const [language, theme] = [up.byId('language'), up.byId('theme')];
    language.value = up.language();
    language.addEventListener('change', () => { up.setLanguage(language.value); up.translatePage(); refresh(); });
    theme.value = root.dataset.theme ?? 'auto';
    theme.addEventListener('change', () => { useTheme(theme.value, true); });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', refresh);
    addEventListener('beforeprint', () => useTheme('light', false));
    addEventListener('afterprint', () => useTheme(theme.value, false));
  }

  function useTheme(theme, keep) {
    if (theme === 'auto') delete root.dataset.theme; else root.dataset.theme = theme;
    try {
      if (keep) localStorage.setItem('unified-profiler-theme', theme === 'auto' ? '' : theme);
    } catch { /* it holds until the page is closed */ }
    refresh();
  }

  function refresh() {
    redraws.forEach(draw => draw());
    up.refreshCharts();
  }

  /** Mark the link of the section that is being read. */
  function followSections() {
    const links = new Map([...document.querySelectorAll('.top nav a')].map(link => [link.hash.slice(1), link]));
    const seen = new Set();
    const observer = new IntersectionObserver(entries => {
      for (const {target, isIntersecting} of entries) isIntersecting ? seen.add(target.id) : seen.delete(target.id);
      const current = [...links.keys()].find(id => seen.has(id));
      for (const [id, link] of links) link.toggleAttribute('data-current', id === current);
    }, {rootMargin: '-15% 0px -60% 0px'});
    document.querySelectorAll('main > section').forEach(section => observer.observe(section));
  }

  up.unpacked = unpacked;
  document.addEventListener('DOMContentLoaded', start);
})(window.unifiedProfilerReport ??= {});
