import bff = require('@melmastoon/bff');

export const jar: bff.CookieJar = new bff.CookieJar();
