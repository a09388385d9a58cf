import type { Language } from './catalogue.js';

/** What people read when there is no answer to a call: the fault is not the service's, and waiting or another network helps. */
export const unanswered: Readonly<Record<'NETWORK' | 'TIMEOUT', Readonly<Record<Language, string>>>> = {
  NETWORK: {
    en: 'There is no connection. Check the network and try again.',
    fa: 'اتصال برقرار نیست. شبکه را بررسی کنید و دوباره تلاش کنید.',
    ps: 'اړیکه نشته. شبکه وګورئ او بیا هڅه وکړئ.',
    tg: 'Пайваст нест. Шабакаро санҷед ва аз нав кӯшиш кунед.',
    ur: 'رابطہ نہیں ہے۔ نیٹ ورک دیکھ کر دوبارہ کوشش کریں۔',
    ar: 'لا يوجد اتصال. تحقق من الشبكة وحاول مرة أخرى.',
    ru: 'Нет соединения. Проверьте сеть и попробуйте снова.',
  },
  TIMEOUT: {
    en: 'This is taking too long. Please try again in a moment.',
    fa: 'پاسخ خیلی دیر شد. لطفاً کمی بعد دوباره تلاش کنید.',
    ps: 'ځواب ډېر وځنډېد. مهرباني وکړئ لږ وروسته بیا هڅه وکړئ.',
    tg: 'Ҷавоб хеле дер монд. Лутфан каме дертар аз нав кӯшиш кунед.',
    ur: 'جواب میں بہت دیر ہو رہی ہے۔ براہ کرم تھوڑی دیر بعد دوبارہ کوشش کریں۔',
    ar: 'استغرق الرد وقتًا طويلًا. يرجى المحاولة بعد قليل.',
    ru: 'Ответ занимает слишком много времени. Попробуйте чуть позже.',
  },
};
