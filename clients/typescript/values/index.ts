export { addDays, dayOf, formatDay, nights, today, type Day } from './day.js';
export { formatMoney, minorDigits, sum, toDecimal, toMinor, type Money } from './money.js';
