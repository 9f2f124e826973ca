'use strict';
/* Curves over time: what the hardware did and what was allocated, a chart for each group and unit. */
(up => {
  const FAMILIES = ['cpu', 'system_cpu', 'cores', 'memory', 'system_memory', 'gpu', 'disk', 'network', 'other'];
  const MOST_NAMED = 8;         // curves that get a color and a place in the legend

  const SHADE = {
    type: 'rect', xref: 'x', yref: 'paper', y0: 0, y1: 1, layer: 'below', line: {width: 0}, fillcolor: 'rgba(58,110,168,0.13)',
  };

  /** What curves share a chart: the memory of the machine would flatten that of the process, and its CPU has another 100 %. */
  const family = ({group, name}) => (['cpu', 'memory'].includes(group) && name.startsWith('system ') ? `system_${group}` : group);

  /** The charts there are: each family of curves, once for each unit in it. */
  function hardwareCharts({curves}) {
    return FAMILIES.flatMap(wanted => {
      const units = [...new Set(curves.filter(curve => family(curve) === wanted).map(curve => curve.unit))];
      return units.map((unit, at) => ({wanted, unit, id: `hardware-${wanted.replace('_', '-')}${at ? `-${at + 1}` : ''}`}));
    });
  }

  function hardwareFigure(document, {wanted, unit}, rank) {
    const belongs = curve => family(curve) === wanted && curve.unit === unit && curve.rank === rank && curve.time.length;
    const curves = document.curves.filter(belongs);
    if (!curves.length) return null;
    const highest = curves.reduce((most, curve) => curve.value.reduce((a, b) => Math.max(a, Math.abs(b)), most), 0);
    const scale = unit.startsWith('bytes') ? up.sizeUnit(highest) : {size: 1, name: unit};
    const measured = unit === 'bytes/s' ? `${scale.name}/s` : scale.name;
    const named = curves.length > 1 && curves.length <= MOST_NAMED;
    const told = curve => statistics(curve).map(value => amount(value, unit));
    const left = curves.reduce((sum, curve) => sum + (curve.left_out ?? 0), 0);
    return {
      title: up.text(`group.${wanted}`), height: named ? 215 + 20 * Math.ceil(curves.length / 2) : 225,
      sentence: sentence(curves, unit) + (left ? ` ${up.text('ui.left_out.samples', {left_count: left})}` : ''),
      data: curves.map((curve, at) => line(curve, at, curves.length, scale, unit)),
      layout: {
        shapes: recordedSpans(document, rank), showlegend: named,
        xaxis: {title: up.text('ui.seconds_into_run'), zeroline: false},
        yaxis: {title: measured, rangemode: 'tozero'},
      },
      table: {
        headings: ['column.curve', 'ui.mean', 'ui.least', 'ui.most', 'ui.sample_count'].map(key => up.text(key)),
        rows: curves.map(curve => [up.nameElement(curveName(curve)), ...told(curve), up.count(curve.value.length)]),
      },
    };
  }

  function line(curve, at, count, {size}, unit) {
    const many = count > MOST_NAMED;
    const name = up.label(curveName(curve));
    const color = up.LINES[at % up.LINES.length];
    const dash = many ? 'solid' : ['solid', 'dash', 'dot', 'dashdot'][at % 4];
    const points = withGaps(curve);
    return {
      type: 'scatter', mode: curve.time.length > 1 ? 'lines' : 'markers', name, hovertemplate: '%{text}<extra></extra>',
      opacity: many ? 0.6 : 1, marker: {color, size: 7}, line: {color, width: many ? 1 : 1.6, dash},
      x: points.map(({time}) => time / 1e9), y: points.map(({value}) => (value === null ? null : value / size)),
      text: points.map(({time, value}) => (value === null ? '' : `${name}<br>${up.duration(time)}: ${amount(value, unit)}`)),
    };
  }

  /** The points of a curve, with a gap where nothing was sampled for long: between cycles nobody knows. */
  function withGaps({time, value}) {
    const pauses = time.slice(1).map((moment, at) => moment - time[at]).sort((a, b) => a - b);
    const usual = pauses[Math.floor(pauses.length * 0.9)] ?? 0;
    return time.flatMap((moment, at) => {
      const point = {time: moment, value: value[at]};
      return at && moment - time[at - 1] > 8 * usual ? [{time: moment - 1, value: null}, point] : [point];
    });
  }

  /** `name unit` without the unit, which stands at the axis; with the device where there is one. */
  function curveName({name, device, unit}) {
    const bare = unit && name.endsWith(` ${unit}`) ? name.slice(0, -unit.length - 1) : name;
    const known = up.has(`curve.${bare}`) ? up.text(`curve.${bare}`) : bare;
    return device ? `${known} (${device})` : known;
  }

  function amount(value, unit) {
    if (unit.startsWith('bytes')) return up.show('_bytes', value) + unit.slice(5);
    const text = up.number(value, {maximumFractionDigits: 1});
    return unit === '%' ? `${text}%` : `${text} ${unit}`.trim();
  }

  function statistics({value}) {
    const sum = value.reduce((a, b) => a + b, 0);
    return [sum / value.length, value.reduce((a, b) => Math.min(a, b), Infinity), value.reduce((a, b) => Math.max(a, b), -Infinity)];
  }

  /** The first few curves in words. */
  function sentence(curves, unit) {
    const told = curves.slice(0, 3).map(curve => {
      const [mean, , most] = statistics(curve);
      return up.text('ui.hardware.sentence', {name: curveName(curve), mean: amount(mean, unit), most: amount(most, unit)});
    });
    return `${told.join(up.text('ui.clause_separator'))}${up.text('ui.full_stop')}`;
  }

  /** Recorded steps as shaded spans; steps that follow each other are one. */
  function recordedSpans(document, rank) {
    const steps = document.steps.find(found => found.rank === rank);
    const spans = [];
    let last = -2;
    for (const at of steps?.step.keys() ?? []) {
      if (steps.phase[at] !== 2) continue;
      const end = (steps.start[at] + steps.duration[at]) / 1e9;
      if (at === last + 1 && spans.length) spans.at(-1).x1 = end;
      else spans.push({...SHADE, x0: steps.start[at] / 1e9, x1: end});
      last = at;
    }
    return spans.slice(0, 300);
  }

  Object.assign(up, {hardwareCharts, hardwareFigure});
})(window.unifiedProfilerReport ??= {});
