// Parts that most guests of a first page do not need yet.
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { Ghost } from '../kit/parts.js';
import { Trouble } from './honesty.js';

/** A part that is loaded when it is shown, and says so when the line does not give it. */
export function later<P extends object>(load: () => Promise<{ default: ComponentType<P> }>): ComponentType<P> {
  let part: ComponentType<P> | undefined;
  return function Later(props: P) {
    const [error, fail] = useState<unknown>();
    const [, loaded] = useState(() => part); // as a value: a bare function would be called for one
    const get = (): void => {
      fail(undefined);
      void load().then((module) => loaded(() => (part = module.default)), () => fail({ code: 'NETWORK' }));
    };
    useEffect(() => void (part ?? get()), []);
    if (error !== undefined) return <Trouble error={error} again={get} />;
    return part === undefined ? <div class="wide"><Ghost lines={8} /></div> : ((Part) => <Part {...props} />)(part);
  };
}
