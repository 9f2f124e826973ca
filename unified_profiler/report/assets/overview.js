'use strict';
/* The first screen: what ran, what to know before trusting it, and where the time went. */
(up => {
  const PARTS = ['op_ns', 'collective_ns', 'copy_ns', 'uncovered_ns'];

  function drawOverview({summary}) {
    const title = summary.run || up.text('ui.overview.unnamed');
    up.byId('overview-title').replaceChildren(up.element('bdi', {}, up.visible(title, 120)));
    document.title = `${up.visible(title, 120)} · unified_profiler`;
    drawCommand(summary.command);
    drawStatements('notices', 'notice', summary.notices);
    drawStatements('findings', 'finding', summary.findings);
    up.byId('figures').replaceChildren(...keyFigures(summary));
    up.byId('facts').replaceChildren(...facts(summary));
    drawParts(summary.step_parts);
    up.byId('made-by').textContent = up.text('ui.footer.made_by', {version: summary.profiler_version});
  }

  function drawCommand(command) {
    const host = up.byId('overview-command');
    host.hidden = !command.length;
    const whole = command.map(word => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word}'`)).join(' ');
    const prompt = up.element('span', {'aria-hidden': 'true'}, '$ ');
    host.replaceChildren(prompt, up.element('bdi', {title: up.visible(whole, 2000)}, up.visible(whole, 400)));
  }

  function drawStatements(id, kind, statements) {
    const items = statements.map(statement => {
      const item = up.element('li', {'data-code': statement.code, 'data-level': statement.level ?? 'info'});
      const said = up.element('span');
      up.writeStatement(said, kind, statement);
      if (kind === 'notice') item.append(up.element('strong', {class: 'level'}, up.text(`ui.level.${statement.level}`)));
      item.append(said);
      return item;
    });
    up.byId(id).replaceChildren(...items);
    if (kind === 'finding' && !items.length) up.byId(id).append(up.element('li', {}, up.text('ui.overview.no_findings')));
  }

  /** The few numbers to look at first; those that nobody measured are left out. */
  function keyFigures({steps, duration_ns, event_count}) {
    const recorded = up.text('ui.figures.recorded_of', {recorded_count: steps.recorded_count, all_count: steps.count});
    const time = value => value && up.duration(value, 2);
    const figures = [
      ['recorded_step', time(steps.recorded_step_ns), steps.fastest_ns && `${time(steps.fastest_ns)} – ${time(steps.slowest_ns)}`],
      ['unrecorded_step', time(steps.unrecorded_step_ns), up.text('ui.figures.median')],
      ['overhead', steps.overhead_ratio && up.show('_ratio', steps.overhead_ratio), up.text(steps.overhead_clear ? 'ui.figures.overhead_note' : 'ui.figures.overhead_unclear')],
      ['steps', steps.count ? recorded : null, up.text('ui.figures.steps_note')],
      ['duration', duration_ns && up.duration(duration_ns, 1), up.text('ui.figures.events', {event_count})],
    ];
    return figures.filter(([, value]) => value).map(([key, value, note]) => up.element('div', {'data-figure': key},
      up.element('dt', {}, up.text(`ui.figures.${key}`)),
      up.element('dd', {class: 'value'}, value),
      up.element('dd', {class: 'aside'}, note || null)));
  }

  function facts(summary) {
    const different = key => [...new Set(summary.ranks.map(rank => rank[key]).filter(Boolean))].map(value => up.visible(value, 120));
    const few = values => (values.length > 3 ? `${values.slice(0, 3).join(', ')} … (${up.count(values.length)})` : values.join(', '));
    const rows = [
      ['frameworks', Object.entries(summary.frameworks).map(([name, version]) => `${name} ${version}`).join(', ')],
      ['started', summary.started_ns && up.moment(summary.started_ns)],
      ['duration', summary.duration_ns && up.duration(summary.duration_ns)],
      ['ranks', up.text('ui.facts.ranks_of', {rank_count: summary.ranks.length, world_count: summary.world_size})],
      ['host', few(different('host'))],
      ['platform', few(different('platform'))],
      ['python', few(different('python'))],
      ['cycles', summary.ranks.length && up.count(Math.max(...summary.ranks.map(rank => rank.cycle_count)))],
      ['events', up.count(summary.event_count)],
    ];
    return rows.filter(([, value]) => value).flatMap(([key, value]) => [
      up.element('dt', {}, up.text(`ui.facts.${key}`)), up.element('dd', {'data-fact': key}, up.element('bdi', {}, value))]);
  }

  /** All recorded steps together, as one bar. */
  function drawParts(parts) {
    const shares = PARTS.map(key => ({key, share: parts[key] / (parts.wall_ns || 1)})).filter(({share}) => share > 0);
    const host = up.byId('overview-parts');
    host.hidden = !shares.length;
    const told = shares.map(({key, share}) => `${up.text(`part.${key}`)} ${up.share(share)}`);
    host.setAttribute('aria-label', `${up.text('ui.sections.parts')}: ${told.join(up.text('ui.list_separator'))}`);
    host.replaceChildren(...shares.map(({key, share}) => {
      const piece = up.element('span', {'data-part': key});
      piece.style.flexGrow = share;
      piece.style.backgroundColor = up.PARTS[key];
      return piece;
    }));
    up.byId('overview-parts-legend').replaceChildren(...shares.map(({key}, at) => legendEntry(up.PARTS[key], told[at], key)));
  }

  function legendEntry(colour, text, key) {
    const dot = up.element('span', {class: 'dot', 'aria-hidden': 'true', 'data-part': key});
    dot.style.backgroundColor = colour;
    return up.element('li', {}, dot, text);
  }

  Object.assign(up, {drawOverview});
})(window.unifiedProfilerReport ??= {});
