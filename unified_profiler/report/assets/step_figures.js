'use strict';
/* The figure of step times: a pure function from the document to {title, sentence, data, layout, height, table}. */
(up => {
  const MOST_BARS = 120;        // steps that are told apart as bars; more become marks
  const MOST_LINES = 8;         // ranks that are drawn as lines of their own
  const FAR = 5;                // times the median: beyond it, a step may be left to reach out of the chart
  const MOST_MARKS = 2000;      // marks on lines; with more, the lines alone
  const {PHASES, hover, scaledBy, largest, least, grouped} = up.figureParts;
  const {rankName, stepName} = up;

  /** Step times over the run; `rank` null: all ranks. */
  function stepTimes(document, rank, onclick) {
    const ranks = document.steps.filter(steps => steps.step.length && (rank === null || steps.rank === rank));
    if (!ranks.length) return null;
    const top = topOf(ranks.flatMap(steps => steps.duration));
    const unit = up.durationUnit(top);
    const all = ranks.flatMap(steps => steps.step.map((step, at) => ({step, duration: steps.duration[at]})));
    const above = all.filter(({duration}) => duration > top);
    const draw = ranks.length > MOST_LINES ? rankRange : ranks.length > 1 ? rankLines : phaseMarks;
    const keys = [...(ranks.length > 1 ? ['rank'] : []), 'step', 'phase', 'duration'];
    return {
      title: up.text('ui.steps.chart'), sentence: stepSentence(ranks, above), onclick, height: 300, data: draw(ranks, unit),
      layout: {
        bargap: 0.15, xaxis: {title: up.text('ui.step'), tickformat: 'd', whole: true}, annotations: above.slice(0, MOST_LINES).map(beyond),
        yaxis: {title: unit.name, rangemode: 'tozero', ...(above.length && {range: [0, 1.2 * top / unit.size]})},
      },
      table: {
        headings: keys.map(key => up.text(`ui.${key}`)),
        rows: ranks.flatMap(steps => steps.step.map((step, at) =>
          [String(steps.rank), String(step), phaseName(steps.phase[at]), up.duration(steps.duration[at])].slice(-keys.length))),
      },
    };
  }

  /** How high a chart must reach: a few steps that took many times as long as the others, as first ones do, would flatten them. */
  function topOf(durations) {
    const sorted = [...durations].sort((a, b) => a - b);
    const limit = FAR * sorted[Math.floor(sorted.length / 2)];
    const usual = sorted.filter(duration => duration <= limit);
    return sorted.length - usual.length <= Math.max(2, sorted.length / 20) ? usual.at(-1) : sorted.at(-1);
  }

  /** The duration of a step that reaches beyond the chart, written at its upper end. */
  const beyond = ({step, duration}) => ({
    x: step, y: 1, yref: 'paper', yanchor: 'top', text: `↑ ${up.duration(duration, 1)}`, showarrow: false,
    font: {size: 11}, bgcolor: up.pageColors().panel, bordercolor: up.pageColors().line, borderpad: 2,
  });

  const phaseName = phase => up.text(`phase.${PHASES[phase].key}`);

  function stepSentence(ranks, above) {
    const recorded = ranks.flatMap(steps => steps.duration.filter((_, at) => steps.phase[at] === 2));
    const counts = {all_count: ranks.reduce((sum, steps) => sum + steps.step.length, 0), recorded_count: recorded.length};
    const left = ranks.reduce((sum, steps) => sum + (steps.left_out ?? 0), 0);
    const range = {fastest_ns: least(recorded), slowest_ns: largest(recorded)};
    const longest = largest(above.map(({duration}) => duration));
    return [
      up.text(recorded.length ? 'ui.steps.sentence' : 'ui.steps.none_recorded', {...counts, ...range}),
      recorded.length && ranks.some(steps => steps.phase.includes(1)) ? up.text('ui.steps.warmup') : '',
      above.length ? up.text('ui.steps.beyond', {beyond_count: above.length, longest_ns: longest}) : '',
      left ? up.text('ui.left_out.steps', {left_count: left}) : '',
    ].filter(Boolean).join(up.text('ui.sentence_separator'));
  }

  const stepTexts = (steps, at) =>
    `${stepName(steps.step[at])} · ${phaseName(steps.phase[at])}<br>${up.duration(steps.duration[at])}`;

  /** One rank: a bar, or among many a mark, for each step, by phase. */
  function phaseMarks([steps], unit) {
    return PHASES.flatMap((phase, number) => {
      const at = [...steps.step.keys()].filter(index => steps.phase[index] === number);
      const common = {
        name: phaseName(number), x: at.map(index => steps.step[index]), y: scaledBy(at.map(index => steps.duration[index]), unit),
        text: at.map(index => stepTexts(steps, index)), hovertemplate: hover,
        customdata: at.map(index => ({rank: steps.rank, step: steps.step[index]})),
        showlegend: true, textposition: 'none',
      };
      const size = at.length > 500 ? 4 : 6;
      const pattern = {shape: phase.pattern, bgcolor: phase.color, fgcolor: '#8a5a00', size: 6};
      if (!at.length) return [];
      return [steps.step.length <= MOST_BARS
        ? {...common, type: 'bar', marker: {color: phase.color, pattern}}
        : {...common, type: 'scatter', mode: 'markers', marker: {color: phase.color, symbol: phase.symbol, size}}];
    });
  }

  /** A few ranks: a line each, with the phases as marks on it. */
  function rankLines(ranks, unit) {
    const marked = ranks.reduce((sum, steps) => sum + steps.step.length, 0) <= MOST_MARKS;
    return ranks.map((steps, number) => ({
      type: 'scatter', mode: marked ? 'lines+markers' : 'lines', name: rankName(steps.rank),
      x: steps.step, y: scaledBy(steps.duration, unit), line: {color: up.LINES[number], width: 1},
      text: steps.step.map((_, at) => `${rankName(steps.rank)} · ${stepTexts(steps, at)}`), hovertemplate: hover,
      customdata: steps.step.map(step => ({rank: steps.rank, step})),
      marker: {color: up.LINES[number], size: 7, symbol: steps.phase.map(phase => PHASES[phase].symbol)},
    })).concat(!marked ? [] : PHASES.map((phase, number) => ({
      type: 'scatter', mode: 'markers', name: phaseName(number), x: [null], y: [null],
      marker: {color: '#7c8794', size: 8, symbol: phase.symbol},
    })));
  }

  /** Many ranks: the fastest and the slowest of each step, and the middle one. */
  function rankRange(ranks, unit) {
    const bySteps = grouped(ranks.flatMap(steps => steps.step.map((step, at) => [step, steps.duration[at]])));
    const x = [...bySteps.keys()].sort((a, b) => a - b);
    x.forEach(step => bySteps.get(step).sort((a, b) => a - b));
    const line = (key, part, more) => {
      const values = x.map(step => bySteps.get(step).at(Math.floor(part * (bySteps.get(step).length - 1))));
      const text = values.map((value, at) => `${stepName(x[at])} · ${up.text(key)}<br>${up.duration(value)}`);
      return {
        type: 'scatter', mode: 'lines', name: up.text(key), x, y: scaledBy(values, unit), text, hovertemplate: hover,
        customdata: x.map(step => ({rank: ranks[0].rank, step})), ...more,
      };
    };
    return [
      line('ui.steps.fastest_rank', 0, {line: {color: '#2a9d9a', width: 1, dash: 'dot'}}),
      line('ui.steps.slowest_rank', 1, {line: {color: '#d9733f', width: 1}, fill: 'tonexty', fillcolor: 'rgba(58,110,168,0.15)'}),
      line('ui.steps.median_rank', 0.5, {line: {color: '#3a6ea8', width: 2}}),
    ];
  }

  up.figures.stepTimes = stepTimes;
})(window.unifiedProfilerReport ??= {});
