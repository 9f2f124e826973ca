'use strict';
/* Charts: plotly is unpacked after the page is usable, and each chart is drawn when it comes into view or there is time. */
(up => {
  const CONFIG = {displayModeBar: false, displaylogo: false, responsive: true, showTips: false, logging: 0, doubleClick: 'reset+autosize'};
  const MOST_ROWS = 300;        // of the numbers beside a chart
  const MOST_TICKS = 16;        // one at each whole number up to this many
  const charts = [];
  let plotly = null;
  let finished = false;

  /** A text of the data, as plotly may have it: plotly takes <b>, <a href> and entities in labels for markup. */
  const label = (text, most = 60) => up.visible(text, most).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

  class Chart {
    /**
     * @param {HTMLElement} host  gets the chart, its caption and its numbers
     * @param {Function} figure  () -> null if there is nothing, else
     *   {title, sentence, data, layout, height, table: {headings, rows}, onclick}
     */
    constructor(host, figure) {
      Object.assign(this, {host, figure, drawn: false});
      this.title = up.element('h3');
      this.sentence = up.element('p', {class: 'sentence'});
      this.plot = up.element('div', {class: 'plot', role: 'img'});
      this.summary = up.element('summary');
      this.numbers = up.element('details', {class: 'numbers', ontoggle: () => this.writeNumbers()}, this.summary);
      host.classList.add('chart');
      host.replaceChildren(this.title, this.sentence, this.plot, this.numbers);
      charts.push(this);
      this.refresh();
    }

    /** Make it again from the data: in another language, other colors, for another rank. */
    refresh() {
      this.made = this.figure();
      this.host.hidden = !this.made;
      if (!this.made) return;
      this.title.textContent = this.made.title;
      this.sentence.textContent = this.made.sentence;
      this.plot.setAttribute('aria-label', `${this.made.title}. ${this.made.sentence}`);
      this.plot.style.height = `${this.made.height}px`;
      this.summary.textContent = up.text('ui.chart.numbers');
      this.writeNumbers();
      if (this.drawn || finished) this.draw();
    }

    writeNumbers() {
      [...this.numbers.children].slice(1).forEach(child => child.remove());
      if (!this.numbers.open) return;
      const {headings, rows} = this.made.table;
      const cells = rows.slice(0, MOST_ROWS).map(row => row.map(cell => (cell instanceof Node ? cell.cloneNode(true) : cell)));
      const label = this.made.title;
      const table = up.plainTable(headings, cells, label);
      this.numbers.append(up.element('div', {class: 'numbers-window', tabindex: 0, role: 'region', 'aria-label': label}, table));
      const more = rows.length - MOST_ROWS;
      if (more > 0) this.numbers.append(up.element('p', {class: 'note'}, up.text('ui.chart.more_rows', {left_count: more})));
    }

    /** Let the horizontal axis have ticks at whole numbers only, also where it is zoomed into. */
    keepWhole() {
      const set = () => {
        const [first, last] = this.plot.layout.xaxis.range;
        const dtick = last - first <= MOST_TICKS ? 1 : null;
        if ((this.plot.layout.xaxis.dtick ?? null) !== dtick) plotly.relayout(this.plot, {'xaxis.dtick': dtick});
      };
      set();
      this.plot.on('plotly_relayout', set);
    }

    /** Draw it, if it is on the page that is shown: elsewhere nothing has a size. */
    draw() {
      this.drawn = isShown(this);
      if (!this.drawn || !plotly) return;
      this.width = this.host.clientWidth;
      const {data, layout, height, onclick} = this.made;
      plotly.react(this.plot, data, withStyle(layout, height), CONFIG);
      this.plot.removeAllListeners('plotly_click');
      this.plot.removeAllListeners('plotly_relayout');
      if (layout.xaxis.whole) this.keepWhole();
      if (onclick) this.plot.on('plotly_click', ({points}) => onclick(points[0].customdata));
    }
  }

  const isShown = ({host}) => host.getClientRects().length > 0;

  /** A layout in the colors and letters of the page. */
  function withStyle(layout, height) {
    const page = up.pageColors();
    const lines = {gridcolor: page.line, linecolor: page.line, zerolinecolor: page.line, tickcolor: page.line};
    const axis = {...lines, automargin: true, fixedrange: coarse()};
    const ink = {family: page.font, size: 12, color: page.ink};
    return {
      height, autosize: true, paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', barmode: 'stack', bargap: 0.25,
      margin: {l: 10, r: 14, t: 8, b: 10}, dragmode: coarse() ? false : 'zoom', hovermode: 'closest',
      font: {family: page.font, size: 12, color: page.soft},
      hoverlabel: {bgcolor: page.panel, bordercolor: page.line, font: ink, align: 'left', namelength: -1},
      legend: {
        orientation: 'h', x: 0, y: 1.02, yanchor: 'bottom', font: ink, itemclick: false, itemdoubleclick: false, traceorder: 'normal',
      },
      ...layout,
      xaxis: {...axis, ...layout.xaxis, title: titled(layout.xaxis)}, yaxis: {...axis, ...layout.yaxis, title: titled(layout.yaxis)},
    };
  }

  const titled = axis => (axis?.title ? {text: axis.title, standoff: 10, font: {size: 12}} : undefined);
  const coarse = () => matchMedia('(pointer: coarse)').matches;

  /** Unpack plotly and run it. As a file of its own it is compiled beside the page, which stays responsive. */
  async function loadPlotly(packed, nonce) {
    if (!packed) return;
    const source = await up.unpacked(packed);
    const address = URL.createObjectURL(new Blob([source], {type: 'text/javascript'}));
    await new Promise((done, failed) => {
      document.head.append(up.element('script', {nonce, src: address, onload: done, onerror: failed}));
    }).finally(() => URL.revokeObjectURL(address));
    plotly = window.Plotly;
  }

  const pause = () => new Promise(done => (window.requestIdleCallback ?? setTimeout)(done, {timeout: 500}));

  /** Draw all charts: those in view first, the others one by one when there is time. */
  async function drawCharts() {
    const inView = ({host}) => { const {top, bottom} = host.getBoundingClientRect(); return bottom > 0 && top < innerHeight; };
    for (;;) {
      const waiting = charts.filter(chart => !chart.drawn && isShown(chart));
      if (!waiting.length) { finished = true; return; }
      (waiting.find(inView) ?? waiting[0]).draw();
      await pause();
    }
  }

  /** After another page was turned to: draw what was not drawn yet, or not for this width. */
  function showCharts() {
    if (!finished) return;
    for (const chart of charts.filter(isShown)) {
      if (!chart.drawn) chart.draw();
      else if (chart.width !== chart.host.clientWidth) plotly?.Plots.resize(chart.plot);
    }
  }

  const refreshCharts = () => charts.forEach(chart => chart.refresh());

  Object.assign(up, {Chart, label, loadPlotly, drawCharts, refreshCharts, showCharts});
})(window.unifiedProfilerReport ??= {});
