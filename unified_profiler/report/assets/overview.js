'use strict';
/* The first screen: what ran, what to know before trusting it, and where the time went. */
(up => {
  const MOST_SLOW = 3;          // slow ranks on the first screen; the page about ranks has all

  function drawOverview({summary, title}) {
    const run = summary.run && summary.run !== title ? up.element('small', {id: 'overview-run'}, up.visible(summary.run, 60)) : null;
    up.byId('overview-title').replaceChildren(up.element('bdi', {}, up.visible(title, 120)), ' ', run ?? '');
    document.title = `${up.visible(title, 120)} · unified_profiler`;
    up.byId('to-ranks').hidden = !summary.ranks_verdict.length;
    up.byId('to-devices').hidden = !summary.devices.length;
    drawCommand(summary.command, title);
    up.byId('notices').replaceChildren(...summary.notices.map(notice => noticeItem('notice', notice)));
    up.byId('findings').replaceChildren(...findings(summary));
    up.byId('figures').replaceChildren(...keyFigures(summary));
    up.byId('facts').replaceChildren(...facts(summary));
    for (const id of ['devices', 'parts']) up.byId(`overview-${id}-title`).hidden = !summary.devices.length;
    const all = key => summary.devices.reduce((sum, row) => sum + row[key], 0);
    drawParts('devices', up.DEVICE_PARTS.map(key => [key, all(key)]), all('span_ns'));
    drawParts('parts', up.STEP_PARTS.map(key => [key, summary.step_parts[key]]), summary.step_parts.wall_ns);
    up.byId('made-by').textContent = up.text('ui.footer.made_by', {version: summary.profiler_version});
  }

  /** The command line of the script, unless it is no more than the name in the title. */
  function drawCommand(command, title) {
    const host = up.byId('overview-command');
    host.hidden = command.length < 2 && title.startsWith(command[0] ?? '');
    const whole = command.map(word => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word}'`)).join(' ');
    host.replaceChildren(up.element('bdi', {title: up.visible(whole, 2000)}, up.visible(whole, 400)));
  }

  /** A notice in a list, with its level in front. */
  function noticeItem(kind, notice) {
    const level = up.element('strong', {class: 'level'}, up.text(`ui.level.${notice.level}`));
    return up.element('li', {'data-code': notice.code, 'data-level': notice.level}, level, said(kind, notice));
  }

  /** What is said of one thing, in a list. */
  function findingItem(kind, statements) {
    const sentences = statements.flatMap((statement, at) => [at ? up.text('ui.sentence_separator') : '', said(kind, statement)]);
    return up.element('li', {'data-code': statements[0].code}, ...sentences);
  }

  function said(kind, statement) {
    const made = up.element('span');
    up.writeStatement(made, kind, statement);
    return made;
  }

  /** Where the time went, and of the slowest ranks the fact and its cause. */
  function findings({findings, ranks_verdict, devices_verdict}) {
    const slow = up.paragraphs(ranks_verdict);
    const items = [
      ...devices_verdict.map(statement => findingItem('devices', [statement])),
      ...findings.map(finding => findingItem('finding', [finding])),
      ...slow.slice(0, MOST_SLOW).map(statements => findingItem('ranks', statements.slice(0, 2))),
    ];
    const more = {more_count: slow.length - MOST_SLOW};
    if (more.more_count > 0) items.push(up.element('li', {}, up.text('summary.more_slow', more)));
    return items.length ? items : [up.element('li', {}, up.text('ui.overview.no_findings'))];
  }

  /** Statements as paragraphs; a warning begins one. */
  function paragraphs(statements) {
    const found = [];
    for (const statement of statements) {
      if (statement.level === 'warning' || !found.length) found.push([]);
      found.at(-1).push(statement);
    }
    return found;
  }

  function overhead(steps) {
    return steps.overhead_unclear ? up.text('ui.figures.overhead_not_clear') : up.show('_ratio', steps.overhead_ratio);
  }

  /** The few numbers to look at first; those that nobody measured are left out. */
  function keyFigures({steps, duration_ns, event_count}) {
    const recorded = up.text('ui.figures.recorded_of', {recorded_count: steps.recorded_count, all_count: steps.count});
    const time = value => value && up.duration(value, 2);
    const figures = [
      ['recorded_step', time(steps.recorded_step_ns), steps.fastest_ns && `${time(steps.fastest_ns)} – ${time(steps.slowest_ns)}`],
      ['unrecorded_step', time(steps.unrecorded_step_ns), up.text('ui.figures.median_of', {step_count: steps.unrecorded_count})],
      ['overhead', steps.unrecorded_step_ns && overhead(steps), up.text(`ui.figures.overhead_${steps.overhead_unclear || 'note'}`)],
      ['steps', steps.count ? recorded : null, up.text('ui.figures.steps_note')],
      ['start_up', time(steps.start_up_ns), up.text('ui.figures.start_up_note')],
      ['duration', duration_ns && up.duration(duration_ns, 1), up.text('ui.figures.events', {event_count})],
    ];
    return figureElements(figures);
  }

  /** [key, value, note] as parts of a list; those without a value are left out. */
  function figureElements(figures) {
    return figures.filter(([, value]) => value).map(([key, value, note]) => up.element('div', {'data-figure': key},
      up.element('dt', {}, up.text(`ui.figures.${key}`)),
      up.element('dd', {class: 'value'}, value),
      up.element('dd', {class: 'aside'}, note || null)));
  }

  function facts(summary) {
    const different = key => [...new Set(summary.ranks.map(rank => rank[key]).filter(Boolean))].map(value => up.visible(value, 120));
    const few = values => (values.length > 3 ? `${values.slice(0, 3).join(', ')} … (${up.count(values.length)})` : values.join(', '));
    const rows = [
      ['run', up.visible(summary.run, 120)],
      ['frameworks', Object.entries(summary.frameworks).map(([name, version]) => `${name} ${version}`).join(', ')],
      ['started', summary.started_ns && up.moment(summary.started_ns)],
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

  /** Where the time of all recorded steps, or of all devices, went: as one bar. */
  function drawParts(id, parts, whole) {
    const shares = parts.map(([key, value]) => ({key, share: value / (whole || 1)})).filter(({share}) => share > 0);
    const host = up.byId(`overview-${id}`);
    host.hidden = !shares.length;
    const told = shares.map(({key, share}) => `${up.text(`part.${key}`)} ${up.share(share)}`);
    host.setAttribute('aria-label', `${up.text(id === 'devices' ? 'ui.overview.devices' : 'ui.sections.parts')}: ${told.join(up.text('ui.list_separator'))}`);
    host.replaceChildren(...shares.map(({key, share}) => {
      const piece = up.element('span', {'data-part': key});
      piece.style.flexGrow = share;
      piece.style.backgroundColor = up.PARTS[key];
      return piece;
    }));
    up.byId(`overview-${id}-legend`).replaceChildren(...shares.map(({key}, at) => legendEntry(up.PARTS[key], told[at], key)));
  }

  function legendEntry(color, text, key) {
    const dot = up.element('span', {class: 'dot', 'aria-hidden': 'true', 'data-part': key});
    dot.style.backgroundColor = color;
    return up.element('li', {}, dot, text);
  }

  Object.assign(up, {drawOverview, noticeItem, said, paragraphs, figureElements});
})(window.unifiedProfilerReport ??= {});
