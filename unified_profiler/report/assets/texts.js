'use strict';
/* Words and numbers: the texts of both languages, and how a value is shown, which follows from the end of its key. */
(up => {
  const DASH = '–';
  const LANGUAGES = ['en', 'zh'];
  const DURATIONS = [[1e9, 'unit.s'], [1e6, 'unit.ms'], [1e3, 'unit.us']];
  const AXES = [...DURATIONS, [1, 'unit.ns']];
  const SIZES = [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']];
  const POWERS = [[1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']];
  const LOCALES = {en: 'en-GB', zh: 'zh-CN'};
  const formatters = new Map();
  let texts = {};
  let language = 'en';

  /** Take over the texts of all languages and choose the first: the document's, else the browser's, else English. */
  function useTexts(all, wanted) {
    texts = all;
    const spoken = (navigator.languages ?? []).map(code => code.slice(0, 2).toLowerCase());
    setLanguage(LANGUAGES.includes(wanted) ? wanted : spoken.find(code => LANGUAGES.includes(code)) ?? 'en');
  }

  function setLanguage(wanted) {
    language = LANGUAGES.includes(wanted) ? wanted : 'en';
    document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
  }

  const has = key => texts[language]?.[key] !== undefined;

  /** A text with its {placeholders} filled in; a key that nobody wrote is shown as it is. */
  function text(key, values = {}) {
    return pieces(texts[language]?.[key] ?? texts.en?.[key] ?? key, values).map(piece => piece.text).join('');
  }

  /** Split a format string into fixed texts and formatted values, so that values can be marked up; `{count:step|steps}` is a word. */
  function pieces(format, values) {
    const parts = format.split(/(\{\{|\}\}|\{\w+(?::[^{}]*)?\})/).filter(Boolean);
    return parts.map(part => {
      if (part === '{{' || part === '}}') return {text: part[0]};
      const [, key, words] = /^\{(\w+)(?::(.*))?\}$/.exec(part) ?? [];
      if (key === undefined) return {text: part};
      const shown = show(key, values[key]);
      return words ? {text: words.split('|')[shown === '1' ? 0 : 1]} : {text: shown, key};
    });
  }

  /** A value as people read it. */
  function show(key, value) {
    if (value === null || value === undefined || value === '') return DASH;
    if (key === 'category') return word('category', value);
    if (key === 'hint') return word('advice', value);
    if (typeof value !== 'number') return visible(String(value), 300);
    if (key.endsWith('_ns')) return duration(value);
    if (key.endsWith('_bytes')) return bytes(value);
    if (key.endsWith('_share')) return share(value);
    if (key.endsWith('_ratio')) return `${decimals(value, 2)}×`;
    if (key.endsWith('flops')) return scaled(value, POWERS, 3);
    return key.endsWith('_count') ? count(value) : String(value);
  }

  /** A word of a fixed list (category, phase, curve ...): translated where it is known, else as it is. */
  function word(kind, value) {
    return has(`${kind}.${value}`) ? text(`${kind}.${value}`) : visible(value);
  }

  /** A number in the manner of the language. Formatters are kept: making one takes as long as using it a hundred times. */
  function number(value, options) {
    const key = `${language} ${JSON.stringify(options)}`;
    if (!formatters.has(key)) formatters.set(key, new Intl.NumberFormat(LOCALES[language], options));
    return formatters.get(key).format(value);
  }

  const decimals = (value, digits) => number(value, {minimumFractionDigits: digits, maximumFractionDigits: digits});
  const count = value => number(value, {maximumFractionDigits: 0});
  const share = value => `${decimals(100 * value, 1)}%`;

  /** A size: `812 B`, `12.34 MiB`. */
  function bytes(value) {
    const {size, name} = sizeUnit(Math.abs(value));
    return `${size === 1 ? count(value) : decimals(value / size, 2)} ${name}`;
  }

  /** A duration: `0.812 us`, `12.345 ms`, `3 min 12 s`. */
  function duration(ns, digits = 3) {
    const size = Math.abs(ns);
    if (size >= 60e9) return text('unit.minutes', {minutes: count(Math.floor(size / 60e9)), seconds: Math.floor(size / 1e9 % 60)});
    const [unit, key] = DURATIONS.find(([unit]) => size >= unit) ?? DURATIONS.at(-1);
    return `${decimals(ns / unit, digits)} ${text(key)}`;
  }

  function scaled(value, units, digits) {
    const [unit, name] = units.find(([unit]) => Math.abs(value) >= unit) ?? units.at(-1);
    return `${number(value / unit, {maximumSignificantDigits: digits})} ${name}`.trim();
  }

  /** The unit in which all values up to the largest read well: what to divide by, and its name. */
  function durationUnit(largest) {
    const [size, key] = AXES.find(([unit]) => largest >= unit) ?? AXES.at(-1);
    return {size, name: text(key)};
  }

  function sizeUnit(largest) {
    const [size, name] = SIZES.find(([unit]) => largest >= unit) ?? SIZES.at(-1);
    return {size, name};
  }

  function moment(epochNs) {
    return new Intl.DateTimeFormat(LOCALES[language], {dateStyle: 'long', timeStyle: 'medium'}).format(epochNs / 1e6);
  }

  /** A name of somebody else, made harmless to read: control, direction and invisible characters are spelt out. */
  function visible(name, most = 500) {
    const spelt = String(name).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu, spell);
    return spelt.length <= most ? spelt : `${[...spelt.slice(0, most)].slice(0, -1).join('')}…`;
  }

  function spell(character) {
    const known = {'\n': '\\n', '\t': '\\t', '\r': '\\r'}[character];
    const code = character.codePointAt(0).toString(16);
    return known ?? (code.length <= 2 ? `\\x${code.padStart(2, '0')}` : `\\u${code.padStart(4, '0')}`);
  }

  /** Write a notice or finding into an element: numbers stand out, names are kept apart from the sentence around them. */
  function writeStatement(element, kind, statement) {
    const format = texts[language]?.[`${kind}.${statement.code}`];
    const said = format === undefined ? [{text: visible(statement.text, 2000)}] : pieces(format, statement.values);
    element.replaceChildren(...said.map(piece => {
      if (piece.key === undefined) return document.createTextNode(piece.text);
      const tag = /_(ns|bytes|share|ratio|count)$/.test(piece.key) ? 'strong' : piece.key === 'category' ? 'em' : 'bdi';
      return up.element(tag, {}, piece.text);
    }));
  }

  Object.assign(up, {
    useTexts, setLanguage, text, show, word, has, number, count, share, duration, durationUnit, sizeUnit, moment, visible, writeStatement,
    language: () => language,
  });
})(window.unifiedProfilerReport ??= {});
