// The texts and the style of the page, the same as in the Go program beside it.

/** The style, with the brand's colour if that has the form of one. Logical properties serve both directions. */
export function style(color = ''): string {
  const brand = /^#[0-9a-f]{6}$/i.test(color) ? color : '#1f4e5f';
  return `:root{--brand:${brand};--ink:#1d2529;--quiet:#5b6770;--line:#e3e7ea}*{box-sizing:border-box}
body{margin:0;background:#f5f6f7;color:var(--ink);font:16px/1.6 system-ui,"Noto Naskh Arabic","Noto Sans Arabic",sans-serif}
main{max-width:46rem;margin:0 auto;background:#fff;min-height:100vh}header{border-block-start:6px solid var(--brand)}
header img{display:block;inline-size:100%;block-size:16rem;object-fit:cover;background:var(--line)}
section,.lead{padding:0 1.5rem}h1{margin:1.2rem 1.5rem .2rem;font-size:1.9rem;line-height:1.25}.lead{color:var(--quiet);margin:0 0 1rem}
h2{font-size:1.05rem;margin:1.6rem 0 .4rem;color:var(--brand)}
dl{display:grid;grid-template-columns:minmax(8rem,12rem) 1fr;margin:0}dt,dd{padding:.45rem 0;border-block-end:1px solid var(--line);margin:0}dt{color:var(--quiet)}
ul{list-style:none;margin:0;padding:0}li{padding:.3rem 0}li::before{content:"✓";color:var(--brand);font-weight:700;margin-inline-end:.6rem}
.id{font:13px/1.6 ui-monospace,monospace;color:var(--quiet);overflow-wrap:anywhere;direction:ltr;unicode-bidi:isolate}.refused{padding:4rem 1.5rem}.refused h1{margin-inline:0}
footer{padding:1.5rem}`;
}

const english = {
  lead: 'You have arrived. The booking starts from here.',
  stay: 'Your stay',
  'check-in': 'Check-in',
  'check-out': 'Check-out',
  nights: 'Nights',
  adults: 'Adults',
  children: 'Children',
  ages: 'Ages',
  rooms: 'Rooms',
  price: 'Price',
  shown: 'Shown to you',
  now: 'Now',
  'not shown': 'none',
  matched: 'the same',
  changed: 'changed',
  unavailable: 'no longer for sale',
  unchecked: 'not checked',
  signed: 'Signed by the storefront',
  'signed what': 'hotel, days, guests, rooms, currency and language, for thirty minutes',
  checked: 'Checked on arrival',
  genuine: 'the signature is genuine',
  'this hotel': 'it is for this hotel',
  'first use': 'it was not used before',
  'hand-off': 'Hand-off',
  'no booking': 'No booking',
  none: "This address has no hand-off. Start from the hotel's page of the storefront.",
  forged: 'This hand-off is not genuine: its token was changed or cut off on the way.',
  expired: 'This hand-off has expired: it is good for thirty minutes. Go back and choose the hotel again.',
  used: 'This hand-off was already used. Each one opens a booking once. Go back and choose the hotel again.',
  elsewhere: 'This hand-off is for another hotel.',
  suspended: 'This hotel takes no bookings at the moment.',
  away: 'The hand-off could not be checked and is still good. Load this page again in a moment.',
};

export type Word = keyof typeof english;
type Words = Readonly<Record<Word, string>>;

