// The sign-in: any of the simulated platform's people, with the key of this device.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

import { say, word } from '../kit/i18n.js';
import { source } from '../kit/load.js';
import { Bdi, Languages, Shown, ThemeSwitch, themeWords } from '../kit/parts.js';
import { speak } from './bar.js';
import { desk, people, reason, signIn } from './service.js';

const all = source(people);
const device = signal('');
const busy = signal('');

export function SignIn() {
  useEffect(() => {
    void all.again();
    void desk.deviceId().then((id) => (device.value = id));
  }, []);
  const enter = async (username: string, tenantId: string): Promise<void> => {
    busy.value = username + tenantId;
    await signIn(username, tenantId);
    busy.value = '';
  };
  return (
    <main class="wide sign-in stack">
      <div class="row apart wrap">
        <h1>{say('signin.title')}</h1>
        <div class="row"><Languages class="languages" aria-label={say('language')} choose={speak} /><ThemeSwitch words={themeWords()} /></div>
      </div>
      {reason.value !== '' && <p class="notice warm" role="alert"><Bdi>{reason.value}</Bdi></p>}
      <p class="dim">{say('signin.who')}</p>
      <Shown of={all.value} failed={say('failed.people')}>{(found) => (
        <ul class="grid people">
          {found.flatMap((person) => person.memberships.map((member) => (
            <li key={person.username + member.tenantId}>
              <button class="person" data-username={person.username} disabled={busy.value !== ''} aria-busy={busy.value === person.username + member.tenantId} onClick={() => void enter(person.username, member.tenantId)}>
                <span class="face" aria-hidden="true"><bdi>{person.displayName.slice(0, 1)}</bdi></span>
                <span class="stack none">
                  <strong><Bdi>{person.displayName}</Bdi></strong>
                  <span class="small dim">{member.roles.map((role) => word('role', role)).join(' · ')}</span>
                  <span class="tiny dim"><Bdi>{member.tenantName}</Bdi> {(person.locked === true || member.tenantStatus !== 'active') && <span class="chip bad">{person.locked === true ? say('signin.locked') : say('signin.suspended')}</span>}</span>
                </span>
              </button>
            </li>
          )))}
        </ul>
      )}</Shown>
      <p class="honesty">{say('signin.key')} <Bdi ltr class="mono">{device.value}</Bdi></p>
    </main>
  );
}
