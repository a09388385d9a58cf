// Cuts the fonts of the pages to the letters that their languages need: `npm ci && node subset.mjs` in this folder writes ../kit/fonts. The results are kept, so that
// no build has to do it.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';

import subsetFont from 'subset-font';

const range = (...ranges) => ranges.flatMap(([from, to = from]) => Array.from({ length: to - from + 1 }, (_, i) => String.fromCodePoint(from + i))).join('');
const file = (name) => readFileSync(new URL(`node_modules/@${name}.woff2`, import.meta.url));
const out = (name) => new URL(`../kit/fonts/${name}`, import.meta.url);
mkdirSync(out('.'), { recursive: true });

const wght = { wght: { min: 400, max: 700 } };
const punctuation = [[0x2010, 0x2026], [0x2030, 0x203a]];
for (const [name, source, letters, axes] of [
  ['vazirmatn', 'fontsource-variable/vazirmatn/files/vazirmatn-arabic-wght-normal', range([0x60c], [0x61b, 0x61f], [0x621, 0x655], [0x660, 0x66d], [0x670, 0x6d5], [0x6f0, 0x6f9], [0x200c, 0x200f], [0xab, 0xab], [0xbb, 0xbb]), wght],
  ['inter-latin', 'fontsource-variable/inter/files/inter-latin-wght-normal', range([0x20, 0x7e], [0xa0, 0xff], [0x2190, 0x2193], [0x2212], ...punctuation), wght],
  ['inter-cyrillic', 'fontsource-variable/inter/files/inter-cyrillic-wght-normal', range([0x401], [0x410, 0x44f], [0x451], [0x2116]), wght],
  ['inter-tajik', 'fontsource-variable/inter/files/inter-cyrillic-ext-wght-normal', 'ҒғӢӣҚқӮӯҲҳҶҷ', wght],
  ['afghani', 'fontsource/noto-naskh-arabic/files/noto-naskh-arabic-arabic-400-normal', '\u060b\ufdfc', undefined],
]) {
  const woff2 = await subsetFont(file(source), letters, { targetFormat: 'woff2', ...(axes && { variationAxes: axes }) });
  writeFileSync(out(`${name}.woff2`), woff2);
  console.log(name, woff2.length);
}
for (const name of ['fontsource-variable/vazirmatn', 'fontsource-variable/inter', 'fontsource/noto-naskh-arabic']) {
  copyFileSync(new URL(`node_modules/@${name}/LICENSE`, import.meta.url), out(`LICENSE-${name.split('/')[1]}.txt`));
}
