import { beforeAll, describe, expect, it } from 'vitest';
import { buildGoSender, findProgram } from './programs.ts';
import { expectAll } from './sent-events.ts';
import { programSender, SENT_WITHIN_MS, sendThroughRestart } from './through-restart.ts';

const LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
const ROUNDS = 1_000;
// Compiling takes half a minute of a core, so this is part of the long run alone.
const go = LONG ? findProgram('go') : undefined;

describe.skipIf(go === undefined)('analytics-go, unmodified', () => {
  let command: readonly string[];
  beforeAll(() => {
    command = [buildGoSender(go ?? '')];
  }, 240_000);

  it(
    'sends every event once, with all its fields, while the server is killed and started again',
    async () => {
      const name = 'analytics-go';
      const sent = await sendThroughRestart([programSender(name, command)], ROUNDS);
      expectAll(sent.get(name), name, ROUNDS);
      for (const event of sent.get(name) ?? []) {
        expect(event.anonymous_id).toBe(`${name}-device`);
        expect(event).toMatchObject({
          context: { library: { name: 'analytics-go' } },
          integrations: { All: true, Elsewhere: false },
        });
      }
    },
    SENT_WITHIN_MS,
  );
});
