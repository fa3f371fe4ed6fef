import type { CanonicalEvent } from '@tributary/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { findProgram, pythonWithSdks } from './programs.ts';
import { expectAll } from './sent-events.ts';
import { programSender, SENT_WITHIN_MS, sendThroughRestart } from './through-restart.ts';

const ROUNDS = 1_000;
const NAMES = ['segment-analytics-python', 'rudder-sdk-python'];
/** The time to install the SDKs if they are missing. */
const INSTALLED_WITHIN_MS = 60_000;
const python = findProgram('python3');

describe.skipIf(python === undefined)(
  'an SDK from PyPI, unmodified, while the server is killed and started again',
  () => {
    let sent: ReadonlyMap<string, readonly CanonicalEvent[]>;
    beforeAll(async () => {
      const command = pythonWithSdks(python ?? '');
      const senders = NAMES.map((name) =>
        programSender(name, [command, '-B', new URL(`senders/${name}.py`, import.meta.url).pathname]),
      );
      sent = await sendThroughRestart(senders, ROUNDS);
    }, INSTALLED_WITHIN_MS + SENT_WITHIN_MS);

    it.each(NAMES)('%s sends every event once, with all its fields', (name) => {
      const events = sent.get(name);
      expectAll(events, name, ROUNDS);
      for (const event of events ?? []) {
        expect(event.anonymous_id).toBe(`${name}-device`);
        expect(event).toMatchObject({ integrations: { All: true, Elsewhere: false } });
      }
    });
  },
);
