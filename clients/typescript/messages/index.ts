import { messages, type Language, type MessageKey } from './catalogue.js';

export { messages, type Language, type MessageKey };

/**
 * The text for people in the language of a locale such as `fa-AF`, or in English. A key that is newer than this package has the text of
 * `error.general.internal`, and so has a failure without one: `message(error.problem?.userMessageKey, locale)`.
 */
export function message(key: MessageKey | undefined, locale: string): string {
  const texts = key !== undefined && Object.hasOwn(messages, key) ? messages[key] : messages['error.general.internal'];
  const language = locale.split('-', 1)[0]?.toLowerCase() ?? '';
  return Object.hasOwn(texts, language) ? texts[language as Language] : texts.en;
}
