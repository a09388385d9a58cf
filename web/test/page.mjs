// Pages in Chromium, for tests: `melmastoon up` runs beside them, and PICTURES=DIR keeps what they looked like.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';

import { chromium } from '../../clients/typescript/testing/browser.mjs';

const { MELMASTOON_PAGES_URL, PICTURES } = process.env;
const dist = new URL('../../internal/local/pages/dist/', import.meta.url);
const axe = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

/** Opens a page of `up` in a browser of the test's own. */
export async function open(t, path, ...flags) {
  return start(chromium(t, '--font-render-hinting=none', '--force-color-profile=srgb', ...flags), path);
}

/** The first page of a browser. */
export async function start(browser, path) {
  const tab = await browser.open(new URL(path, MELMASTOON_PAGES_URL).href);
  return { browser, tab, ...inspector(browser, tab) };
}

function inspector(browser, tab) {
  const frame = () => tab.value('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
  return {
    /** Chooses colours and, where one is given, a size. */
    async look(scheme, width, height) {
      await tab.tell('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }] });
      if (width !== undefined) await tab.tell('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
      await frame();
    },
    /** No violation of any rule of axe, in what is shown now. */
    async accessible(what) {
      if (!(await tab.value(`typeof axe === 'object'`))) await tab.value(`${axe}; 0`); // evaluated by the driver, which the page's policy does not hold
      await frame();
      const found = await tab.value(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.slice(0, 4).map((n) => n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? '')).join(' | ')))`);
      assert.deepEqual(found, [], what);
    },
    /** Nothing was asked of another host, and no error was written to the console. */
    async quiet() {
      const outside = await tab.value(`performance.getEntriesByType('resource').map((r) => r.name).filter((url) => !url.startsWith(location.origin) && !/^(data|blob):/.test(url))`);
      assert.deepEqual(outside, []);
      assert.deepEqual(browser.errors, []);
    },
    /** Presses keys one after the other, as `KeyboardEvent.key` names them; `Control+Shift+Enter` holds the first ones. They are sent together: pages forget the first key of two after a while. */
    async press(...names) {
      const sent = [];
      for (const name of names) {
        const held = name.length > 1 ? name.split('+').slice(0, -1) : [];
        const key = name.slice(held.join('+').length + (held.length > 0 ? 1 : 0));
        const modifiers = held.reduce((sum, one) => sum + { Alt: 1, Control: 2, Meta: 4, Shift: 8 }[one], key === '?' ? 8 : 0);
        const text = key === 'Enter' ? '\r' : key.length === 1 && (modifiers & 6) === 0 ? key : undefined;
        const windowsVirtualKeyCode = { Enter: 13, Escape: 27, Tab: 9, ' ': 32, ArrowLeft: 37, ArrowUp: 38, ArrowRight: 39, ArrowDown: 40 }[key] ?? key.toUpperCase().charCodeAt(0);
        const code = { ' ': 'Space', '/': 'Slash', '?': 'Slash' }[key] ?? (/^[a-z]$/i.test(key) ? `Key${key.toUpperCase()}` : /^\d$/.test(key) ? `Digit${key}` : key);
        sent.push(tab.tell('Input.dispatchKeyEvent', { type: 'keyDown', key, code, modifiers, windowsVirtualKeyCode, ...(text && { text }) }));
        sent.push(tab.tell('Input.dispatchKeyEvent', { type: 'keyUp', key, code, modifiers, windowsVirtualKeyCode }));
      }
      await Promise.all(sent);
    },
    /** Opens an address in a language that does not exist: texts are two fifths longer and stand between ⟦ and ⟧, and the page is mirrored. */
    async pseudo(url) {
      const { identifier } = await tab.tell('Page.addScriptToEvaluateOnNewDocument', { source: `(${madeUp})()` });
      await tab.go(url);
      await tab.until(`document.documentElement.dataset.pseudo && document.readyState === 'complete'`);
      await tab.tell('Page.removeScriptToEvaluateOnNewDocument', { identifier });
    },
    /** Of such a page: no text is written in its sources instead of its messages, and none is cut off. Values stand in <bdi>, or below [data-user]. */
    async translated(what) {
      await frame();
      assert.deepEqual(await tab.value(`(${untranslated})()`), [], `${what}: not of the messages`);
      assert.deepEqual(await tab.value(`(${cutOff})()`), [], `${what}: cut off`);
    },
    /** A picture of what is shown, with the fonts that it needs. */
    async picture(name, width, height) {
      await tab.value('document.fonts.ready.then(() => 0)');
      const png = await tab.picture(width, height);
      if (PICTURES) {
        mkdirSync(PICTURES, { recursive: true });
        writeFileSync(`${PICTURES}/${name}.png`, png);
      }
      return png;
    },
  };
}

function madeUp() {
  document.addEventListener('readystatechange', () => {
    if (document.readyState !== 'interactive') return; // scripts that are modules come after it
    const place = document.getElementById('messages');
    const texts = Object.entries(JSON.parse(place.textContent));
    place.textContent = JSON.stringify(Object.fromEntries(texts.map(([key, text]) => [key, `⟦${text}${'~'.repeat(Math.ceil(text.replace(/\{[^{}]*\}/g, '').length * 0.4))}⟧`])));
    document.documentElement.dir = document.documentElement.dir === 'rtl' ? 'ltr' : 'rtl';
    document.documentElement.dataset.pseudo = 'yes';
  });
}

function untranslated() {
  const found = [];
  const exempt = 'bdi, kbd, code, pre, svg, script, style, option[lang], [data-user]';
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let depth = 0, node; (node = walk.nextNode()); ) {
    let bare = '';
    for (const letter of node.data) {
      if (letter === '⟦') depth++;
      else if (letter === '⟧') depth--;
      else if (depth === 0 && /\p{L}/u.test(letter)) bare += letter;
    }
    if (bare !== '' && node.parentElement.closest(exempt) === null) found.push(`${node.parentElement.tagName}: ${node.data.trim()}`);
  }
  for (const element of document.querySelectorAll('[aria-label], [title], [placeholder], [alt]')) {
    for (const name of ['aria-label', 'title', 'placeholder', 'alt']) {
      const text = element.getAttribute(name) ?? '';
      if (/\p{L}/u.test(text) && !text.includes('⟦') && element.closest(`${exempt}, time, dialog`) === null) found.push(`${name}: ${text}`);
    }
  }
  return found;
}

function cutOff() {
  const found = document.documentElement.scrollWidth > innerWidth + 1 ? [`the page is ${document.documentElement.scrollWidth} wide, the window ${innerWidth}`] : [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.includes('⟦'));
    if (!own || element.title !== '' || element.closest('.unseen, svg, bdi, [data-user]') !== null || element.offsetParent === null) continue;
    const hidden = /hidden|clip/.test(getComputedStyle(element).overflowX) || element.matches('button, .button, .chip');
    if (hidden && element.scrollWidth > element.clientWidth + 1) found.push(`${element.tagName}: ${element.textContent}`);
  }
  return found;
}

/** What a page has in dist, in bytes as they go over the wire. Pieces that are loaded later count for `later`. */
export function bytes(page) {
  const of = JSON.parse(readFileSync(new URL(`${page}.json`, dist), 'utf8'));
  const size = (name) => readFileSync(new URL(name.endsWith('.woff2') ? name : `${name}.gz`, dist)).length;
  const first = [of.script, ...(of.load ?? [])];
  const all = readdirSync(dist).filter((name) => name.startsWith(`${page}-`) && name.endsWith('.js.gz')).map((name) => name.replace(/\.gz$/, ''));
  const sum = (names) => names.reduce((total, name) => total + size(name), 0);
  return { script: sum(first), later: sum(all.filter((name) => !first.includes(name) && name !== of.worker)), style: sum([of.style]), fonts: Object.fromEntries(Object.entries(of.fonts ?? {}).map(([name, file]) => [name, size(file)])) };
}