const dari: Words = {
  lead: 'شما رسیدید. رزرو از همین‌جا آغاز می‌شود.',
  stay: 'اقامت شما',
  'check-in': 'ورود',
  'check-out': 'خروج',
  nights: 'شب‌ها',
  adults: 'بزرگسالان',
  children: 'کودکان',
  ages: 'سن کودکان',
  rooms: 'اتاق‌ها',
  price: 'قیمت',
  shown: 'قیمتی که دیدید',
  now: 'اکنون',
  'not shown': 'نشان داده نشده',
  matched: 'همان قیمت',
  changed: 'تغییر کرده',
  unavailable: 'دیگر فروخته نمی‌شود',
  unchecked: 'بررسی نشده',
  signed: 'آنچه امضا شده است',
  'signed what': 'هوتل، روزها، مهمانان، اتاق‌ها، واحد پول و زبان، برای سی دقیقه',
  checked: 'آنچه هنگام رسیدن بررسی شد',
  genuine: 'امضا اصل است',
  'this hotel': 'برای همین هوتل است',
  'first use': 'پیش از این استفاده نشده است',
  'hand-off': 'شمارهٔ انتقال',
  'no booking': 'رزرو نشد',
  none: 'این نشانی انتقالی ندارد. از صفحهٔ هوتل در جست‌وجو آغاز کنید.',
  forged: 'این انتقال اصل نیست: در راه تغییر کرده یا بریده شده است.',
  expired: 'وقت این انتقال گذشته است: سی دقیقه اعتبار دارد. برگردید و هوتل را دوباره انتخاب کنید.',
  used: 'این انتقال پیش از این استفاده شده است. هر انتقال تنها یک بار رزرو را باز می‌کند. برگردید و هوتل را دوباره انتخاب کنید.',
  elsewhere: 'این انتقال برای هوتل دیگری است.',
  suspended: 'این هوتل فعلاً رزرو نمی‌پذیرد.',
  away: 'انتقال بررسی نشد و هنوز معتبر است. چند لحظه بعد این صفحه را دوباره باز کنید.',
};

const pashto: Words = {
  lead: 'تاسو راورسېدئ. بکنګ له همدې ځایه پیلېږي.',
  stay: 'ستاسو اوسېدنه',
  'check-in': 'ننوتل',
  'check-out': 'وتل',
  nights: 'شپې',
  adults: 'لویان',
  children: 'ماشومان',
  ages: 'د ماشومانو عمر',
  rooms: 'خونې',
  price: 'بیه',
  shown: 'هغه بیه چې تاسو ولیدله',
  now: 'اوس',
  'not shown': 'نه ده ښودل شوې',
  matched: 'هماغه بیه',
  changed: 'بدله شوې',
  unavailable: 'نوره نه پلورل کېږي',
  unchecked: 'نه ده کتل شوې',
  signed: 'هغه څه چې لاسلیک شوي',
  'signed what': 'هوټل، ورځې، مېلمانه، خونې، پیسې او ژبه، د دېرشو دقیقو لپاره',
  checked: 'هغه څه چې د رارسېدو پر مهال وکتل شول',
  genuine: 'لاسلیک سم دی',
  'this hotel': 'د همدې هوټل لپاره دی',
  'first use': 'مخکې نه دی کارول شوی',
  'hand-off': 'د لېږد شمېره',
  'no booking': 'بکنګ ونه شو',
  none: 'دا پته لېږد نه لري. په لټون کې د هوټل له پاڼې پیل وکړئ.',
  forged: 'دا لېږد سم نه دی: په لاره کې بدل یا پرې شوی دی.',
  expired: 'د دې لېږد وخت تېر شوی: دېرش دقیقې اعتبار لري. بېرته ولاړ شئ او هوټل بیا وټاکئ.',
  used: 'دا لېږد مخکې کارول شوی. هر لېږد یوازې یو ځل بکنګ پرانیزي. بېرته ولاړ شئ او هوټل بیا وټاکئ.',
  elsewhere: 'دا لېږد د بل هوټل لپاره دی.',
  suspended: 'دا هوټل اوس بکنګ نه مني.',
  away: 'لېږد ونه کتل شو او لا هم سم دی. لږ وروسته دا پاڼه بیا پرانیزئ.',
};

/** The texts for a locale or for what a browser accepts. A guest whose language has none here reads English. */
export function wordsOf(languages: string): { words: Words; locale: string } {
  switch (languages.slice(0, 2).toLowerCase()) {
    case 'fa':
      return { words: dari, locale: 'fa-AF' };
    case 'ps':
      return { words: pashto, locale: 'ps-AF' };
  }
  return { words: english, locale: 'en' };
}
