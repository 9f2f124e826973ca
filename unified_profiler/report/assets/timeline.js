'use strict';
/* Timelines of single steps: which rank and step, and the way to the step before and after. */
(up => {
  const timelineSection = data => up.stepTimelines('timeline',
    {timelines: data.timelines, categories: data.categories, left: data.steps_without_timeline});

  /**
   * A canvas with the timelines of steps, of which one is shown.
   * @param {string} id  of the canvas and its tools
   * @param {object} data  {timelines, categories, left}: left counts the steps without a timeline
   * @param {object} own  {describe, label}: what is said of a slice and how its name is written, if not as elsewhere
   */
  function stepTimelines(id, data, {describe, label} = {}) {
    const decode = up.decoder(data, {label});
    const part = name => up.byId(`${id}-${name}`);
    const [rank, step] = [part('rank'), part('step')];
    const section = up.slicesSection(id, data, {describe, activate: (slice, byKey) => byKey && section.view.zoomTo(slice)});
    const ofRank = () => data.timelines.filter(found => found.rank === Number(rank.value));
    const nameOf = ({step: number, cycle}, cycles) => {
      if (number === null) return up.text('ui.timeline.whole', {cycle});
      return cycles > 1 ? up.text('ui.timeline.step_of_cycle', {step: number, cycle}) : String(number);
    };

    const fill = () => {
      up.fillSelect(rank, up.rankOptions([...new Set(data.timelines.map(found => found.rank))], false));
      const cycles = new Set(ofRank().map(found => found.cycle)).size;
      up.fillSelect(step, ofRank().map((found, at) => [at, nameOf(found, cycles)]));
      step.closest('label').hidden = false;
      part('status').textContent = data.left ? up.text('ui.timeline.steps_left_out', {left_count: data.left}) : '';
    };
    const ends = () => {
      part('previous').disabled = step.selectedIndex <= 0;
      part('next').disabled = step.selectedIndex >= step.options.length - 1;
    };
    const show = () => {
      section.show(decode(ofRank()[step.selectedIndex]));
      ends();
    };
    const showChosen = () => {
      show();
      const {step: number} = ofRank()[step.selectedIndex];
      up.keepInAddress({rank: rank.options.length > 1 ? rank.value : '', step: number ?? ''});
    };
    const move = by => {
      const wanted = step.selectedIndex + by;
      if (wanted >= 0 && wanted < step.options.length) { step.selectedIndex = wanted; showChosen(); }
    };

    /** Show a step that was chosen elsewhere; says so if its timeline is not in the file. */
    const choose = wanted => {
      const same = found => found.rank === wanted.rank && found.step === wanted.step;
      if (data.timelines.some(same)) {
        rank.value = wanted.rank;
        fill();
        step.value = ofRank().findIndex(same);
        showChosen();
      } else part('status').textContent = up.text('ui.timeline.not_here', {step: wanted.step});
      section.goTo();
    };

    rank.addEventListener('change', () => { fill(); showChosen(); });
    step.addEventListener('change', showChosen);
    part('previous').addEventListener('click', () => move(-1));
    part('next').addEventListener('click', () => move(1));
    part('canvas').addEventListener('keydown', event => {
      const by = {PageUp: -1, '[': -1, PageDown: 1, ']': 1}[event.key];
      if (by) { event.preventDefault(); move(by); }
    });
    fill();
    if ([...rank.options].some(({value}) => value === up.chosenInAddress('rank'))) {
      rank.value = up.chosenInAddress('rank');
      fill();
    }
    const named = ofRank().findIndex(found => String(found.step) === up.chosenInAddress('step'));
    if (named >= 0) step.value = named;
    show();
    return {choose, find: section.find, goTo: section.goTo, draw: () => { fill(); ends(); section.refresh(); }};
  }

  Object.assign(up, {timelineSection, stepTimelines});
})(window.unifiedProfilerReport ??= {});
