'use strict';
/* Colors. Hue and lightness both vary, and color never says anything that a text does not say too. */
(up => {
  /* Neighbors in this list differ in lightness as well as in hue, so that they stay apart without red and green. */
  const CATEGORIES = {
    matmul: '#3a6ea8', convolution: '#2a9d9a', attention: '#8a63b8', recurrent: '#b3588f', normalization: '#e3a83b',
    activation: '#d9733f', pooling: '#86bfe0', loss: '#b93f3f', elementwise: '#a3bd63', reduction: '#557a3c',
    indexing: '#d3c25a', layout: '#b9b0a2', random: '#e0a9c0', optimizer: '#5b4b8a', collective: '#154f6b',
    copy: '#96703f', data_loading: '#6fa287', bookkeeping: '#c9ced6', other: '#929aa6', step: '#cdd6e2', region: '#a9bfdc',
    module: '#d9dde4', api: '#e6cda9', compile: '#c9b3df', python: '#dcd6c8', runtime: '#7c8794',
  };
  const PARTS = {
    op_ns: '#3a6ea8', compute_ns: '#3a6ea8', data_ns: '#6fa287', copy_ns: '#e3c35a', uncovered_ns: '#aab2bd',
    compile_ns: '#8a63b8', collective_ns: '#d9733f', transfer_ns: '#d9733f', waiting_ns: '#f0c9b0',
  };
  const PART_PATTERNS = {
    uncovered_ns: {shape: '/', bgcolor: PARTS.uncovered_ns, fgcolor: '#78828f', size: 5},
    waiting_ns: {shape: '\\', bgcolor: PARTS.waiting_ns, fgcolor: PARTS.collective_ns, size: 5},
  };
  const STEP_PARTS = ['data_ns', 'op_ns', 'collective_ns', 'copy_ns', 'compile_ns', 'uncovered_ns'];
  /* What a rank does by itself, and then what it does with the others. */
  const RANK_PARTS = ['compute_ns', 'data_ns', 'copy_ns', 'uncovered_ns', 'transfer_ns', 'waiting_ns'];
  const LINES = ['#3a6ea8', '#d9733f', '#2a9d9a', '#8a63b8', '#b8901f', '#b3588f', '#557a3c', '#7c8794'];

  const channels = color => [1, 3, 5].map(at => parseInt(color.slice(at, at + 2), 16));

  function luminance(color) {
    const [red, green, blue] = channels(color).map(value => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  }

  /** Black or white, whichever reads better: one of the two always has a contrast of more than 4.5 to 1. */
  const inkOn = color => (luminance(color) > 0.179 ? '#000000' : '#ffffff');

  /** A color with so much of another in it. */
  function mixed(color, other, amount) {
    const [from, to] = [channels(color), channels(other)];
    return `#${from.map((value, at) => Math.round(value + (to[at] - value) * amount).toString(16).padStart(2, '0')).join('')}`;
  }

  const categoryColor = name => CATEGORIES[name] ?? CATEGORIES.other;

  /** The colors of the page as the style sheet has them now, light or dark. */
  function pageColors() {
    const style = getComputedStyle(document.documentElement);
    const names = ['paper', 'panel', 'ink', 'soft', 'line', 'accent', 'mark'];
    const found = names.map(name => [name, style.getPropertyValue(`--${name}`).trim()]);
    return {...Object.fromEntries(found), font: getComputedStyle(document.body).fontFamily};
  }

  Object.assign(up, {PARTS, PART_PATTERNS, STEP_PARTS, RANK_PARTS, LINES, categoryColor, inkOn, mixed, pageColors});
})(window.unifiedProfilerReport ??= {});
