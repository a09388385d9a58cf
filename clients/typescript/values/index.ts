export { addDays, dayOf, nights, today, type Day } from './day.js';
export { formatDay, type Calendar, type DayOptions } from './formatday.js';
export { foldDigits, formatList, isolate, localeInfo, localized, plural, type Locale, type LocaleInfo, type Plural } from './locale.js';
export { formatMoney, minorDigits, parseMoney, sum, toDecimal, toMinor, type Money, type MoneyOptions } from './money.js';
export { formatNumber, parseNumber } from './number.js';
export { fromSolarHijri, toSolarHijri, type SolarHijri } from './solarhijri.js';
