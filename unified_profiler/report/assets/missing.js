'use strict';
/* What is not in this report, and how to record it: in the place of empty sections, and as a list at the end. */
(up => {
  const hasSlices = ({slices}) => slices.start.length > 0;

  /** The sections, groupings and columns without data, each with the key of the text that says how to record it. */
  function missing(data) {
    const {steps, breakdown, regions, summary, curves, sampled, operators} = data;
    const recorded = {
      steps: steps.some(({step}) => step.length),
      parts: breakdown.rows.length || summary.categories.length || regions.rows.length,
      flame: data.flames.some(hasSlices),
      timeline: data.timelines.some(hasSlices),
      hardware: curves.length,
      api: data.api.length,
      devices: data.devices,
      ranks: data.ranks,
      shapes: operators.shapes.some(table => up.isRecorded(table, 'input_shapes')),
      modules: operators.module.some(table => up.isRecorded(table, 'module')),
      memory: operators.name.some(table => ['cpu_bytes', 'device_bytes'].some(key => up.isRecorded(table, key))),
      flops: operators.name.some(table => up.isRecorded(table, 'flops')),
    };
    const entries = Object.keys(recorded).filter(key => !recorded[key]).map(key => [key, `ui.missing.${key}`]);
    return Object.fromEntries(entries.map(([key, text]) => [key, key === 'hardware' && sampled ? 'ui.missing.samples' : text]));
  }

  const CODE = /((?:unified-profiler )?run --[\w-]+(?: \d+)?|unified-profiler run|\w+\([^()]*\))/;

  /** Remove the sections without data, and let their links lead to the list of what is missing. */
  function removeMissing(missing) {
    for (const [id, reason] of Object.entries(missing)) {
      up.byId(id)?.remove();
      const link = document.querySelector(`nav a[href="#${id}"]`);
      if (link) disable(link, reason);
    }
    for (const [value, id] of [['shapes', 'shapes'], ['module', 'modules']]) {
      const label = document.querySelector(`#operators-grouping [value=${value}]`).closest('label');
      if (id in missing) label.dataset.title = missing[id];
    }
    if (!Object.keys(missing).length) up.byId('missing').remove();
  }

  /** Write the list of what is missing, with options and calls as code. */
  function listMissing(missing) {
    const title = id => up.text(up.has(`ui.sections.${id}`) ? `ui.sections.${id}` : `ui.missing.${id}_title`);
    const marked = text => text.split(CODE).map((part, at) => (at % 2 ? up.element('code', {}, part) : part));
    up.byId('missing-list')?.replaceChildren(...Object.entries(missing).map(([id, reason]) => up.element('div', {'data-missing': id},
      up.element('dt', {}, title(id)), up.element('dd', {}, ...marked(up.text(reason))))));
  }

  function disable(link, reason) {
    link.setAttribute('href', '#missing');
    link.setAttribute('aria-disabled', 'true');
    link.dataset.title = reason;
  }

  Object.assign(up, {missing, removeMissing, listMissing});
})(window.unifiedProfilerReport ??= {});
