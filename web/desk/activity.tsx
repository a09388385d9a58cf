// Who did what in the house, for managers and owners. The newest first; older ones by pages.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

import type { Schemas } from '@melmastoon/bff/backoffice';

import { say } from '../kit/i18n.js';
import { source } from '../kit/load.js';
import { Honesty, Moment, Shown, State } from '../kit/parts.js';
import { ActivityLine } from './drawer.js';
import { desk, explain, propertyId } from './service.js';
import { zone } from './views.js';

type Page = Schemas['Activities'];
const first = source(async (signal) => (await desk.call('listActivity', { query: { limit: 50 }, signal })).data);
const older = signal<Page | undefined>(undefined);

export function Activity() {
  useEffect(() => {
    older.value = undefined;
    void first.again();
  }, [propertyId.value]);
  const more = async (cursor: string): Promise<void> => {
    try {
      const { data } = await desk.call('listActivity', { query: { limit: 50, cursor } });
      older.value = { ...data, items: [...(older.peek()?.items ?? []), ...data.items] };
    } catch (error) {
      explain(error);
    }
  };
  return (
    <section class="card stack" aria-label={say('view.activity')}>
      <div class="row apart wrap"><h2>{say('view.activity')}</h2><button class="little" onClick={() => void first.again()}>{say('again')}</button></div>
      <Honesty stale={first.value.error !== undefined}>{first.value.at !== undefined && <span>{say('asof')} <Moment at={first.value.at} zone={zone.value} seconds /></span>}</Honesty>
      <Shown of={first.value} failed={say('failed.view')}>{(page) => {
        const next = older.value === undefined ? page.nextCursor : older.value.nextCursor;
        const items = [...page.items, ...(older.value?.items ?? [])];
        return items.length === 0 ? <State title={say('activity.none')} /> : (
          <><ul class="stack close">{items.map((one) => <ActivityLine key={one.activityId} one={one} resource />)}</ul>
            {next !== undefined && <p><button onClick={() => void more(next)}>{say('older')}</button></p>}</>
        );
      }}</Shown>
    </section>
  );
}
