import { describe, expect, it } from 'vitest';
import { stepsOf } from './units.ts';
import { type BatchAttempt, runBatch } from './vendor-calls.ts';

const ok = { status: 200 };
const expired = { status: 401, errormessage: 'expired' };
const told = (
  multistatus: BatchAttempt<string>['multistatus'],
  over: Partial<BatchAttempt<string>> = {},
) => ({
  performed: 'each' as const,
  multistatus,
  token: 'old',
  isTokenRefused: false,
  ...over,
});

/** Runs a batch of ten with these attempts one after the other; the places of each call. */
async function run(attempts: readonly BatchAttempt<string>[], renews = true) {
  const calls: (readonly number[])[] = [];
  const ended = await runBatch<string>(
    10,
    async (places) => {
      calls.push(places);
      return attempts[calls.length - 1] ?? told(places.map(() => ok));
    },
    () => renews,
  );
  return { ...ended, calls };
}

const all = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

describe('a batch', () => {
  it('was sent again with those that had 200, as one of ten had a token that expired', async () => {
    const first = told(all.map((at) => (at === 6 ? expired : ok)));
    const { calls, each } = await run([first]);
    expect(calls).toEqual([all, [6]]);
    expect(each?.map((one) => one?.status)).toEqual(Array(10).fill(200));
  });

  it('is sent once more at most, and not at all where no other token can be had', async () => {
    const again = await run([told(all.map(() => expired)), told(all.map(() => expired))]);
    expect(again.calls).toEqual([all, all]);
    expect(again.each?.every((one) => one?.status === 401)).toBe(true);
    expect((await run([told(all.map(() => expired))], false)).calls).toEqual([all]);
  });

  it('runs without the events that the schema or the action leaves out, which keep their reasons', async () => {
    const bad = { status: 400, errormessage: 'no email' };
    const incomplete = told(
      all.map((at) => (at === 1 ? bad : ok)),
      { performed: 'incomplete' },
    );
    const rest = all.filter((at) => at !== 1);
    const apart = told(
      rest.map((at) => (at === 4 ? bad : ok)),
      { performed: 'apart' },
    );
    const { calls, each } = await run([incomplete, apart, told(Array(8).fill(ok)), told([bad])]);
    expect(calls).toEqual([all, rest, rest.filter((at) => at !== 4), [4]]);
    expect(each?.[1]).toEqual({ message: 'no email' });
    expect(each?.[4]).toEqual({ status: 400, message: 'no email' });
    expect(each?.filter((one) => one?.status === 200)).toHaveLength(8);
  });

  it('of which the action says nothing is left to the answers', async () => {
    const { each } = await run([
      told(
        all.map(() => ok),
        { performed: 'whole' },
      ),
    ]);
    expect(each).toEqual(Array(10).fill(null));
    const failed = await run([told([], { error: { name: 'HTTPError', message: 'no' } })]);
    expect(failed).toMatchObject({ each: Array(10).fill(null), error: { name: 'HTTPError' } });
  });
});

describe('the calls of a job', () => {
  const place = (subscription: number, group = 'a') => ({ subscription, action: `a${subscription}`, group });
  const steps = (events: readonly (readonly [string, ...ReturnType<typeof place>[]])[]) =>
    stepsOf(events.map(([subject, ...places]) => ({ subject, places }))).map((step) =>
      step.map(({ subscription, events: own }) => [subscription, own]),
    );

  it('are one for a subscription, where no event would overtake another of its subject', () => {
    expect(
      steps([
        ['x', place(0), place(1)],
        ['x', place(0), place(1)],
        ['y', place(1)],
      ]),
    ).toEqual([[[0, [0, 1]]], [[1, [0, 1, 2]]]]);
    expect(
      steps([
        ['x', place(1)],
        ['y', place(0)],
        ['x', place(0)],
      ]),
    ).toEqual([[[0, [1]]], [[1, [0]]], [[0, [2]]]]);
  });

  it('follow each other for a subject whose events go to several calls of a subscription', () => {
    expect(
      steps([
        ['x', place(0, 'a')],
        ['x', place(0, 'b')],
        ['y', place(0, 'b')],
      ]),
    ).toEqual([
      [
        [0, [0]],
        [0, [2]],
      ],
      [[0, [1]]],
    ]);
  });
});
