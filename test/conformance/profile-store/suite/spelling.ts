import { formerSpellings, type Identity, type ProfileWrite } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { attribute, EVENT, identitiesOf, identity, treeOf } from './people.ts';
import type { Stage } from './stage.ts';

/** As an earlier release stored it. */
function asStored(value: string): Identity {
  return { type: 'email', value };
}

/**
 * Names an identity by a `type:value` text as it was sent: the identity, and the older spellings under which
 * it may be stored.
 */
function spelled(...texts: readonly string[]): Pick<ProfileWrite, 'identities' | 'olderSpellings'> {
  const sent = texts.map((text) => ({ text, of: identity(text) }));
  return {
    identities: sent.map(({ of }) => of),
    olderSpellings: sent.flatMap(({ text, of }) =>
      formerSpellings(of, text.slice(text.indexOf(':') + 1), 'usual').map((one) => ({ of, identity: one })),
    ),
  };
}

export function spelling(stage: Stage): void {
  describe('an identity that was stored under an older spelling', () => {
    const OLD = 'zo\u00eb@\u00f8st.example';
    const NEW = 'zo\u00eb@xn--st-kka.example';

    /** A profile from before the upgrade. */
    async function before(value = OLD, others: readonly string[] = []) {
      const people = stage.people();
      const rest = { ...people.scope, preferences: [], consents: [], linking: 'merge' as const };
      const outcome = await people.store.upsert({
        ...rest,
        identities: [asStored(value), ...others.map(identity)],
        attributes: [attribute('n', 1)],
      });
      if (outcome.kind === 'refused') throw new Error(outcome.reason);
      const write = (texts: readonly string[], changes: Partial<ProfileWrite> = {}) =>
        people.store.upsert({ ...rest, ...spelled(...texts), attributes: [], ...changes });
      return { people, made: outcome.profile, write };
    }

    it.each(['merge', 'keep-people-apart'] as const)(
      'was another person to every write (%s), and stays findable by both',
      async (linking) => {
        const { people, made, write } = await before();
        const written = await write(['email:Zoe\u0308@\u00d8st.example'], {
          linking,
          attributes: [attribute('m', 2)],
        });
        expect(written).toMatchObject({ kind: 'written', leftOut: [], profile: { ucid: made.ucid } });
        const found = await people.find(`email:${NEW}`);
        expect(treeOf(found)).toEqual({ d: { n: 1, m: 2 } });
        expect(identitiesOf(found)).toEqual([`email:${NEW}`, `email:${OLD}`]);
        const old = { ...people.scope, regions: ['eu'], identities: [asStored(OLD)], ucids: [] };
        expect(await people.store.search(old)).toEqual([found]);
        expect(await people.store.delete({ ...old, identities: [identity(`email:${NEW}`)] })).toMatchObject({
          deleted: [made.ucid],
        });
        expect(await people.store.search(old)).toEqual([]);
        const late = { happenedAt: Date.now() - 60_000, receivedAt: Date.now(), ...EVENT };
        expect(await write([`email:${OLD}`], late)).toEqual({ kind: 'refused', reason: 'nothing_left' });
      },
    );
  });
}
