'use strict';
/* The timeline of one step: which rank and step, and the way to the step before and after. */
(up => {
  function timelineSection(document) {
    const decode = up.decoder(document);
    const [rank, step] = [up.byId('timeline-rank'), up.byId('timeline-step')];
    const section = up.slicesSection('timeline', document, {activate: (slice, byKey) => byKey && section.view.zoomTo(slice)});
    const ofRank = () => document.timelines.filter(found => found.rank === Number(rank.value));
    const nameOf = ({step: number, cycle}, cycles) => {
      if (number === null) return up.text('ui.timeline.whole', {cycle});
      return cycles > 1 ? up.text('ui.timeline.step_of_cycle', {step: number, cycle}) : String(number);
    };

    const fill = () => {
      up.fillSelect(rank, up.rankOptions([...new Set(document.timelines.map(found => found.rank))], false));
      const cycles = new Set(ofRank().map(found => found.cycle)).size;
      up.fillSelect(step, ofRank().map((found, at) => [at, nameOf(found, cycles)]));
      step.closest('label').hidden = false;
      const left = document.steps_without_timeline;
      up.byId('timeline-status').textContent = left ? up.text('ui.timeline.steps_left_out', {left_count: left}) : '';
    };
    const ends = () => {
      up.byId('timeline-previous').disabled = step.selectedIndex <= 0;
      up.byId('timeline-next').disabled = step.selectedIndex >= step.options.length - 1;
    };
    const show = () => { section.show(decode(ofRank()[step.selectedIndex])); ends(); };
    const move = by => {
      const wanted = step.selectedIndex + by;
      if (wanted >= 0 && wanted < step.options.length) { step.selectedIndex = wanted; show(); }
    };

    /** Show a step that was chosen elsewhere; says so if its timeline is not in the file. */
    const choose = wanted => {
      const same = found => found.rank === wanted.rank && found.step === wanted.step;
      if (document.timelines.some(same)) {
        rank.value = wanted.rank;
        fill();
        step.value = ofRank().findIndex(same);
        show();
      } else up.byId('timeline-status').textContent = up.text('ui.timeline.not_here', {step: wanted.step});
      up.byId('timeline').scrollIntoView({block: 'start'});
      up.byId('timeline-canvas').focus({preventScroll: true});
    };

    rank.addEventListener('change', () => { fill(); show(); });
    step.addEventListener('change', show);
    up.byId('timeline-previous').addEventListener('click', () => move(-1));
    up.byId('timeline-next').addEventListener('click', () => move(1));
    up.byId('timeline-canvas').addEventListener('keydown', event => {
      const by = {PageUp: -1, '[': -1, PageDown: 1, ']': 1}[event.key];
      if (by) { event.preventDefault(); move(by); }
    });
    fill();
    show();
    return {choose, draw: () => { fill(); ends(); section.refresh(); }};
  }

  up.timelineSection = timelineSection;
})(window.unifiedProfilerReport ??= {});
