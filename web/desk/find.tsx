// Finds a stay by room or name while it is typed, in whatever digits and spelling.
import { createRef } from 'preact';

import { say } from '../kit/i18n.js';
import { param } from '../kit/url.js';

export const filter = param('q', '', { replace: true });
const box = createRef<HTMLInputElement>();

export const Find = () => (
  <input ref={box} class="find" type="search" aria-label={say('find')} placeholder={say('find')} value={filter.value} onInput={(event) => (filter.value = event.currentTarget.value)}
    onKeyDown={(event) => event.key === 'Escape' && ((filter.value = ''), event.currentTarget.blur())} />
);

export function find(): void {
  box.current?.focus();
  box.current?.select();
}
