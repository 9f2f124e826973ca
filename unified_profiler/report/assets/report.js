'use strict';
/* Puts the page together: unpacks the document, draws what is looked at first, and the charts after it. */
(up => {
  const root = document.documentElement;
  const nonce = document.currentScript.nonce;
  const redraws = [];
  const KEYS = [
    [['/'], 'ui.keys.search'], [['?'], 'ui.keys.overview'], [['W', 'S'], 'ui.keys.zoom'], [['A', 'D'], 'ui.keys.pan'],
    [['←', '↑', '→', '↓'], 'ui.keys.walk'], [['Enter', 'F'], 'ui.keys.zoom_to'], [['0'], 'ui.keys.all'], [['[', ']'], 'ui.keys.steps'],
    [['Esc'], 'ui.keys.escape'],
  ];

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
      up.useTexts(data.texts, up.chosenInAddress('language') ?? data.language);
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

  /** Set up the sections there is something for; of the others, the last section says how they are recorded. */
  function build(data) {
    up.byId('parts-lead').firstElementChild.dataset.text = data.devices ? 'ui.parts.lead_host' : 'ui.parts.lead';
    up.keyboardHelp({dialog: up.byId('keys'), button: up.byId('keys-button'), search: searchInView, keys: KEYS});
    up.addReadingLinks();
    const missing = up.missing(data);
    up.removeMissing(missing);
    up.translatePage();
    redraw(() => up.listMissing(missing));
    redraw(() => up.drawOverview(data));
    const when = (id, make) => (id in missing ? null : make());
    const timeline = when('timeline', () => up.timelineSection(data));
    const flame = when('flame', () => up.flameSection(data));
    const draws = [
      timeline?.draw, flame?.draw, up.operatorsSection(data, {flame, timeline}),
      when('api', () => up.apiSection(data)), when('devices', () => up.devicesPage(data)), when('ranks', () => up.ranksPage(data)),
    ];
    redraws.push(...draws.filter(Boolean));
    buildCharts(data, when, timeline?.choose);
    settings();
    followSections();
    up.followAddress();
  }

  /** The search of the section that is being read, the last one that begins in the upper part of the window; else the first. */
  function searchInView() {
    const shown = [...document.querySelectorAll('main input[type=search]')].filter(field => field.getClientRects().length);
    const begins = field => field.closest('section, .part').getBoundingClientRect().top;
    return shown.findLast(field => begins(field) < 0.4 * innerHeight) ?? shown[0];
  }

  function redraw(draw) { draw(); redraws.push(draw); }

  function buildCharts(data, when, onclick) {
    const {figures} = up;
    when('steps', () => {
      const rank = rankChoice('steps', data.steps.map(steps => steps.rank), true);
      rank.draws(new up.Chart(up.byId('steps-chart'), () => figures.stepTimes(data, rank.chosen(), onclick)));
    });
    const {breakdown, regions} = data;
    when('parts', () => {
      const column = ({columns, rows}) => rows.map(row => row[columns.indexOf('rank')]);
      const rank = rankChoice('parts', [...new Set([...column(breakdown), ...column(regions)])], false);
      rank.draws(new up.Chart(up.byId('parts-chart'), () => figures.stepParts(data, rank.chosen(), onclick)));
      new up.Chart(up.byId('categories-chart'), () => figures.categories(data));
      rank.draws(new up.Chart(up.byId('regions-chart'), () => figures.regions(data, rank.chosen())));
      const left = breakdown.left_out + regions.left_out;
      redraw(() => { up.byId('parts-left-out').textContent = left ? up.text('ui.left_out.rows', {left_count: left}) : ''; });
    });
    when('hardware', () => {
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
    up.keepChoice(select, 'rank');
    select.addEventListener('change', () => charts.forEach(chart => chart.refresh()));
    return {chosen: () => up.chosenRank(select), draws: chart => charts.push(chart)};
  }

  function settings() {
    const language = up.byId('language');
    language.value = up.language();
    language.addEventListener('change', () => {
      up.setLanguage(language.value);
      up.keepInAddress({language: language.value});
      up.translatePage();
      refresh();
    });
    up.themeChoice(up.byId('theme'), refresh);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', refresh);
  }

  function refresh() {
    redraws.forEach(draw => draw());
    up.refreshCharts();
  }

  /** Mark the link of the section that is being read. */
  function followSections() {
    const links = new Map([...document.querySelectorAll('.top nav a:not([aria-disabled])')].map(link => [link.hash.slice(1), link]));
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
