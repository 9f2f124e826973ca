'use strict';
/* What figures are made of: units, extremes, names of ranks and steps. */
(up => {
  const PHASES = [
    {key: 'idle', color: '#9aa3af', pattern: '', symbol: 'circle-open'},
    {key: 'warmup', color: '#e3a83b', pattern: '/', symbol: 'diamond'},
    {key: 'record', color: '#3a6ea8', pattern: '', symbol: 'square'},
  ];

  const hover = '%{text}<extra></extra>';
  const scaledBy = (values, {size}) => values.map(value => value / size);
  const largest = values => values.reduce((most, value) => Math.max(most, value), 0);
  const least = values => values.reduce((most, value) => Math.min(most, value), Infinity);
  const mean = values => values.reduce((sum, value) => sum + value, 0) / (values.length || 1);
  const rankName = rank => up.text('ui.rank_number', {rank});
  const stepName = step => up.text('ui.step_number', {step});

  /** The places on an axis that get a label: every few, and in any case what is marked, with room around it. */
  function ticked(rows, most) {
    const every = Math.ceil(rows.length / most);
    const marked = rows.flatMap((row, at) => (row.marked ? [at] : []));
    const crowded = at => marked.some(place => Math.abs(place - at) < every);
    return [...rows.keys()].filter(at => rows[at].marked || (at % every === 0 && !crowded(at)));
  }

  const named = ({marked}, name) => (marked ? `<b>${name} ◂</b>` : name);

  /** [key, value] pairs as a map from each key to its values. */
  function grouped(pairs) {
    const groups = new Map();
    for (const [key, value] of pairs) {
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(value);
    }
    return groups;
  }

  Object.assign(up, {figureParts: {PHASES, hover, scaledBy, largest, least, mean, grouped, ticked, named}, figures: {}, rankName, stepName});
})(window.unifiedProfilerReport ??= {});
